"""One minimal and one rich manifest for every kind that both servers serve, and a change each of them accepts."""

from __future__ import annotations

from harness.manifests.access import ACCESS_KINDS
from harness.manifests.cluster import CLUSTER_KINDS
from harness.manifests.core import CORE_KINDS
from harness.manifests.devices import DEVICE_KINDS
from harness.manifests.kind import Kind
from harness.manifests.network import NETWORK_KINDS
from harness.manifests.storage import STORAGE_KINDS
from harness.manifests.workloads import WORKLOAD_KINDS

KINDS: tuple[Kind, ...] = (
    *CORE_KINDS,
    *WORKLOAD_KINDS,
    *NETWORK_KINDS,
    *STORAGE_KINDS,
    *ACCESS_KINDS,
    *CLUSTER_KINDS,
    *DEVICE_KINDS,
)

__all__ = ["KINDS", "Kind"]
