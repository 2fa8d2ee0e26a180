"""The labels, annotations and words by which jobs and their Workloads speak to each other."""

from __future__ import annotations

from typing import Final

from headgate.kube.resource import Resource
from headgate.quota.names import GROUP

QUEUE_NAME: Final = f"{GROUP}/queue-name"
PRIORITY_CLASS: Final = f"{GROUP}/priority-class"
STOPPING: Final = f"{GROUP}/stopping"
"""On a job that was suspended and whose template is not yet what its user wrote."""
RESOURCE_IN_USE: Final = f"{GROUP}/resource-in-use"
"""The finalizer of Workloads: none goes before its job has stopped."""
SCHEDULING_GATED_BY: Final = f"{GROUP}/scheduling-gated-by"
POD_PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
COMPONENT: Final = "kueue-job-controller"
