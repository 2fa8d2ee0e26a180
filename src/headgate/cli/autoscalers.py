"""The autoscalers that an embedded cluster can have: models of ``nodes/models/``, with one kind of machine to buy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.nodes.models.claims import Pool
from headgate.nodes.models.cluster_autoscaler import ClusterAutoscaler, Flags
from headgate.nodes.models.contract import Model
from headgate.nodes.models.karpenter import Karpenter
from headgate.nodes.models.machine import Shape
from headgate.nodes.models.node_groups import Group

POOL: Final = "pool"
"""The one group of machines: they are called ``pool-0001`` and so on."""
MAKERS: Final[dict[str, Callable[[Shape, Flags, float], Model]]] = {
    "cluster-autoscaler": lambda shape, flags, idle_s: ClusterAutoscaler([Group(POOL, shape)], flags),
    "karpenter": lambda shape, flags, idle_s: Karpenter([Pool(POOL, (shape,), consolidate_after_s=idle_s)]),
}


def make_autoscaler(name: str, shape: Shape, flags: Flags | None = None, idle_s: float = 0.0) -> Model:
    """``flags`` are Cluster Autoscaler's, ``idle_s`` is how long Karpenter lets an idle machine be."""
    return MAKERS[name](shape, flags or Flags(), idle_s)
