"""Who waits in which ClusterQueue, who is next, and who is not worth a look until something happens.

Higher priority first, then who waits longest, then uid. Workloads of one shape fit or do not fit together, so they
stand in one group: when its first does not fit, the group is parked as one unit, and whoever joins it meanwhile costs
no attempt. In a StrictFIFO queue nobody passes the first: the queue itself is parked. Each unit names what could help
it (``waiting/``); nothing else wakes it. A workload for which others were told to go stays first (kueue#6929).
What an attempt comes to is ``cycle.py``'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from headgate.quota import names
from headgate.quota.cohort import FlavorResource
from headgate.quota.workload import Workload
from headgate.waiting.heap import Heap
from headgate.waiting.lot import ParkingLot, Wakers
from headgate.waiting.waker import Topic, Waker

Unit = tuple[Any, ...]


class Waiter(msgspec.Struct, frozen=True):
    """``order_s``: since when it waits, as far as the order is concerned."""

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


class Reason(msgspec.Struct, frozen=True):
    """A condition's reason and message; no reason where there is nothing to be said."""

    reason: str
    message: str = ""


Room = Callable[[str, FlavorResource], int]
"""How much of a resource a queue may use once everybody who was told to go has gone."""


class Stir(msgspec.Struct, frozen=True):
    """Something happened that may help those who named one of these topics."""

    topics: Sequence[Topic]
    room: Room
    target: None = None


class Enough(msgspec.Struct, frozen=True):
    """A guard for those who can only wait: with less room than this there is nothing in it for them."""

    queue: str
    resource: FlavorResource
    amount: int

    def matches(self, event: Stir, /) -> bool:
        return event.room(self.queue, self.resource) >= self.amount


class _Line:
    __slots__ = ("active", "failed", "groups", "stalled", "sticky", "strict")

    def __init__(self) -> None:
        self.groups: dict[Hashable, Heap[str]] = {}
        self.active: Heap[Hashable] = Heap()
        self.failed: dict[Hashable, tuple[int, float, str]] = {}  # shapes that are parked, by whom of them failed
        self.sticky = ""
        self.stalled = ""  # the first, if he is not worth a look
        self.strict = False


class Queueing:
    def __init__(self, room: Room) -> None:
        self._room = room
        self._waiters: dict[str, Waiter] = {}
        self._lines: dict[str, _Line] = {}
        self._lot: ParkingLot[Unit, Reason] = ParkingLot()
        self._ready: set[str] = set()
        self._joining: set[str] = set()
        self._unjoined: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._waiters

    def get(self, key: str) -> Waiter | None:
        return self._waiters.get(key)

    def waiters(self, queue: str) -> list[Waiter]:
        """Everybody in a queue, in order."""
        line = self._lines.get(queue)
        found = [self._waiters[key] for group in line.groups.values() for key in group] if line is not None else []
        return sorted(found, key=lambda each: (line is not None and line.sticky != each.key, each.order))

    def ready(self) -> list[str]:
        """Queues whose first is worth a look."""
        return sorted(self._ready)

    def is_ready(self, queue: str) -> bool:
        return queue in self._ready

    def joining(self) -> list[str]:
        """Queues whose first is not, but holds his place in a round."""
        return sorted(self._joining)

    def unjoined(self) -> list[str]:
        """Queues that ceased to do so since this was asked last."""
        found, self._unjoined = self._unjoined, set()
        return sorted(found)

    def worth_a_look(self, queue: str) -> int:
        """How many of a queue are not parked."""
        line = self._lines.get(queue)
        if line is None:
            return 0
        return sum(len(group) for shape, group in line.groups.items() if shape not in line.failed)

    def parked(self, queue: str) -> int:
        line = self._lines.get(queue)
        return 0 if line is None else sum(len(line.groups[shape]) for shape in line.failed)

    def parked_by_local_queue(self, queue: str) -> dict[str, int]:
        """How many are parked, by the key of their LocalQueue. Costs those who are."""
        line = self._lines.get(queue)
        if line is None:
            return {}
        parked = (self._waiters[key].workload for shape in line.failed for key in line.groups[shape])
        counts = Counter((each.namespace, each.queue) for each in parked)
        return {f"{namespace}/{name}": count for (namespace, name), count in counts.items()}

    def head(self, queue: str) -> Waiter | None:
        line = self._lines.get(queue)
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
        line = self._lines.setdefault(queue, _Line())
        if line.strict is not is_strict:
            line.strict = is_strict
            line.sticky = ""
            self.retry(queue)

    def add(self, waiter: Waiter) -> None:
        before = self._waiters.get(waiter.key)
        if before is not None:
            if (before.queue, before.shape, before.order) == (waiter.queue, waiter.shape, waiter.order):
                self._waiters[waiter.key] = waiter
                return
            self.remove(waiter.key)
        self._lot.release(("blocked", waiter.key))
        self._waiters[waiter.key] = waiter
        line = self._lines.setdefault(waiter.queue, _Line())
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
        line = self._lines[waiter.queue]
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

    def block(self, key: str, reason: Reason, topics: Iterable[Topic], until_s: float | None, order: Any) -> None:
        """It may not even wait in a queue, until one of these or that moment."""
        self.remove(key)
        self._lot.park(("blocked", key), reason, tuple(Waker(topic) for topic in topics), order, until_s)

    def park(self, waiter: Waiter, reason: Reason, wakers: Wakers, joins: bool = False) -> None:
        """The first of a queue does not fit: the next one is tried, or nobody if the queue is strict."""
        line = self._lines[waiter.queue]
        if line.sticky == waiter.key:
            line.sticky = ""
        if line.strict:
            self.stall(waiter, reason, wakers, joins=joins)
            return
        line.active.discard(waiter.shape)
        line.failed[waiter.shape] = waiter.order
        self._lot.park(("shape", waiter.queue, waiter.shape), reason, wakers, waiter.order)
        self._touch(waiter.queue, line)

    def stall(self, waiter: Waiter, reason: Reason, wakers: Wakers, sticks: bool = False, joins: bool = False) -> None:
        """The first of a queue stays first, and there is nothing to be done for now."""
        line = self._lines[waiter.queue]
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
        line = self._lines.get(queue)
        if line is None:
            return
        for shape in list(line.failed):
            self._activate(queue, line, shape)
        self._unstall(queue, line)
        self._touch(queue, line)

    def unstick(self, key: str) -> None:
        waiter = self._waiters.get(key)
        if waiter is not None and self._lines[waiter.queue].sticky == key:
            self._lines[waiter.queue].sticky = ""

    def wake(self, topics: Sequence[Topic]) -> list[str]:
        """Those who could be helped are worth a look again. Answers with the keys of those who were blocked."""
        return self._rouse(list(self._lot.wake(Stir(topics, self._room))))

    def due(self, now_s: float) -> list[str]:
        """The keys of those whose time is up."""
        return self._rouse(list(self._lot.due(now_s)))

    def next_deadline_s(self) -> float | None:
        return self._lot.next_deadline_s()

    def why(self, key: str) -> Reason | None:
        """Why it waits: because of itself, its shape, or whoever is first in its strict queue."""
        waiter = self._waiters.get(key)
        if waiter is None:
            return self._reason(("blocked", key))
        line = self._lines[waiter.queue]
        if line.stalled == key or (line.stalled and line.strict):
            return self._reason(("head", waiter.queue))
        return self._reason(("shape", waiter.queue, waiter.shape)) if waiter.shape in line.failed else None

    def forget_queue(self, queue: str) -> None:
        line = self._lines.get(queue)
        if line is not None and not line.groups:
            del self._lines[queue]
            self._ready.discard(queue)

    def _rouse(self, units: Iterable[Unit]) -> list[str]:
        blocked: list[str] = []
        for unit in units:
            match unit:
                case ("blocked", key):
                    blocked.append(key)
                case ("shape", queue, shape):
                    self._activate(queue, self._lines[queue], shape)
                    self._touch(queue, self._lines[queue])
                case ("head", queue):
                    self._unstall(queue, self._lines[queue])
                    self._touch(queue, self._lines[queue])
        return blocked

    def _activate(self, queue: str, line: _Line, shape: Hashable) -> None:
        if line.failed.pop(shape, None) is not None:
            self._lot.release(("shape", queue, shape))
        first = line.groups[shape].first()
        if first is not None:
            line.active.put(shape, first[0])

    def _unstall(self, queue: str, line: _Line) -> None:
        line.stalled = ""
        self._unjoin(queue)
        self._lot.release(("head", queue))

    def _unjoin(self, queue: str) -> None:
        if queue in self._joining:
            self._joining.discard(queue)
            self._unjoined.add(queue)

    def _touch(self, queue: str, line: _Line) -> None:
        is_ready = not line.stalled and (bool(line.sticky) or len(line.active) > 0)
        (self._ready.add if is_ready else self._ready.discard)(queue)

    def _reason(self, unit: Unit) -> Reason | None:
        why = self._lot.why(unit)
        return None if why is None else why.reason
