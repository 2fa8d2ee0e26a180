"""NodeClaims of Karpenter: a plan of the pods on a new machine, whose instance type is still open.

Pods are added while some instance type of the pool fits them all; the cheapest of those is bought in the end. Pools are
tried by weight. ``karpenter.py`` decides which pods are planned, and when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headgate.nodes.autoscalers.bin_packing import planned_node
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.autoscalers.pending_pods import AutoscalerPod


class NodePool(msgspec.Struct, frozen=True):
    """A NodePool, with the instance types that its provider offers for it."""

    name: str
    shapes: tuple[InstanceType, ...]
    weight: int = 0
    limits: Mapping[str, int] = {}
    """In units; resources that are not named are not limited."""
    consolidate_after_s: float | None = 0.0
    """``None``: Never."""


class NodeClaim(msgspec.Struct):
    """Mutable: it gathers pods while one plan is made."""

    pool: NodePool
    shapes: Sequence[InstanceType]
    pods: list[AutoscalerPod]

    def add(self, pod: AutoscalerPod) -> bool:
        """False if no shape would hold this pod as well."""
        fitting = [shape for shape in self.shapes if _holds(self.pool, shape, [*self.pods, pod])]
        if not fitting:
            return False
        self.shapes = fitting
        self.pods.append(pod)
        return True

    @property
    def shape(self) -> InstanceType:
        return min(self.shapes, key=lambda shape: (shape.price, shape.name))


class NodeClaimPlan:
    """The claims of one pass."""

    def __init__(self, pools: Sequence[NodePool]) -> None:
        self._pools = sorted(pools, key=lambda pool: (-pool.weight, pool.name))
        self.claims: list[NodeClaim] = []

    def add(self, pod: AutoscalerPod) -> bool:
        """To the claim with the fewest pods that can hold it, or to a new one."""
        for claim in sorted(self.claims, key=lambda claim: len(claim.pods)):
            if claim.add(pod):
                return True
        for pool in self._pools:
            claim = NodeClaim(pool, pool.shapes, [])
            if claim.add(pod):
                self.claims.append(claim)
                return True
        return False


def within_limits(pool: NodePool, used: Mapping[str, int], shape: InstanceType) -> bool:
    size = shape.counts
    return all(used.get(name, 0) + size.get(name, 0) <= limit for name, limit in pool.limits.items())


def _holds(pool: NodePool, shape: InstanceType, pods: Sequence[AutoscalerPod]) -> bool:
    spot = planned_node("new", pool.name, shape)
    for pod in pods:
        if not spot.fits(pod):
            return False
        spot.add_pod(pod)
    return True
