"""Settings of the whole hollow fleet; annotations override them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

RESOURCES: Final = MappingProxyType({"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"})


class HollowOptions(msgspec.Struct, frozen=True):
    boot_s: float = 0.0
    """From the creation of a node to its being Ready."""
    start_s: float = 0.0
    """From a pod's admission to its containers' start."""
    stop_s: float = 0.0
    """How long containers take to stop when their pod is deleted."""
    job_run_s: float | None = 1.0
    """How long pods of Jobs run if they do not say; ``None``: until they are deleted."""
    controller_manager: bool = False
    """Whether controllers look after nodes, Kubernetes' or ours. Without, the fleet takes the not-ready taint off; with
    them, it renews leases instead. Pods of lost nodes are no business of the fleet (``controllers/pod_gc.py``)."""
    heartbeat_s: float = 10.0
    lease_s: int = 40
    report_s: float = 300.0
    """How often a node's status is written again though nothing changed, if there is a controller manager."""
    kubelet_version: str = "v1.35.8"
    resources: Mapping[str, str] = RESOURCES
    """What a node has that does not say."""
