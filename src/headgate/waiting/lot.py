"""The parking lot: units that wait, each under a reason, found by what may wake them.

Units with the same wakers stand in one line, in the order that their engine gave them; lines are indexed by topic and
guard. So an event costs what it wakes: a topic nobody named costs nothing, a guard is asked once for all who share it,
and nobody who sleeps on is touched. Waking is telling: a unit stays parked until it is released or parked anew, so a
consumer that has had enough stops asking, and the rest has not moved.
One lot has one order: the keys of all its units must compare with each other. What a woken unit does is its engine's
business (``scheduling/queue.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from typing import Any, Generic, TypeVar

import msgspec

from headgate.waiting.heap import Heap
from headgate.waiting.line import Line
from headgate.waiting.waker import Guard, Happening, Topic, Waker, opens, stirred

Unit = TypeVar("Unit", bound=Hashable)
Reason = TypeVar("Reason")
Wakers = tuple[Waker, ...]


class Why(msgspec.Struct, Generic[Reason], frozen=True):
    """Why a unit waits, what may wake it, and until when at most."""

    reason: Reason
    wakers: Wakers
    until_s: float | None


class _Place(msgspec.Struct, Generic[Reason], frozen=True, gc=False):
    """Where a unit stands. ``entry`` is (order key, number of the parking, unit): unique, and as it is ordered."""

    entry: tuple[Any, int, Any]
    reason: Reason
    wakers: Wakers
    until_s: float | None


class ParkingLot(Generic[Unit, Reason]):
    def __init__(self) -> None:
        self._places: dict[Unit, _Place[Reason]] = {}
        self._lines: dict[Wakers, Line] = {}
        self._index: dict[Topic, dict[Guard | None, dict[Line, None]]] = {}
        self._deadlines: Heap[Unit] = Heap()
        self._parkings = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._places

    def park(self, unit: Unit, reason: Reason, wakers: Wakers, order_key: Any, until_s: float | None = None) -> None:
        """Park a unit, or park it anew under another reason."""
        self.release(unit)
        line = self._lines.get(wakers)
        if line is None:
            line = self._open(wakers)
        entry = (order_key, self._parkings, unit)
        self._parkings += 1
        line.add(entry)
        self._places[unit] = _Place(entry, reason, wakers, until_s)
        if until_s is not None:
            self._deadlines.put(unit, until_s)

    def release(self, unit: Unit) -> bool:
        """Take a unit out; whether it was here."""
        place = self._places.pop(unit, None)
        if place is None:
            return False
        line = self._lines[place.wakers]
        line.remove(place.entry)
        if not line:
            self._close(place.wakers, line)
        if place.until_s is not None:
            self._deadlines.discard(unit)
        return True

    def reorder(self, unit: Unit, order_key: Any) -> None:
        """A unit has another place in the order now; all else about its wait stays."""
        place = self._places.get(unit)
        if place is None or place.entry[0] == order_key:
            return
        line = self._lines[place.wakers]
        line.remove(place.entry)
        entry = (order_key, self._parkings, unit)
        self._parkings += 1
        line.add(entry)
        self._places[unit] = msgspec.structs.replace(place, entry=entry)

    def wake(self, event: Happening) -> Iterator[Unit]:
        """Who may go on because of this, in order, one at a time. What is parked from now on is not among them."""
        if event.target is not None:
            return iter(self._one(event))
        lines: dict[Line, None] = {}
        for topic in event.topics:
            for guard, behind in self._index.get(topic, {}).items():
                if opens(guard, event):
                    lines.update(behind)
        return self._walk(tuple(lines), self._parkings) if lines else iter(())

    def everyone(self) -> Iterator[Unit]:
        """All units, in order: for what concerns whoever waits. What is parked from now on is not among them."""
        return self._walk(tuple(self._lines.values()), self._parkings)

    def due(self, now_s: float) -> Iterator[Unit]:
        """Whose time is up. Each is told once: it stays parked, without a deadline, until it is parked anew. What is
        parked from now on is not among them, even if its time is up at once: that would never end."""
        found: list[Unit] = []
        while (first := self._deadlines.first()) is not None and first[0] <= now_s:
            found.append(first[1])
            self._deadlines.pop()
        return (unit for unit in found if unit in self._places)

    def next_deadline_s(self) -> float | None:
        first = self._deadlines.first()
        return None if first is None else float(first[0])

    def position(self, unit: Unit, topic: Topic | None = None) -> int | None:
        """How many come before it: of those who wait for the same things, or of all who wait for a topic."""
        place = self._places.get(unit)
        if place is None:
            return None
        lines = [self._lines[place.wakers]] if topic is None else self._behind(topic)
        return sum(line.rank(place.entry) for line in lines)

    def why(self, unit: Unit) -> Why[Reason] | None:
        place = self._places.get(unit)
        return None if place is None else Why(place.reason, place.wakers, place.until_s)

    def _one(self, event: Happening) -> Sequence[Any]:
        place = self._places.get(event.target)
        return (event.target,) if place is not None and stirred(place.wakers, event) else ()

    def _walk(self, lines: Sequence[Line], began: int) -> Iterator[Unit]:
        """The numbers of parkings say who was here when this began. Walks look one entry ahead, hence the check."""
        for entry in merge(*(line.walk() for line in lines)):
            place = self._places.get(entry[2])
            if place is not None and place.entry is entry and entry[1] < began:
                yield entry[2]

    def _behind(self, topic: Topic) -> dict[Line, None]:
        return {line: None for behind in self._index.get(topic, {}).values() for line in behind}

    def _open(self, wakers: Wakers) -> Line:
        line = self._lines[wakers] = Line()
        for waker in wakers:
            if not waker.own:
                self._index.setdefault(waker.topic, {}).setdefault(waker.guard, {})[line] = None
        return line

    def _close(self, wakers: Wakers, line: Line) -> None:
        del self._lines[wakers]
        for waker in wakers:
            if waker.own:
                continue
            guards = self._index.get(waker.topic, {})
            behind = guards.get(waker.guard, {})
            behind.pop(line, None)
            if not behind:
                guards.pop(waker.guard, None)
            if not guards:
                self._index.pop(waker.topic, None)
