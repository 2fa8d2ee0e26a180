"""Counters per ClusterQueue and LocalQueue: pending, reserving and admitted workloads, and their usage.

Each change costs only the changed workload; a status is read without a recount.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from headgate.quota.api.resource_groups import FlavorResource, Usage

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
    """The counts of one queue. ``states``: the number of workloads by state. ``reserved``: the usage of all workloads
    with quota; ``admitted``: the part of it that admitted workloads use."""

    def __init__(self) -> None:
        self.states: Final[Counter[State]] = Counter()
        self.reserved: Final[Counter[FlavorResource]] = Counter()
        self.admitted: Final[Counter[FlavorResource]] = Counter()

    def add(self, counted: CountedWorkload, sign: int) -> None:
        self.states[counted.state] += sign
        for fr, amount in counted.usage.items():
            self.reserved[fr] += sign * amount
            if counted.state == "admitted":
                self.admitted[fr] += sign * amount

    @property
    def holding(self) -> int:
        """The number of workloads that hold quota."""
        return self.states["reserving"] + self.states["admitted"]


class WorkloadCounters:
    def __init__(self) -> None:
        self._counted: Final[dict[str, CountedWorkload]] = {}
        self._counts: Final[dict[QueueRef, QueueCounts]] = {}
        self._waiting: Final[dict[str, dict[str, None]]] = {}  # keys by local queue

    def put(self, key: str, counted: CountedWorkload | None) -> list[QueueRef]:
        """Returns the queues whose counts changed."""
        before = self._counted.get(key)
        if before == counted:
            return []
        changed: dict[QueueRef, None] = {}
        if before is not None:
            del self._counted[key]
            self._count(key, before, -1)
            changed.update(dict.fromkeys(before.queues()))
        if counted is not None:
            self._counted[key] = counted
            self._count(key, counted, +1)
            changed.update(dict.fromkeys(counted.queues()))
        return list(changed)

    def set_cluster_queue(self, local_queue: str, cluster_queue: str) -> list[QueueRef]:
        """Moves the pending workloads of a LocalQueue to another ClusterQueue; empty if it is unknown."""
        changed: dict[QueueRef, None] = {}
        for key in list(self._waiting.get(local_queue, ())):
            moved = msgspec.structs.replace(self._counted[key], cluster_queue=cluster_queue)
            changed.update(dict.fromkeys(self.put(key, moved)))
        return list(changed)

    def counts(self, queue_ref: QueueRef) -> QueueCounts:
        return self._counts.get(queue_ref) or QueueCounts()

    def _count(self, key: str, counted: CountedWorkload, sign: int) -> None:
        for queue_ref in counted.queues():
            counts = self._counts.setdefault(queue_ref, QueueCounts())
            counts.add(counted, sign)
            if sum(counts.states.values()) == 0:
                del self._counts[queue_ref]
        if counted.state != "waiting":
            return
        keys = self._waiting.setdefault(counted.local_queue, {})
        if sign > 0:
            keys[key] = None
        else:
            del keys[key]
            if not keys:
                del self._waiting[counted.local_queue]


def nonzero(amounts: Mapping[FlavorResource, int]) -> dict[FlavorResource, int]:
    return {fr: amount for fr, amount in sorted(amounts.items()) if amount}
