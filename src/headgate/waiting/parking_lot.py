"""The parking lot: waiting units with their reasons, indexed by the events that may wake them.

Units with the same registered events are in one ranked list; the lists are indexed by topic and hint. An event costs
only the units it wakes: a topic without units costs nothing, a hint is evaluated once for all units that share it, and
other units are not touched. A woken unit stays parked until it is released or parked again, so a caller may stop the
iteration at any time. All units of one lot have comparable order keys. The owner of the lot decides what a unit is and
what happens to a woken unit: units are pods in ``scheduling/queue/scheduling_queue.py``, and groups of workloads in
``quota/queues/queue_manager.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from heapq import merge
from typing import Any, Generic, TypeVar

import msgspec

from headgate.waiting.heap import DeadlineHeap
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
"""The events that may wake a unit."""


class ParkingInfo(msgspec.Struct, Generic[Reason], frozen=True):
    """Why a unit waits, the events that may wake it, and its time-out."""

    reason: Reason
    wakers: RegisteredEvents
    until_s: float | None


class _ParkedUnit(msgspec.Struct, Generic[Reason], frozen=True, gc=False):
    """A unit in the lot. ``entry`` is (order key, sequence number, unit): unique, and the unit's sort key."""

    entry: tuple[Any, int, Any]
    reason: Reason
    wakers: RegisteredEvents
    until_s: float | None


class ParkingLot(Generic[Unit, Reason]):
    """``wakers`` of a unit: the events that it registered for."""

    def __init__(self) -> None:
        self._parked: dict[Unit, _ParkedUnit[Reason]] = {}
        self._lists: dict[RegisteredEvents, RankedList] = {}
        self._index: dict[Topic, dict[QueueingHint | None, dict[RankedList, None]]] = {}
        self._deadlines: DeadlineHeap[Unit] = DeadlineHeap()
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._parked)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._parked

    def park(
        self, unit: Unit, reason: Reason, wakers: RegisteredEvents, order_key: Any, until_s: float | None = None
    ) -> None:
        """Park a unit. A unit that is parked already gets the new reason, events and deadline."""
        self.release(unit)
        ranked_list = self._lists.get(wakers)
        if ranked_list is None:
            ranked_list = self._add_list(wakers)
        entry = (order_key, self._sequence, unit)
        self._sequence += 1
        ranked_list.add(entry)
        self._parked[unit] = _ParkedUnit(entry, reason, wakers, until_s)
        if until_s is not None:
            self._deadlines.put(unit, until_s)

    def release(self, unit: Unit) -> bool:
        """Remove a unit. Returns whether it was parked."""
        parked = self._parked.pop(unit, None)
        if parked is None:
            return False
        ranked_list = self._lists[parked.wakers]
        ranked_list.remove(parked.entry)
        if not ranked_list:
            self._remove_list(parked.wakers, ranked_list)
        if parked.until_s is not None:
            self._deadlines.discard(unit)
        return True

    def reorder(self, unit: Unit, order_key: Any) -> None:
        """Change the order key of a unit; its reason, events and deadline stay."""
        parked = self._parked.get(unit)
        if parked is None or parked.entry[0] == order_key:
            return
        ranked_list = self._lists[parked.wakers]
        ranked_list.remove(parked.entry)
        entry = (order_key, self._sequence, unit)
        self._sequence += 1
        ranked_list.add(entry)
        self._parked[unit] = msgspec.structs.replace(parked, entry=entry)

    def wake(self, event: WakeUpEvent) -> Iterator[Unit]:
        """Iterate over the units that the event may wake, in order. Units that are parked after the call are left
        out."""
        if event.target is not None:
            return iter(self._wake_target(event))
        lists: dict[RankedList, None] = {}
        for topic in event.topics:
            for hint, matching in self._index.get(topic, {}).items():
                if hint_matches(hint, event):
                    lists.update(matching)
        return self._iterate(tuple(lists), self._sequence) if lists else iter(())

    def all_units(self) -> Iterator[Unit]:
        """All units, in order, for events that concern every unit. Units that are parked during the iteration are left
        out."""
        return self._iterate(tuple(self._lists.values()), self._sequence)

    def due(self, now_s: float) -> Iterator[Unit]:
        """Units whose time-out has passed. Each is returned once: it stays parked, without a deadline, until it is
        parked again. Units that are parked during the iteration are left out, even if they are due at once: it would
        never end."""
        found = list(self._deadlines.due(now_s))
        return (unit for unit in found if unit in self._parked)

    def next_deadline_s(self) -> float | None:
        return self._deadlines.next_deadline_s()

    def position(self, unit: Unit, topic: Topic | None = None) -> int | None:
        """The number of units before this one: among those with the same registered events or, if a ``topic`` is given,
        among those that registered for the topic. None if the unit is not parked."""
        parked = self._parked.get(unit)
        if parked is None:
            return None
        lists = [self._lists[parked.wakers]] if topic is None else self._lists_of_topic(topic)
        return sum(ranked_list.rank(parked.entry) for ranked_list in lists)

    def info(self, unit: Unit) -> ParkingInfo[Reason] | None:
        parked = self._parked.get(unit)
        return None if parked is None else ParkingInfo(parked.reason, parked.wakers, parked.until_s)

    def _wake_target(self, event: WakeUpEvent) -> Sequence[Any]:
        parked = self._parked.get(event.target)
        return (event.target,) if parked is not None and any_event_matches(parked.wakers, event) else ()

    def _iterate(self, lists: Sequence[RankedList], end: int) -> Iterator[Unit]:
        """Iterate over units with a sequence number below ``end``. ``merge`` reads one entry ahead, so each entry is
        checked: the unit may have been released or parked again."""
        for entry in merge(*(ranked_list.walk() for ranked_list in lists)):
            parked = self._parked.get(entry[2])
            if parked is not None and parked.entry is entry and entry[1] < end:
                yield entry[2]

    def _lists_of_topic(self, topic: Topic) -> dict[RankedList, None]:
        return {ranked_list: None for matching in self._index.get(topic, {}).values() for ranked_list in matching}

    def _add_list(self, wakers: RegisteredEvents) -> RankedList:
        ranked_list = self._lists[wakers] = RankedList()
        for waker in wakers:
            if not waker.own:
                self._index.setdefault(waker.topic, {}).setdefault(waker.guard, {})[ranked_list] = None
        return ranked_list

    def _remove_list(self, wakers: RegisteredEvents, ranked_list: RankedList) -> None:
        del self._lists[wakers]
        for waker in wakers:
            if waker.own:
                continue
            by_hint = self._index.get(waker.topic, {})
            matching = by_hint.get(waker.guard, {})
            matching.pop(ranked_list, None)
            if not matching:
                by_hint.pop(waker.guard, None)
            if not by_hint:
                self._index.pop(waker.topic, None)
