"""Counters per ClusterQueue and LocalQueue: pending, reserving and admitted workloads, and their usage.

Each change costs only the changed workload; a status is read without a recount.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from headgate.quota.api.cohort import FlavorResource, Usage

State = Literal["waiting", "reserving", "admitted"]
QueueRef = tuple[Literal["cluster queue", "local queue"], str]
"""A ClusterQueue by name, or a LocalQueue by namespace/name."""


class CountedWorkload(msgspec.Struct, frozen=True):
    """The state and the queues of a workload. ``cluster_queue`` is empty while it is unknown."""

    local_queue: str
    cluster_queue: str
    state: State
    usage: Usage = {}

    def queues(self) -> list[QueueRef]:
        known: list[QueueRef] = [("local queue", self.local_queue)]
        return [*known, ("cluster queue", self.cluster_queue)] if self.cluster_queue else known


class QueueCounts:
    """Of one queue. ``reserved``: all reserved usage, ``admitted``: the part of admitted workloads."""

    def __init__(self) -> None:
        self.states: Final[Counter[State]] = Counter()
        self.reserved: Final[Counter[FlavorResource]] = Counter()
        self.admitted: Final[Counter[FlavorResource]] = Counter()

    def add(self, standing: CountedWorkload, sign: int) -> None:
        self.states[standing.state] += sign
        for fr, amount in standing.usage.items():
            self.reserved[fr] += sign * amount
            if standing.state == "admitted":
                self.admitted[fr] += sign * amount

    @property
    def holding(self) -> int:
        return self.states["reserving"] + self.states["admitted"]


class WorkloadCounters:
    def __init__(self) -> None:
        self._standings: Final[dict[str, CountedWorkload]] = {}
        self._counts: Final[dict[QueueRef, QueueCounts]] = {}
        self._waiting: Final[dict[str, dict[str, None]]] = {}  # keys by local queue

    def put(self, key: str, standing: CountedWorkload | None) -> list[QueueRef]:
        """The places whose counts are other ones now."""
        before = self._standings.get(key)
        if before == standing:
            return []
        touched: dict[QueueRef, None] = {}
        if before is not None:
            del self._standings[key]
            self._count(key, before, -1)
            touched.update(dict.fromkeys(before.queues()))
        if standing is not None:
            self._standings[key] = standing
            self._count(key, standing, +1)
            touched.update(dict.fromkeys(standing.queues()))
        return list(touched)

    def set_cluster_queue(self, local_queue: str, cluster_queue: str) -> list[QueueRef]:
        """Who waits in a local queue waits there now; empty: nobody knows where."""
        touched: dict[QueueRef, None] = {}
        for key in list(self._waiting.get(local_queue, ())):
            moved = msgspec.structs.replace(self._standings[key], cluster_queue=cluster_queue)
            touched.update(dict.fromkeys(self.put(key, moved)))
        return list(touched)

    def counts(self, place: QueueRef) -> QueueCounts:
        return self._counts.get(place) or QueueCounts()

    def _count(self, key: str, standing: CountedWorkload, sign: int) -> None:
        for place in standing.queues():
            counts = self._counts.setdefault(place, QueueCounts())
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
