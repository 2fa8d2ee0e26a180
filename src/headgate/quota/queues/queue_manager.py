"""The queue manager: pending workloads per ClusterQueue, their heads, and inadmissible ones that wait for an event.

The order is priority, waiting time, uid. Workloads of one shape fit or do not fit together, so they form one group:
when its first does not fit, the group is parked as one unit, and workloads that join it cost no attempt. In a
StrictFIFO queue no workload passes the head: the queue itself is parked. Each unit registers the events that may help
it (``waiting/``). A workload that waits for its victims stays first (kueue#6929). ``quota/cycle/admission_cycle.py``
makes the attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from headgate.quota import names
from headgate.quota.api.cohort import FlavorResource
from headgate.quota.api.workload import Workload
from headgate.waiting.heap import Heap
from headgate.waiting.parking_lot import ParkingLot, RegisteredEvents
from headgate.waiting.queueing_hints import ClusterEventWithHint, Topic

Unit = tuple[Any, ...]


class PendingWorkload(msgspec.Struct, frozen=True):
    """``order_s``: the time that orders it in the queue."""

    workload: Workload
    queue: str
    order_s: float
    shape: Hashable

    @property
    def key(self) -> str:
        return self.workload.key

    @property
    def order(self) -> tuple[int, float, str]:
        return -self.workload.priority, self.order_s, self.workload.uid

    @property
    def is_preemptor(self) -> bool:
        """Whether the API shows that others were told to go for it: so an engine that starts anew knows."""
        return self.workload.lacks(names.QUOTA_RESERVED, names.WAITING_FOR_PREEMPTED)


class PendingReason(msgspec.Struct, frozen=True):
    """A condition's reason and message; the reason is empty if there is nothing to report."""

    reason: str
    message: str = ""


AvailableQuota = Callable[[str, FlavorResource], int]
"""How much of a resource a queue may use once everybody who was told to go has gone."""


class QuotaEvent(msgspec.Struct, frozen=True):
    """An event that may help the units that registered one of these topics."""

    topics: Sequence[Topic]
    room: AvailableQuota
    target: None = None


class EnoughQuota(msgspec.Struct, frozen=True):
    """A queueing hint for units that cannot preempt: with less available quota than this an attempt is useless."""

    queue: str
    resource: FlavorResource
    amount: int

    def matches(self, event: QuotaEvent, /) -> bool:
        return event.room(self.queue, self.resource) >= self.amount


class _PendingQueue:
    __slots__ = ("active", "failed", "groups", "stalled", "sticky", "strict")

    def __init__(self) -> None:
        self.groups: dict[Hashable, Heap[str]] = {}
        self.active: Heap[Hashable] = Heap()
        self.failed: dict[Hashable, tuple[int, float, str]] = {}  # shapes that are parked, by whom of them failed
        self.sticky = ""
        self.stalled = ""  # the first, if he is not worth a look
        self.strict = False


class QueueManager:
    def __init__(self, room: AvailableQuota) -> None:
        self._room = room
        self._waiters: dict[str, PendingWorkload] = {}
        self._pending_queues: dict[str, _PendingQueue] = {}
        self._lot: ParkingLot[Unit, PendingReason] = ParkingLot()
        self._ready: set[str] = set()
        self._joining: set[str] = set()
        self._unjoined: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._waiters

    def get(self, key: str) -> PendingWorkload | None:
        return self._waiters.get(key)

    def pending(self, queue: str) -> list[PendingWorkload]:
        """Everybody in a queue, in order."""
        line = self._pending_queues.get(queue)
        found = [self._waiters[key] for group in line.groups.values() for key in group] if line is not None else []
        return sorted(found, key=lambda each: (line is not None and line.sticky != each.key, each.order))

    def ready(self) -> list[str]:
        """Queues whose head is worth an attempt."""
        return sorted(self._ready)

    def is_ready(self, queue: str) -> bool:
        return queue in self._ready

    def holding_place(self) -> list[str]:
        """Queues whose head is not worth an attempt and keeps its place in a round."""
        return sorted(self._joining)

    def released_places(self) -> list[str]:
        """Queues that ceased to do so since this was asked last."""
        found, self._unjoined = self._unjoined, set()
        return sorted(found)

    def active_count(self, queue: str) -> int:
        """How many of a queue are not parked."""
        line = self._pending_queues.get(queue)
        if line is None:
            return 0
        return sum(len(group) for shape, group in line.groups.items() if shape not in line.failed)

    def inadmissible_count(self, queue: str) -> int:
        line = self._pending_queues.get(queue)
        return 0 if line is None else sum(len(line.groups[shape]) for shape in line.failed)

    def inadmissible_by_local_queue(self, queue: str) -> dict[str, int]:
        """How many are parked, by the key of their LocalQueue. Costs those who are."""
        line = self._pending_queues.get(queue)
        if line is None:
            return {}
        parked = (self._waiters[key].workload for shape in line.failed for key in line.groups[shape])
        counts = Counter((each.namespace, each.queue) for each in parked)
        return {f"{namespace}/{name}": count for (namespace, name), count in counts.items()}

    def head(self, queue: str) -> PendingWorkload | None:
        line = self._pending_queues.get(queue)
        if line is None:
            return None
        if line.sticky:
            return self._waiters[line.sticky]
        first = line.active.first()
        if first is None:
            return None
        _, key = line.groups[first[1]].first() or (None, "")
        return self._waiters[key]

    def set_strategy(self, queue: str, is_strict: bool) -> None:
        line = self._pending_queues.setdefault(queue, _PendingQueue())
        if line.strict is not is_strict:
            line.strict = is_strict
            line.sticky = ""
            self.retry(queue)

    def add(self, waiter: PendingWorkload) -> None:
        before = self._waiters.get(waiter.key)
        if before is not None:
            if (before.queue, before.shape, before.order) == (waiter.queue, waiter.shape, waiter.order):
                self._waiters[waiter.key] = waiter
                return
            self.remove(waiter.key)
        self._lot.release(("blocked", waiter.key))
        self._waiters[waiter.key] = waiter
        line = self._pending_queues.setdefault(waiter.queue, _PendingQueue())
        group = line.groups.setdefault(waiter.shape, Heap())
        group.put(waiter.key, waiter.order)
        failed = line.failed.get(waiter.shape)
        if failed is None or waiter.order < failed:
            self._activate(waiter.queue, line, waiter.shape)
        if waiter.is_preemptor and not line.strict and not line.sticky:
            line.sticky = waiter.key
        head = self.head(waiter.queue)
        if line.stalled and head is not None and head.key != line.stalled:
            self._unstall(waiter.queue, line)
        self._touch(waiter.queue, line)

    def remove(self, key: str) -> None:
        """It waits no longer, here or anywhere."""
        self._lot.release(("blocked", key))
        waiter = self._waiters.pop(key, None)
        if waiter is None:
            return
        line = self._pending_queues[waiter.queue]
        group = line.groups[waiter.shape]
        group.discard(key)
        if not group:
            del line.groups[waiter.shape]
            line.active.discard(waiter.shape)
            if line.failed.pop(waiter.shape, None) is not None:
                self._lot.release(("shape", waiter.queue, waiter.shape))
        elif waiter.shape in line.active:
            self._activate(waiter.queue, line, waiter.shape)
        if line.sticky == key:
            line.sticky = ""
        if line.stalled == key:
            self._unstall(waiter.queue, line)
        self._touch(waiter.queue, line)

    def block(
        self, key: str, reason: PendingReason, topics: Iterable[Topic], until_s: float | None, order: Any
    ) -> None:
        """It may not even wait in a queue, until one of these or that moment."""
        self.remove(key)
        self._lot.park(("blocked", key), reason, tuple(ClusterEventWithHint(topic) for topic in topics), order, until_s)

    def park(
        self, waiter: PendingWorkload, reason: PendingReason, wakers: RegisteredEvents, joins: bool = False
    ) -> None:
        """The head of a queue does not fit: the next workload is tried, or none if the queue is StrictFIFO."""
        line = self._pending_queues[waiter.queue]
        if line.sticky == waiter.key:
            line.sticky = ""
        if line.strict:
            self.hold_head(waiter, reason, wakers, joins=joins)
            return
        line.active.discard(waiter.shape)
        line.failed[waiter.shape] = waiter.order
        self._lot.park(("shape", waiter.queue, waiter.shape), reason, wakers, waiter.order)
        self._touch(waiter.queue, line)

    def hold_head(
        self,
        waiter: PendingWorkload,
        reason: PendingReason,
        wakers: RegisteredEvents,
        sticks: bool = False,
        joins: bool = False,
    ) -> None:
        """The first of a queue stays first, and there is nothing to be done for now."""
        line = self._pending_queues[waiter.queue]
        line.sticky = waiter.key if sticks and not line.strict else ""
        line.stalled = waiter.key
        if joins:
            self._joining.add(waiter.queue)
        else:
            self._unjoin(waiter.queue)
        self._lot.park(("head", waiter.queue), reason, wakers, waiter.order)
        self._touch(waiter.queue, line)

    def retry(self, queue: str) -> None:
        """Everybody in a queue is worth a look again."""
        line = self._pending_queues.get(queue)
        if line is None:
            return
        for shape in list(line.failed):
            self._activate(queue, line, shape)
        self._unstall(queue, line)
        self._touch(queue, line)

    def release_head(self, key: str) -> None:
        waiter = self._waiters.get(key)
        if waiter is not None and self._pending_queues[waiter.queue].sticky == key:
            self._pending_queues[waiter.queue].sticky = ""

    def wake(self, topics: Sequence[Topic]) -> list[str]:
        """Makes units that the event may help worth an attempt again. Returns the keys of the blocked ones."""
        return self._rouse(list(self._lot.wake(QuotaEvent(topics, self._room))))

    def due(self, now_s: float) -> list[str]:
        """The keys of those whose time is up."""
        return self._rouse(list(self._lot.due(now_s)))

    def next_deadline_s(self) -> float | None:
        return self._lot.next_deadline_s()

    def pending_reason(self, key: str) -> PendingReason | None:
        """Why it is pending: because of itself, its shape, or the head of its StrictFIFO queue."""
        waiter = self._waiters.get(key)
        if waiter is None:
            return self._reason(("blocked", key))
        line = self._pending_queues[waiter.queue]
        if line.stalled == key or (line.stalled and line.strict):
            return self._reason(("head", waiter.queue))
        return self._reason(("shape", waiter.queue, waiter.shape)) if waiter.shape in line.failed else None

    def forget_queue(self, queue: str) -> None:
        line = self._pending_queues.get(queue)
        if line is not None and not line.groups:
            del self._pending_queues[queue]
            self._ready.discard(queue)

    def _rouse(self, units: Iterable[Unit]) -> list[str]:
        blocked: list[str] = []
        for unit in units:
            match unit:
                case ("blocked", key):
                    blocked.append(key)
                case ("shape", queue, shape):
                    self._activate(queue, self._pending_queues[queue], shape)
                    self._touch(queue, self._pending_queues[queue])
                case ("head", queue):
                    self._unstall(queue, self._pending_queues[queue])
                    self._touch(queue, self._pending_queues[queue])
        return blocked

    def _activate(self, queue: str, line: _PendingQueue, shape: Hashable) -> None:
        if line.failed.pop(shape, None) is not None:
            self._lot.release(("shape", queue, shape))
        first = line.groups[shape].first()
        if first is not None:
            line.active.put(shape, first[0])

    def _unstall(self, queue: str, line: _PendingQueue) -> None:
        line.stalled = ""
        self._unjoin(queue)
        self._lot.release(("head", queue))

    def _unjoin(self, queue: str) -> None:
        if queue in self._joining:
            self._joining.discard(queue)
            self._unjoined.add(queue)

    def _touch(self, queue: str, line: _PendingQueue) -> None:
        is_ready = not line.stalled and (bool(line.sticky) or len(line.active) > 0)
        (self._ready.add if is_ready else self._ready.discard)(queue)

    def _reason(self, unit: Unit) -> PendingReason | None:
        why = self._lot.info(unit)
        return None if why is None else why.reason
