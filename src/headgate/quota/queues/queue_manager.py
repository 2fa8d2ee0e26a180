"""The queue manager: pending workloads per ClusterQueue, their heads, and inadmissible ones that wait for an event.

The order is priority, waiting time, uid. Workloads of one shape (equal requirements) fit or do not fit together, so
they form one group: when the first one does not fit, the group is parked as one unit in the parking lot
(``waiting/parking_lot.py``), and workloads that are added to it need no attempt. In a StrictFIFO queue no workload
overtakes the head: the queue itself is parked. Each unit registers the events after which an attempt is useful. A
workload that waits for its victims stays the head (it is *sticky*, as in Kueue: kueue#6929). A queue that protects its
first workload has a :class:`Line`; units that wait for that workload register the topic ``("line", queue)``.
``quota/cycle/admission_cycle.py`` makes the attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from headgate.quota import names
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.api.workload import Workload
from headgate.quota.queues.line import Line, WorkloadOrder
from headgate.waiting.heap import Heap
from headgate.waiting.parking_lot import ParkingLot, RegisteredEvents
from headgate.waiting.queueing_hints import ClusterEventWithHint, Topic

Unit = tuple[Any, ...]
"""What is parked: ``("blocked", workload)``, ``("shape", queue, shape)`` or ``("head", queue)``."""


class PendingWorkload(msgspec.Struct, frozen=True):
    """A workload in its queue. ``order_s``: the time that orders it there."""

    workload: Workload
    queue: str
    order_s: float
    shape: Hashable

    @property
    def key(self) -> str:
        return self.workload.key

    @property
    def order(self) -> WorkloadOrder:
        return -self.workload.priority, self.order_s, self.workload.uid

    @property
    def is_preemptor(self) -> bool:
        """Whether workloads were evicted for it. Read from its condition, so that a restarted engine knows it."""
        return self.workload.lacks(names.QUOTA_RESERVED, names.WAITING_FOR_PREEMPTED)


class PendingReason(msgspec.Struct, frozen=True):
    """A condition's reason and message; the reason is empty if there is nothing to report."""

    reason: str
    message: str = ""


AvailableQuota = Callable[[str, FlavorResource], int]
"""How much of a resource a queue may use when all evicted workloads have ended."""


class QuotaEvent(msgspec.Struct, frozen=True):
    """An event that may wake the units that registered one of these topics."""

    topics: Sequence[Topic]
    available: AvailableQuota
    target: None = None


class EnoughQuota(msgspec.Struct, frozen=True):
    """A queueing hint for units that cannot preempt: with less available quota than this an attempt is useless."""

    queue: str
    resource: FlavorResource
    amount: int

    def matches(self, event: QuotaEvent, /) -> bool:
        return event.available(self.queue, self.resource) >= self.amount


class _PendingQueue:
    """The pending workloads of a ClusterQueue. ``groups``: by shape; ``active``: the shapes that are not parked;
    ``sticky``: the workload that stays the head."""

    __slots__ = ("active", "groups", "parked_shapes", "stalled", "sticky", "strict")

    def __init__(self) -> None:
        self.groups: dict[Hashable, Heap[str]] = {}
        self.active: Heap[Hashable] = Heap()
        # With the order of the workload that did not fit.
        self.parked_shapes: dict[Hashable, WorkloadOrder] = {}
        self.sticky = ""
        self.stalled = ""  # the head, while it is parked
        self.strict = False


class QueueManager:
    def __init__(self, available: AvailableQuota) -> None:
        self._available_quota = available
        self._pending: dict[str, PendingWorkload] = {}
        self._pending_queues: dict[str, _PendingQueue] = {}
        self._parking_lot: ParkingLot[Unit, PendingReason] = ParkingLot()
        self._ready: set[str] = set()
        self._reserving_queues: set[str] = set()
        self._no_longer_reserving: set[str] = set()
        self._lines: dict[str, Line] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._pending

    def get(self, key: str) -> PendingWorkload | None:
        return self._pending.get(key)

    def pending(self, queue: str) -> list[PendingWorkload]:
        """All workloads of a queue, in order."""
        pending_queue = self._pending_queues.get(queue)
        found = (
            [self._pending[key] for group in pending_queue.groups.values() for key in group]
            if pending_queue is not None
            else []
        )
        return sorted(
            found, key=lambda each: (pending_queue is not None and pending_queue.sticky != each.key, each.order)
        )

    def ready(self) -> list[str]:
        """Queues whose head has to be tried."""
        return sorted(self._ready)

    def is_ready(self, queue: str) -> bool:
        return queue in self._ready

    def reserving_queues(self) -> list[str]:
        """Queues whose head is parked and still reserves quota in each round."""
        return sorted(self._reserving_queues)

    def no_longer_reserving(self) -> list[str]:
        """Queues that stopped reserving quota since the last call."""
        found, self._no_longer_reserving = self._no_longer_reserving, set()
        return sorted(found)

    def active_count(self, queue: str) -> int:
        """How many workloads of a queue are not parked."""
        pending_queue = self._pending_queues.get(queue)
        if pending_queue is None:
            return 0
        return sum(
            len(group) for shape, group in pending_queue.groups.items() if shape not in pending_queue.parked_shapes
        )

    def inadmissible_count(self, queue: str) -> int:
        pending_queue = self._pending_queues.get(queue)
        return (
            0
            if pending_queue is None
            else sum(len(pending_queue.groups[shape]) for shape in pending_queue.parked_shapes)
        )

    def inadmissible_by_local_queue(self, queue: str) -> dict[str, int]:
        """How many are parked, by the key of their LocalQueue. The cost is proportional to them."""
        pending_queue = self._pending_queues.get(queue)
        if pending_queue is None:
            return {}
        parked = (
            self._pending[key].workload for shape in pending_queue.parked_shapes for key in pending_queue.groups[shape]
        )
        counts = Counter((each.namespace, each.queue) for each in parked)
        return {f"{namespace}/{name}": count for (namespace, name), count in counts.items()}

    def head(self, queue: str) -> PendingWorkload | None:
        pending_queue = self._pending_queues.get(queue)
        if pending_queue is None:
            return None
        if pending_queue.sticky:
            return self._pending[pending_queue.sticky]
        first = pending_queue.active.first()
        if first is None:
            return None
        _, key = pending_queue.groups[first[1]].first() or (None, "")
        return self._pending[key]

    def set_strategy(self, queue: str, is_strict: bool) -> None:
        pending_queue = self._pending_queues.setdefault(queue, _PendingQueue())
        if pending_queue.strict is not is_strict:
            pending_queue.strict = is_strict
            pending_queue.sticky = ""
            self.retry(queue)

    def set_protection(self, queue: str, is_protecting: bool) -> None:
        """Whether the queue protects the first workload in its line."""
        if not is_protecting:
            self._lines.pop(queue, None)
        elif queue not in self._lines:
            line = self._lines[queue] = Line()
            pending_queue = self._pending_queues.get(queue)
            for shape, group in () if pending_queue is None else pending_queue.groups.items():
                first = group.first()
                if first is not None:
                    line.put(shape, first[0])

    def protecting_queues(self) -> Collection[str]:
        return self._lines.keys()

    def first_in_line(self, queue: str) -> PendingWorkload | None:
        """The first workload in the line of a queue that protects it."""
        line = self._lines.get(queue)
        first = None if line is None else line.first()
        if first is None:
            return None
        _, key = self._pending_queues[queue].groups[first[1]].first() or (None, "")
        return self._pending[key]

    def leave_out_of_line(self, pending: PendingWorkload) -> None:
        """The queue can never admit this workload, with the quotas as they are."""
        line = self._lines.get(pending.queue)
        if line is not None:
            line.leave_out(pending.shape)

    def reset_lines(self) -> None:
        """Quotas or flavors changed: the queues may admit workloads that were left out."""
        for line in self._lines.values():
            line.reset()

    def add(self, pending: PendingWorkload) -> None:
        before = self._pending.get(pending.key)
        if before is not None:
            if (before.queue, before.shape, before.order) == (pending.queue, pending.shape, pending.order):
                self._pending[pending.key] = pending
                return
            self.remove(pending.key)
        self._parking_lot.release(("blocked", pending.key))
        self._pending[pending.key] = pending
        pending_queue = self._pending_queues.setdefault(pending.queue, _PendingQueue())
        group = pending_queue.groups.setdefault(pending.shape, Heap())
        group.put(pending.key, pending.order)
        failed_order = pending_queue.parked_shapes.get(pending.shape)
        if failed_order is None or pending.order < failed_order:
            self._activate(pending.queue, pending_queue, pending.shape)
        if pending.is_preemptor and not pending_queue.strict and not pending_queue.sticky:
            pending_queue.sticky = pending.key
        head = self.head(pending.queue)
        if pending_queue.stalled and head is not None and head.key != pending_queue.stalled:
            self._unstall(pending.queue, pending_queue)
        self._update_ready(pending.queue, pending_queue)
        self._update_line(pending.queue, pending.shape)

    def remove(self, key: str) -> None:
        """Removes a pending or blocked workload."""
        self._parking_lot.release(("blocked", key))
        pending = self._pending.pop(key, None)
        if pending is None:
            return
        pending_queue = self._pending_queues[pending.queue]
        group = pending_queue.groups[pending.shape]
        group.discard(key)
        if not group:
            del pending_queue.groups[pending.shape]
            pending_queue.active.discard(pending.shape)
            if pending_queue.parked_shapes.pop(pending.shape, None) is not None:
                self._parking_lot.release(("shape", pending.queue, pending.shape))
        elif pending.shape in pending_queue.active:
            self._activate(pending.queue, pending_queue, pending.shape)
        if pending_queue.sticky == key:
            pending_queue.sticky = ""
        if pending_queue.stalled == key:
            self._unstall(pending.queue, pending_queue)
        self._update_ready(pending.queue, pending_queue)
        self._update_line(pending.queue, pending.shape)

    def block(
        self, key: str, reason: PendingReason, topics: Iterable[Topic], until_s: float | None, order: Any
    ) -> None:
        """Keeps the workload out of its queue, until an event with one of these topics or until that time."""
        self.remove(key)
        self._parking_lot.park(
            ("blocked", key), reason, tuple(ClusterEventWithHint(topic) for topic in topics), order, until_s
        )

    def park(
        self, pending: PendingWorkload, reason: PendingReason, wakers: RegisteredEvents, is_reserving: bool = False
    ) -> None:
        """The head of a queue does not fit: the next workload is tried, or none if the queue is StrictFIFO."""
        pending_queue = self._pending_queues[pending.queue]
        if pending_queue.sticky == pending.key:
            pending_queue.sticky = ""
        if pending_queue.strict:
            self.hold_head(pending, reason, wakers, is_reserving=is_reserving)
            return
        pending_queue.active.discard(pending.shape)
        pending_queue.parked_shapes[pending.shape] = pending.order
        self._parking_lot.park(("shape", pending.queue, pending.shape), reason, wakers, pending.order)
        self._update_ready(pending.queue, pending_queue)

    def hold_head(
        self,
        pending: PendingWorkload,
        reason: PendingReason,
        wakers: RegisteredEvents,
        is_sticky: bool = False,
        is_reserving: bool = False,
    ) -> None:
        """Parks the head of a queue: it stays the head, and the queue is not tried until one of the events."""
        pending_queue = self._pending_queues[pending.queue]
        pending_queue.sticky = pending.key if is_sticky and not pending_queue.strict else ""
        pending_queue.stalled = pending.key
        if is_reserving:
            self._reserving_queues.add(pending.queue)
        else:
            self._stop_reserving(pending.queue)
        self._parking_lot.park(("head", pending.queue), reason, wakers, pending.order)
        self._update_ready(pending.queue, pending_queue)

    def retry(self, queue: str) -> None:
        """All workloads of a queue are tried again."""
        pending_queue = self._pending_queues.get(queue)
        if pending_queue is None:
            return
        for shape in list(pending_queue.parked_shapes):
            self._activate(queue, pending_queue, shape)
        self._unstall(queue, pending_queue)
        self._update_ready(queue, pending_queue)

    def stays_head(self, key: str) -> bool:
        """Whether the workload, the head of its queue, stays the head while it waits."""
        pending = self._pending.get(key)
        pending_queue = None if pending is None else self._pending_queues[pending.queue]
        return pending_queue is not None and (pending_queue.strict or pending_queue.sticky == key)

    def release_head(self, key: str) -> None:
        """The workload no longer stays the head."""
        pending = self._pending.get(key)
        if pending is not None and self._pending_queues[pending.queue].sticky == key:
            self._pending_queues[pending.queue].sticky = ""

    def wake(self, topics: Sequence[Topic]) -> list[str]:
        """Unparks the units that the event may wake, so that they are tried. Returns the keys of the blocked ones."""
        return self._activate_units(list(self._parking_lot.wake(QuotaEvent(topics, self._available_quota))))

    def due(self, now_s: float) -> list[str]:
        """The keys of blocked workloads whose deadline has passed."""
        return self._activate_units(list(self._parking_lot.due(now_s)))

    def next_deadline_s(self) -> float | None:
        return self._parking_lot.next_deadline_s()

    def pending_reason(self, key: str) -> PendingReason | None:
        """Why the workload is pending: the reason of the workload itself, of its shape, or of the head of its
        StrictFIFO queue."""
        pending = self._pending.get(key)
        if pending is None:
            return self._reason(("blocked", key))
        pending_queue = self._pending_queues[pending.queue]
        if pending_queue.stalled == key or (pending_queue.stalled and pending_queue.strict):
            return self._reason(("head", pending.queue))
        return (
            self._reason(("shape", pending.queue, pending.shape))
            if pending.shape in pending_queue.parked_shapes
            else None
        )

    def tried_reason(self, key: str) -> PendingReason | None:
        """Why this workload, or those with its requirements, does not fit; None if they were not tried."""
        pending = self._pending.get(key)
        if pending is None:
            return None
        pending_queue = self._pending_queues[pending.queue]
        if pending_queue.stalled == key:
            return self._reason(("head", pending.queue))
        is_parked = pending.shape in pending_queue.parked_shapes
        return self._reason(("shape", pending.queue, pending.shape)) if is_parked else None

    def forget_queue(self, queue: str) -> None:
        pending_queue = self._pending_queues.get(queue)
        if pending_queue is not None and not pending_queue.groups:
            del self._pending_queues[queue]
            self._ready.discard(queue)

    def _update_line(self, queue: str, shape: Hashable) -> None:
        """Wakes the workloads that wait for the first in line of the queue, if that is another one now."""
        line = self._lines.get(queue)
        if line is None:
            return
        before = line.first()
        group = self._pending_queues[queue].groups.get(shape)
        first = None if group is None else group.first()
        if first is None:
            line.discard(shape)
        else:
            line.put(shape, first[0])
        if line.first() != before:
            self.wake([("line", queue)])

    def _activate_units(self, units: Iterable[Unit]) -> list[str]:
        blocked: list[str] = []
        for unit in units:
            match unit:
                case ("blocked", key):
                    blocked.append(key)
                case ("shape", queue, shape):
                    self._activate(queue, self._pending_queues[queue], shape)
                    self._update_ready(queue, self._pending_queues[queue])
                case ("head", queue):
                    self._unstall(queue, self._pending_queues[queue])
                    self._update_ready(queue, self._pending_queues[queue])
        return blocked

    def _activate(self, queue: str, pending_queue: _PendingQueue, shape: Hashable) -> None:
        if pending_queue.parked_shapes.pop(shape, None) is not None:
            self._parking_lot.release(("shape", queue, shape))
        first = pending_queue.groups[shape].first()
        if first is not None:
            pending_queue.active.put(shape, first[0])

    def _unstall(self, queue: str, pending_queue: _PendingQueue) -> None:
        pending_queue.stalled = ""
        self._stop_reserving(queue)
        self._parking_lot.release(("head", queue))

    def _stop_reserving(self, queue: str) -> None:
        if queue in self._reserving_queues:
            self._reserving_queues.discard(queue)
            self._no_longer_reserving.add(queue)

    def _update_ready(self, queue: str, pending_queue: _PendingQueue) -> None:
        is_ready = not pending_queue.stalled and (bool(pending_queue.sticky) or len(pending_queue.active) > 0)
        (self._ready.add if is_ready else self._ready.discard)(queue)

    def _reason(self, unit: Unit) -> PendingReason | None:
        info = self._parking_lot.info(unit)
        return None if info is None else info.reason
