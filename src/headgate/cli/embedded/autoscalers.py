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
"""The one group of machines: they are called ``pool-0001`` and so on."""
MAKERS: Final[dict[str, Callable[[InstanceType, ClusterAutoscalerFlags, float], AutoscalerModel]]] = {
    "cluster-autoscaler": lambda shape, flags, idle_s: ClusterAutoscaler([NodeGroup(POOL, shape)], flags),
    "karpenter": lambda shape, flags, idle_s: Karpenter([NodePool(POOL, (shape,), consolidate_after_s=idle_s)]),
}


def make_autoscaler(
    name: str, shape: InstanceType, flags: ClusterAutoscalerFlags | None = None, idle_s: float = 0.0
) -> AutoscalerModel:
    """``flags`` are Cluster Autoscaler's, ``idle_s`` is how long Karpenter lets an idle machine be."""
    return MAKERS[name](shape, flags or ClusterAutoscalerFlags(), idle_s)
