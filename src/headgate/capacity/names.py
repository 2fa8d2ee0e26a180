"""The words of queue admission: gate, annotations, resources. Volcano's where Volcano has one, our own for the stamp.

What the stamp says is ``stamp.py``'s; who reads which word, and when, is ``task.py``'s and ``admission/``'s.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.gates import QUEUE_ALLOCATION
from headgate.kube.resource import Resource

GROUP: Final = "scheduling.volcano.sh"
VERSION: Final = "v1beta1"
QUEUES: Final = Resource(GROUP, VERSION, "queues", namespaced=False)
POD_GROUPS: Final = Resource(GROUP, VERSION, "podgroups", namespaced=True)

GATE: Final = QUEUE_ALLOCATION
"""The scheduling gate that is lifted when the pod's queue has room for it."""
OPT_IN: Final = GATE
"""The annotation that asks for it: exactly ``"true"`` opts in, ``"false"`` opts out of what a queue says for all."""
QUEUE_NAME: Final = f"{GROUP}/queue-name"
"""Names the queue, on a pod or on a namespace."""
GROUP_NAMES: Final = ("scheduling.k8s.io/group-name", f"{GROUP}/group-name")
"""Either names the PodGroup of a pod, in its own namespace. The first that is there counts."""
TASK_SPEC: Final = "volcano.sh/task-spec"
"""The role of a pod in its group (``minTaskMember``)."""
PREEMPTABLE: Final = "volcano.sh/preemptable"
STAMP: Final = "headgate.dev/admitted"
"""The proof that a pod was admitted: ``stamp.py``."""
STATE: Final = "headgate.dev/state"
"""On a queue: ``Closed`` closes it, ``Open`` opens it (``states.py``)."""

ROOT: Final = "root"
DEFAULT: Final = "default"
MAX_DEPTH: Final = 5
"""Of queues below the root."""
