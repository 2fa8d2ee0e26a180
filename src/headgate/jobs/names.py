"""Labels, annotations and other names that jobs and their Workloads use."""

from __future__ import annotations

from typing import Final

from headgate.kube.api_resources import APIResource
from headgate.quota.names import GROUP

QUEUE_NAME: Final = f"{GROUP}/queue-name"
PRIORITY_CLASS: Final = f"{GROUP}/priority-class"
STOPPING: Final = f"{GROUP}/stopping"
"""The annotation of a suspended job whose templates are not restored yet."""
DEFAULT_TEMPLATE: Final = "headgate.dev/default-template"
"""The annotation of a pod template that the start of a job has written because the job had none."""
RELEASED: Final = "headgate.dev/released"
"""The annotation of a job or a pod that an uninstallation has given up (``framework/release_mark.py``)."""
SCHEDULING_GATED_BY: Final = f"{GROUP}/scheduling-gated-by"
DEFAULT_QUEUE: Final = "default"
"""The LocalQueue for all jobs of its namespace that name none."""
PREBUILT_WORKLOAD: Final = f"{GROUP}/prebuilt-workload-name"
MAX_EXEC_TIME: Final = f"{GROUP}/max-exec-time-seconds"
MIN_PARALLELISM: Final = f"{GROUP}/job-min-parallelism"
COMPLETIONS_EQUAL_PARALLELISM: Final = f"{GROUP}/job-completions-equal-parallelism"
POD_SET_LABEL: Final = f"{GROUP}/podset"
CLUSTER_QUEUE_LABEL: Final = f"{GROUP}/cluster-queue-name"
LOCAL_QUEUE_LABEL: Final = f"{GROUP}/local-queue-name"
"""The last three: labels that a template gets when its job starts."""
ELASTIC: Final = f"{GROUP}/elastic-job"

# Pods.
MANAGED: Final = f"{GROUP}/managed"
"""The label of managed pods, with the value ``"true"``, and their finalizer."""
ADMISSION_GATE: Final = f"{GROUP}/admission"
TOPOLOGY_GATE: Final = f"{GROUP}/topology"
OWN_GATES: Final = (ADMISSION_GATE, TOPOLOGY_GATE)
"""The scheduling gates that are removed when the Workload of a pod is admitted."""
POD_GROUP_PREFIX: Final = "headgate.dev/pod-group-prefix"
"""The annotation of a pod template with the beginning of the names of its pod groups (``admission/gated_kinds.py``)."""
POD_GROUP_NAME: Final = f"{GROUP}/pod-group-name"
"""A label, or an annotation for names that are too long for a label."""
TOTAL_COUNT: Final = f"{GROUP}/pod-group-total-count"
FAST_ADMISSION: Final = f"{GROUP}/pod-group-fast-admission"
SERVING: Final = f"{GROUP}/pod-group-serving"
RETRIABLE_IN_GROUP: Final = f"{GROUP}/retriable-in-group"
ROLE_HASH: Final = f"{GROUP}/role-hash"
SUSPENDING_PARENT: Final = f"{GROUP}/pod-suspending-parent"
IS_GROUP_WORKLOAD: Final = f"{GROUP}/is-group-workload"
TERMINATION_TARGET: Final = "TerminationTarget"
"""The condition of a pod with the reason of its termination."""
SAFE_TO_FORCEFULLY_DELETE: Final = f"{GROUP}/safe-to-forcefully-delete"

POD_PRIORITY_CLASSES: Final = APIResource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
COMPONENT: Final = "kueue-job-controller"
