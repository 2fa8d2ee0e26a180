"""Where the kinds of ``kueue.x-k8s.io`` live on a server, in the version that is stored and counts."""

from __future__ import annotations

from typing import Final

from headgate.kube.resource import Resource
from headgate.quota.names import GROUP

STORED: Final = "v1beta2"
OLDER: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{STORED}"
OLDER_API_VERSION: Final = f"{GROUP}/{OLDER}"

RESOURCE_FLAVORS: Final = Resource(GROUP, STORED, "resourceflavors", namespaced=False)
CLUSTER_QUEUES: Final = Resource(GROUP, STORED, "clusterqueues", namespaced=False)
COHORTS: Final = Resource(GROUP, STORED, "cohorts", namespaced=False)
LOCAL_QUEUES: Final = Resource(GROUP, STORED, "localqueues", namespaced=True)
WORKLOADS: Final = Resource(GROUP, STORED, "workloads", namespaced=True)
PRIORITY_CLASSES: Final = Resource(GROUP, STORED, "workloadpriorityclasses", namespaced=False)
ADMISSION_CHECKS: Final = Resource(GROUP, STORED, "admissionchecks", namespaced=False)

ELASTIC_JOB: Final = f"{GROUP}/elastic-job"
"""The annotation that asks for workload slices."""
MULTIKUEUE: Final = f"{GROUP}/multikueue"
PROVISIONING: Final = f"{GROUP}/provisioning-request"
"""Controllers of admission checks that are not served here."""
SLICE_REPLACEMENT: Final = f"{GROUP}/workload-slice-replacement-for"
"""The annotation by which one slice takes the place of another."""
