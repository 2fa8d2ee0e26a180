"""API resources of ``kueue.x-k8s.io`` in the stored version."""

from __future__ import annotations

from typing import Final

from headgate.kube.api_resources import APIResource
from headgate.quota.names import GROUP

STORED: Final = "v1beta2"
OLDER: Final = "v1beta1"
API_VERSION: Final = f"{GROUP}/{STORED}"
OLDER_API_VERSION: Final = f"{GROUP}/{OLDER}"

RESOURCE_FLAVORS: Final = APIResource(GROUP, STORED, "resourceflavors", namespaced=False)
CLUSTER_QUEUES: Final = APIResource(GROUP, STORED, "clusterqueues", namespaced=False)
COHORTS: Final = APIResource(GROUP, STORED, "cohorts", namespaced=False)
LOCAL_QUEUES: Final = APIResource(GROUP, STORED, "localqueues", namespaced=True)
WORKLOADS: Final = APIResource(GROUP, STORED, "workloads", namespaced=True)
PRIORITY_CLASSES: Final = APIResource(GROUP, STORED, "workloadpriorityclasses", namespaced=False)
ADMISSION_CHECKS: Final = APIResource(GROUP, STORED, "admissionchecks", namespaced=False)

ELASTIC_JOB: Final = f"{GROUP}/elastic-job"
"""The annotation that requests workload slices."""
MULTIKUEUE: Final = f"{GROUP}/multikueue"
PROVISIONING: Final = f"{GROUP}/provisioning-request"
"""The controllers of Kueue's admission checks that Headgate does not support."""
SLICE_REPLACEMENT: Final = f"{GROUP}/workload-slice-replacement-for"
"""The annotation of a slice that replaces another."""
