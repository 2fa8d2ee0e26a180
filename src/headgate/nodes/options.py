"""Settings of all hollow kubelets; annotations override them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

DEFAULT_RESOURCES: Final = MappingProxyType({"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"})


class HollowOptions(msgspec.Struct, frozen=True):
    boot_s: float = 0.0
    """From the creation of a node to its being Ready."""
    start_s: float = 0.0
    """From a pod's admission to the start of its containers."""
    stop_s: float = 0.0
    """How long containers take to stop when their pod is deleted."""
    job_run_s: float | None = 1.0
    """How long pods of Jobs run without an annotation; ``None``: until they are deleted."""
    controller_manager: bool = False
    """Whether a node lifecycle controller runs, Kubernetes' or Headgate's. Without one, the hollow kubelets remove the
    not-ready taint; with one, they renew leases instead. ``controllers/pod_gc.py`` deletes pods of lost nodes."""
    heartbeat_s: float = 10.0
    lease_s: int = 40
    report_s: float = 300.0
    """How often an unchanged node status is written again, if there is a controller manager."""
    kubelet_version: str = "v1.35.8"
    resources: Mapping[str, str] = DEFAULT_RESOURCES
    """The capacity of a node whose status has none."""
