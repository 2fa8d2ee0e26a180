"""NodeClaims of Karpenter: the pods planned for a new machine whose instance type is not chosen yet.

Pods are added while some instance type of the pool fits them all; the cheapest of those is ordered in the end. Pools
are tried by weight. ``karpenter.py`` decides which pods are planned, and when.
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
    instance_types: tuple[InstanceType, ...]
    weight: int = 0
    limits: Mapping[str, int] = {}
    """In units; resources that are not named are not limited."""
    consolidate_after_s: float | None = 0.0
    """``None``: Never."""


class NodeClaim(msgspec.Struct):
    """Mutable: it gathers pods while one plan is made."""

    pool: NodePool
    instance_types: Sequence[InstanceType]
    pods: list[AutoscalerPod]

    def add(self, pod: AutoscalerPod) -> bool:
        """False if no instance type of the claim has capacity for this pod, too."""
        fitting = [
            instance_type
            for instance_type in self.instance_types
            if _fits_all(self.pool, instance_type, [*self.pods, pod])
        ]
        if not fitting:
            return False
        self.instance_types = fitting
        self.pods.append(pod)
        return True

    @property
    def instance_type(self) -> InstanceType:
        return min(self.instance_types, key=lambda shape: (shape.price, shape.name))


class NodeClaimPlan:
    """The claims of one pass."""

    def __init__(self, pools: Sequence[NodePool]) -> None:
        self._pools = sorted(pools, key=lambda pool: (-pool.weight, pool.name))
        self.claims: list[NodeClaim] = []

    def add(self, pod: AutoscalerPod) -> bool:
        """Adds the pod to the claim with the fewest pods that has capacity for it, or to a new one."""
        for claim in sorted(self.claims, key=lambda claim: len(claim.pods)):
            if claim.add(pod):
                return True
        for pool in self._pools:
            claim = NodeClaim(pool, pool.instance_types, [])
            if claim.add(pod):
                self.claims.append(claim)
                return True
        return False


def within_limits(pool: NodePool, used: Mapping[str, int], instance_type: InstanceType) -> bool:
    size = instance_type.counts
    return all(used.get(name, 0) + size.get(name, 0) <= limit for name, limit in pool.limits.items())


def _fits_all(pool: NodePool, instance_type: InstanceType, pods: Sequence[AutoscalerPod]) -> bool:
    candidate = planned_node("new", pool.name, instance_type)
    for pod in pods:
        if not candidate.fits(pod):
            return False
        candidate.add_pod(pod)
    return True
