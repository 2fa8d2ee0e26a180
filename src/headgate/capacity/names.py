"""Names of queue admission: the gate, annotations and resources. Volcano's names where Volcano has one.

``capacity/api/stamp.py`` encodes the stamp; ``capacity/api/task.py`` and ``admission/`` read the annotations.
"""

from __future__ import annotations

from typing import Final

from headgate.kube.api_resources import APIResource
from headgate.kube.scheduling_gates import QUEUE_ALLOCATION_GATE

GROUP: Final = "scheduling.volcano.sh"
VERSION: Final = "v1beta1"
QUEUES: Final = APIResource(GROUP, VERSION, "queues", namespaced=False)
POD_GROUPS: Final = APIResource(GROUP, VERSION, "podgroups", namespaced=True)

GATE: Final = QUEUE_ALLOCATION_GATE
"""The scheduling gate that is removed when the pod's queue has capacity for it."""
OPT_IN: Final = GATE
"""The annotation that requests the gate: exactly ``"true"`` opts in, ``"false"`` opts out if a queue opts in for
all."""
QUEUE_NAME: Final = f"{GROUP}/queue-name"
"""Names the queue, on a pod or on a namespace."""
GROUP_NAMES: Final = ("scheduling.k8s.io/group-name", f"{GROUP}/group-name")
"""Annotations with the PodGroup of a pod, in its own namespace. The first that is set counts."""
TASK_SPEC: Final = "volcano.sh/task-spec"
"""The role of a pod in its group (``minTaskMember``)."""
PREEMPTABLE: Final = "volcano.sh/preemptable"
STAMP: Final = "headgate.dev/admitted"
"""The annotation that records the promise to a pod: ``capacity/api/stamp.py``."""
STATE: Final = "headgate.dev/state"
"""On a queue: ``Closed`` closes it, ``Open`` opens it (``capacity/api/queue_state.py``)."""

LEASE: Final = "headgate.dev/reservation-lease"
"""On a pod, a PriorityClass or a queue: how long a promise may stay without a node (``capacity/api/lease.py``)."""
LAPSED: Final = "headgate.dev/lapsed"
"""The annotation that records on a pod that a promise to it has lapsed: ``capacity/api/lease.py``."""
MAX_PODS_WITHOUT_NODE: Final = "headgate.dev/max-pods-without-node"
"""On a queue: how many pods of this queue and all queues below it may have a promise and no node at the same time. On
the queue ``root`` it limits all queues together."""
WITHOUT_NODE_TIMEOUT: Final = "headgate.dev/without-node-timeout"
"""On a queue with ``MAX_PODS_WITHOUT_NODE``: how long a pod counts in that limit."""

DEQUEUE_STRATEGY: Final = "headgate.dev/dequeue-strategy"
"""On a queue: which units may pass the first in line (``capacity/grants/head_of_line.py``). It takes precedence over
Volcano's ``spec.dequeueStrategy``, which has no value ``backfill``."""
SLA_WAITING_TIMES: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
"""Annotations of a PodGroup, or of a pod without one: how long it may wait until it is protected, if the plugin ``sla``
is configured. The first that is set counts."""

ROOT: Final = "root"
DEFAULT: Final = "default"
MAX_DEPTH: Final = 5
"""The maximum number of levels below the root."""
