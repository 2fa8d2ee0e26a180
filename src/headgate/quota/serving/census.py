"""How many workloads wait, hold quota and are admitted, and what they hold: per ClusterQueue and per LocalQueue.

Each change costs the workload that changed. What a status says is read off; nothing is counted anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from headgate.quota.cohort import FlavorResource, Usage

State = Literal["waiting", "reserving", "admitted"]
Place = tuple[Literal["cluster queue", "local queue"], str]
"""A ClusterQueue by name, or a LocalQueue by namespace/name."""


class Standing(msgspec.Struct, frozen=True):
    """Where a workload stands. ``cluster_queue`` is empty while nobody knows it."""

    local_queue: str
    cluster_queue: str
    state: State
    usage: Usage = {}

    def places(self) -> list[Place]:
        known: list[Place] = [("local queue", self.local_queue)]
        return [*known, ("cluster queue", self.cluster_queue)] if self.cluster_queue else known


class Counts:
    """Of one place. ``reserved`` has everything that is held, ``admitted`` what admitted workloads hold of it."""

    def __init__(self) -> None:
        self.states: Final[Counter[State]] = Counter()
        self.reserved: Final[Counter[FlavorResource]] = Counter()
        self.admitted: Final[Counter[FlavorResource]] = Counter()

    def add(self, standing: Standing, sign: int) -> None:
        self.states[standing.state] += sign
        for fr, amount in standing.usage.items():
            self.reserved[fr] += sign * amount
            if standing.state == "admitted":
                self.admitted[fr] += sign * amount

    @property
    def holding(self) -> int:
        return self.states["reserving"] + self.states["admitted"]


class Census:
    def __init__(self) -> None:
        self._standings: Final[dict[str, Standing]] = {}
        self._counts: Final[dict[Place, Counts]] = {}
        self._waiting: Final[dict[str, dict[str, None]]] = {}  # keys by local queue

    def put(self, key: str, standing: Standing | None) -> list[Place]:
        """The places whose counts are other ones now."""
        before = self._standings.get(key)
        if before == standing:
            return []
        touched: dict[Place, None] = {}
        if before is not None:
            del self._standings[key]
            self._count(key, before, -1)
            touched.update(dict.fromkeys(before.places()))
        if standing is not None:
            self._standings[key] = standing
            self._count(key, standing, +1)
            touched.update(dict.fromkeys(standing.places()))
        return list(touched)

    def lead(self, local_queue: str, cluster_queue: str) -> list[Place]:
        """Who waits in a local queue waits there now; empty: nobody knows where."""
        touched: dict[Place, None] = {}
        for key in list(self._waiting.get(local_queue, ())):
            moved = msgspec.structs.replace(self._standings[key], cluster_queue=cluster_queue)
            touched.update(dict.fromkeys(self.put(key, moved)))
        return list(touched)

    def counts(self, place: Place) -> Counts:
        return self._counts.get(place) or Counts()

    def _count(self, key: str, standing: Standing, sign: int) -> None:
        for place in standing.places():
            counts = self._counts.setdefault(place, Counts())
            counts.add(standing, sign)
            if sum(counts.states.values()) == 0:
                del self._counts[place]
        if standing.state != "waiting":
            return
        there = self._waiting.setdefault(standing.local_queue, {})
        if sign > 0:
            there[key] = None
        else:
            del there[key]
            if not there:
                del self._waiting[standing.local_queue]


def nonzero(amounts: Mapping[FlavorResource, int]) -> dict[FlavorResource, int]:
    return {fr: amount for fr, amount in sorted(amounts.items()) if amount}
