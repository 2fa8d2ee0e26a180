"""Node claims of Karpenter: a plan of which pods a new machine would hold, open as to which shape it will be.

Pods are added while some shape of the pool still holds them all; the cheapest of those is bought in the end. Pools are
tried by weight. Which pods are planned, and when, is ``karpenter.py``'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headgate.nodes.models.machine import Shape
from headgate.nodes.models.pod import Pod
from headgate.nodes.models.room import planned


class Pool(msgspec.Struct, frozen=True):
    """A NodePool, with the instance types that its provider offers for it."""

    name: str
    shapes: tuple[Shape, ...]
    weight: int = 0
    limits: Mapping[str, int] = {}
    """In units; resources that are not named are not limited."""
    consolidate_after_s: float | None = 0.0
    """``None``: Never."""


class Claim(msgspec.Struct):
    """Mutable: it gathers pods while one plan is made."""

    pool: Pool
    shapes: Sequence[Shape]
    pods: list[Pod]

    def add(self, pod: Pod) -> bool:
        """False if no shape would hold this pod as well."""
        fitting = [shape for shape in self.shapes if _holds(self.pool, shape, [*self.pods, pod])]
        if not fitting:
            return False
        self.shapes = fitting
        self.pods.append(pod)
        return True

    @property
    def shape(self) -> Shape:
        return min(self.shapes, key=lambda shape: (shape.price, shape.name))


class Plan:
    """The claims of one pass."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self._pools = sorted(pools, key=lambda pool: (-pool.weight, pool.name))
        self.claims: list[Claim] = []

    def add(self, pod: Pod) -> bool:
        """To the claim with the fewest pods that can hold it, or to a new one."""
        for claim in sorted(self.claims, key=lambda claim: len(claim.pods)):
            if claim.add(pod):
                return True
        for pool in self._pools:
            claim = Claim(pool, pool.shapes, [])
            if claim.add(pod):
                self.claims.append(claim)
                return True
        return False


def within_limits(pool: Pool, used: Mapping[str, int], shape: Shape) -> bool:
    size = shape.counts
    return all(used.get(name, 0) + size.get(name, 0) <= limit for name, limit in pool.limits.items())


def _holds(pool: Pool, shape: Shape, pods: Sequence[Pod]) -> bool:
    spot = planned("new", pool.name, shape)
    for pod in pods:
        if not spot.fits(pod):
            return False
        spot.take(pod)
    return True
