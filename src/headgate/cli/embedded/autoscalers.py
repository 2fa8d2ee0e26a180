"""The autoscalers of an embedded cluster: models of ``nodes/autoscalers/``, with one instance type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerFlags
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.autoscalers.karpenter import Karpenter
from headgate.nodes.autoscalers.model import AutoscalerModel
from headgate.nodes.autoscalers.node_claims import NodePool
from headgate.nodes.autoscalers.node_groups import NodeGroup

POOL: Final = "pool"
"""The name of the only group; its nodes are ``pool-0001`` and so on."""
MAKERS: Final[dict[str, Callable[[InstanceType, ClusterAutoscalerFlags, float], AutoscalerModel]]] = {
    "cluster-autoscaler": lambda shape, flags, idle_s: ClusterAutoscaler([NodeGroup(POOL, shape)], flags),
    "karpenter": lambda shape, flags, idle_s: Karpenter([NodePool(POOL, (shape,), consolidate_after_s=idle_s)]),
}


def make_autoscaler(
    name: str, instance_type: InstanceType, flags: ClusterAutoscalerFlags | None = None, idle_s: float = 0.0
) -> AutoscalerModel:
    """``flags``: for Cluster Autoscaler. ``idle_s``: Karpenter's ``consolidateAfter``."""
    return MAKERS[name](instance_type, flags or ClusterAutoscalerFlags(), idle_s)
