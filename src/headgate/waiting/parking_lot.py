"""The parking lot: waiting units with their reasons, indexed by the events that may wake them.

Units with the same registered events are in one ordered line; lines are indexed by topic and hint. An event costs only
the units it wakes: a topic without units costs nothing, a hint is evaluated once for all units that share it, and other
units are not touched. A woken unit stays parked until it is released or parked again, so a consumer may stop at any
time without moving the rest. One lot has one order: the keys of all its units must be comparable. The engine decides
what a woken unit does (``scheduling/queue/scheduling_queue.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from typing import Any, Generic, TypeVar

import msgspec

from headgate.waiting.heap import Heap
from headgate.waiting.queueing_hints import (
    ClusterEventWithHint,
    QueueingHint,
    Topic,
    WakeUpEvent,
    any_event_matches,
    hint_matches,
)
from headgate.waiting.ranked_list import RankedList

Unit = TypeVar("Unit", bound=Hashable)
Reason = TypeVar("Reason")
RegisteredEvents = tuple[ClusterEventWithHint, ...]


class ParkingInfo(msgspec.Struct, Generic[Reason], frozen=True):
    """Why a unit waits, the events that may wake it, and its time-out."""

    reason: Reason
    wakers: RegisteredEvents
    until_s: float | None


class _Place(msgspec.Struct, Generic[Reason], frozen=True, gc=False):
    """Where a unit stands. ``entry`` is (order key, number of the parking, unit): unique, and as it is ordered."""

    entry: tuple[Any, int, Any]
    reason: Reason
    wakers: RegisteredEvents
    until_s: float | None


class ParkingLot(Generic[Unit, Reason]):
    def __init__(self) -> None:
        self._places: dict[Unit, _Place[Reason]] = {}
        self._lines: dict[RegisteredEvents, RankedList] = {}
        self._index: dict[Topic, dict[QueueingHint | None, dict[RankedList, None]]] = {}
        self._deadlines: Heap[Unit] = Heap()
        self._parkings = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._places

    def park(
        self, unit: Unit, reason: Reason, wakers: RegisteredEvents, order_key: Any, until_s: float | None = None
    ) -> None:
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

    def wake(self, event: WakeUpEvent) -> Iterator[Unit]:
        """Who may go on because of this, in order, one at a time. What is parked from now on is not among them."""
        if event.target is not None:
            return iter(self._one(event))
        lines: dict[RankedList, None] = {}
        for topic in event.topics:
            for guard, behind in self._index.get(topic, {}).items():
                if hint_matches(guard, event):
                    lines.update(behind)
        return self._walk(tuple(lines), self._parkings) if lines else iter(())

    def all_units(self) -> Iterator[Unit]:
        """All units, in order, for events that concern every unit. Units that are parked during the iteration are left
        out."""
        return self._walk(tuple(self._lines.values()), self._parkings)

    def due(self, now_s: float) -> Iterator[Unit]:
        """Units whose time-out has passed. Each is returned once: it stays parked, without a deadline, until it is
        parked again. Units that are parked during the iteration are left out, even if they are due at once: it would
        never end."""
        found: list[Unit] = []
        while (first := self._deadlines.first()) is not None and first[0] <= now_s:
            found.append(first[1])
            self._deadlines.pop()
        return (unit for unit in found if unit in self._places)

    def next_deadline_s(self) -> float | None:
        first = self._deadlines.first()
        return None if first is None else float(first[0])

    def position(self, unit: Unit, topic: Topic | None = None) -> int | None:
        """How many units come before it: of those with the same registered events, or of all units of a topic."""
        place = self._places.get(unit)
        if place is None:
            return None
        lines = [self._lines[place.wakers]] if topic is None else self._behind(topic)
        return sum(line.rank(place.entry) for line in lines)

    def why(self, unit: Unit) -> ParkingInfo[Reason] | None:
        place = self._places.get(unit)
        return None if place is None else ParkingInfo(place.reason, place.wakers, place.until_s)

    def _one(self, event: WakeUpEvent) -> Sequence[Any]:
        place = self._places.get(event.target)
        return (event.target,) if place is not None and any_event_matches(place.wakers, event) else ()

    def _walk(self, lines: Sequence[RankedList], began: int) -> Iterator[Unit]:
        """The numbers of parkings say who was here when this began. Walks look one entry ahead, hence the check."""
        for entry in merge(*(line.walk() for line in lines)):
            place = self._places.get(entry[2])
            if place is not None and place.entry is entry and entry[1] < began:
                yield entry[2]

    def _behind(self, topic: Topic) -> dict[RankedList, None]:
        return {line: None for behind in self._index.get(topic, {}).values() for line in behind}

    def _open(self, wakers: RegisteredEvents) -> RankedList:
        line = self._lines[wakers] = RankedList()
        for waker in wakers:
            if not waker.own:
                self._index.setdefault(waker.topic, {}).setdefault(waker.guard, {})[line] = None
        return line

    def _close(self, wakers: RegisteredEvents, line: RankedList) -> None:
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
