"""The parking lot: which units an event wakes, in which order, and at which cost."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from headgate.waiting.parking_lot import ParkingLot
from headgate.waiting.queueing_hints import ClusterEventWithHint


class Event(msgspec.Struct, frozen=True):
    topics: tuple[Hashable, ...]
    size: int = 0
    target: str | None = None


class SizeHint:
    """Matches events of at least this size; hints of equal size are equal."""

    def __init__(self, size: int, evaluated: list[int] | None = None) -> None:
        self.size, self.evaluated = size, evaluated

    def __hash__(self) -> int:
        return hash(self.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeHint) and self.size == other.size

    def matches(self, event: Any, /) -> bool:
        if self.evaluated is not None:
            self.evaluated.append(self.size)
        return bool(event.size >= self.size)


class FailingHint(SizeHint):
    def matches(self, event: Any, /) -> bool:
        raise ValueError("broken")


ROOM = Event(("room",), 10)
ON_ROOM = (ClusterEventWithHint("room"),)


def a_lot(**orders: int) -> ParkingLot[str, str]:
    lot: ParkingLot[str, str] = ParkingLot()
    for name, order in orders.items():
        lot.park(name, "no room", ON_ROOM, order)
    return lot


def test_units_wake_in_order_of_their_keys_not_of_parking() -> None:
    assert list(a_lot(c=3, a=1, b=2).wake(ROOM)) == ["a", "b", "c"]


def test_units_with_equal_keys_wake_in_order_of_parking() -> None:
    assert list(a_lot(z=1, a=1, m=1).wake(ROOM)) == ["z", "a", "m"]


def test_an_event_of_another_topic_wakes_no_unit() -> None:
    assert list(a_lot(a=1).wake(Event(("light",)))) == []


def test_a_woken_unit_stays_parked_until_it_is_released() -> None:
    lot = a_lot(a=1, b=2)
    assert list(lot.wake(ROOM)) == list(lot.wake(ROOM)) == ["a", "b"]
    assert lot.release("a")
    assert not lot.release("a")
    assert list(lot.wake(ROOM)) == ["b"]
    assert len(lot) == 1


def test_a_consumer_may_stop_early_and_the_other_units_stay_parked() -> None:
    lot = a_lot(a=1, b=2, c=3)
    first = next(lot.wake(ROOM))
    lot.release(first)
    assert list(lot.wake(ROOM)) == ["b", "c"]


def test_a_hint_wakes_its_unit_only_for_matching_events() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    lot.park("big", "no room", (ClusterEventWithHint("room", SizeHint(20)),), 1)
    lot.park("small", "no room", (ClusterEventWithHint("room", SizeHint(5)),), 2)
    assert list(lot.wake(ROOM)) == ["small"]


def test_a_hint_is_evaluated_once_for_all_its_units() -> None:
    lot: ParkingLot[int, str] = ParkingLot()
    evaluated: list[int] = []
    for number in range(100):
        lot.park(
            number,
            "no room",
            (ClusterEventWithHint("room", SizeHint(20, evaluated)), ClusterEventWithHint(("own", number % 2))),
            number,
        )
    assert list(lot.wake(ROOM)) == []
    assert evaluated == [20]


def test_a_hint_that_raises_wakes_its_units() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    lot.park("a", "no room", (ClusterEventWithHint("room", FailingHint(1)),), 1)
    assert list(lot.wake(ROOM)) == ["a"]


def test_a_unit_with_several_matching_events_wakes_once_and_units_are_merged_in_order() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    lot.park("c", "", (ClusterEventWithHint("room"), ClusterEventWithHint("light")), 3)
    lot.park("b", "", (ClusterEventWithHint("light"),), 2)
    lot.park("a", "", (ClusterEventWithHint("room", SizeHint(1)),), 1)
    assert list(lot.wake(Event(("room", "light"), 10))) == ["a", "b", "c"]


def test_a_unit_parked_during_the_iteration_is_not_woken_by_the_same_event() -> None:
    lot = a_lot(a=1, b=2)
    woken = []
    for unit in lot.wake(ROOM):
        woken.append(unit)
        lot.park(unit, "still no room", ON_ROOM, 9)
        lot.park("late", "no room", ON_ROOM, 5)
    assert woken == ["a", "b"]


def test_a_unit_released_before_its_turn_is_not_woken() -> None:
    lot = a_lot(a=1, b=2, c=3)
    lot.park("d", "", (ClusterEventWithHint("room", SizeHint(1)),), 4)
    woken = []
    for unit in lot.wake(ROOM):
        woken.append(unit)
        lot.release("b")
        lot.release("d")
    assert woken == ["a", "c"]


def test_a_unit_parked_again_before_its_turn_is_not_woken_by_the_same_event() -> None:
    lot = a_lot(a=1, c=3)
    lot.park("b", "", (ClusterEventWithHint("room", SizeHint(1)),), 2)
    woken = []
    for unit in lot.wake(ROOM):
        woken.append(unit)
        if unit == "a":
            lot.park("b", "it has just been looked at", (ClusterEventWithHint("room", SizeHint(1)),), 2)
    assert woken == ["a", "c"]


def test_an_event_with_a_target_wakes_only_the_target() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    for number, name in enumerate("ab"):
        lot.park(name, "gated", (ClusterEventWithHint("gates", own=True),), number)
    assert list(lot.wake(Event(("gates",), target="b"))) == ["b"]
    assert list(lot.wake(Event(("gates",), target="stranger"))) == []
    assert list(lot.wake(Event(("other",), target="b"))) == []
    assert list(lot.wake(Event(("gates",)))) == []


def test_all_units_returns_all_units_in_order() -> None:
    lot = a_lot(b=2, a=1)
    lot.park("c", "", (), 0)
    assert list(lot.all_units()) == ["c", "a", "b"]


def test_a_deadline_is_returned_once_and_the_earliest_first() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    lot.park("late", "", (), 1, until_s=20.0)
    lot.park("soon", "", (), 2, until_s=10.0)
    lot.park("never", "", (), 3)
    assert lot.next_deadline_s() == 10.0
    assert list(lot.due(9.9)) == []
    assert list(lot.due(20.0)) == ["soon", "late"]
    assert list(lot.due(20.0)) == []
    assert lot.next_deadline_s() is None
    assert len(lot) == 3


def test_a_unit_parked_again_has_its_new_deadline_and_reason() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    lot.park("a", "old", ON_ROOM, 1, until_s=10.0)
    lot.park("a", "new", (ClusterEventWithHint("light"),), 1, until_s=30.0)
    assert list(lot.due(10.0)) == []
    assert list(lot.wake(ROOM)) == []
    info = lot.info("a")
    assert info is not None
    assert (info.reason, info.wakers, info.until_s) == ("new", (ClusterEventWithHint("light"),), 30.0)
    assert lot.info("b") is None


def test_a_position_counts_units_with_the_same_events_or_of_a_topic() -> None:
    lot = a_lot(a=1, c=3, d=4)
    lot.park("b", "", (ClusterEventWithHint("room", SizeHint(1)),), 2)
    assert lot.position("d") == 2
    assert lot.position("d", "room") == 3
    assert lot.position("b") == 0
    assert lot.position("x") is None


def test_a_reordered_unit_keeps_its_reason_and_deadline() -> None:
    lot = a_lot(a=1, b=2)
    lot.park("c", "why", ON_ROOM, 3, until_s=5.0)
    lot.reorder("c", 0)
    lot.reorder("stranger", 0)
    assert list(lot.wake(ROOM)) == ["c", "a", "b"]
    info = lot.info("c")
    assert info is not None
    assert (info.reason, info.until_s, lot.position("c")) == ("why", 5.0, 0)
    assert list(lot.due(5.0)) == ["c"]


def test_an_empty_lot_keeps_no_entries() -> None:
    lot = a_lot(a=1, b=2)
    lot.park(
        "c", "", (ClusterEventWithHint("room", SizeHint(3)), ClusterEventWithHint("own", own=True)), 3, until_s=5.0
    )
    for unit in list(lot.all_units()):
        lot.release(unit)
    assert (lot._index, lot._lists, lot._parked, len(lot._deadlines)) == ({}, {}, {}, 0)


def test_units_parked_again_while_due_units_are_returned_are_due_in_the_next_call() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    lot.park("a", "x", (), 0, until_s=1.0)
    lot.park("b", "x", (), 1, until_s=2.0)
    due = []
    for unit in lot.due(2.0):
        due.append(unit)
        assert len(due) <= 2
        lot.park(unit, "x", (), 0, until_s=2.0)
    assert due == ["a", "b"]
    assert sorted(lot.due(2.0)) == ["a", "b"]


def test_a_unit_released_while_due_units_are_returned_is_not_returned() -> None:
    lot: ParkingLot[str, str] = ParkingLot()
    lot.park("a", "x", (), 0, until_s=1.0)
    lot.park("b", "x", (), 1, until_s=1.0)
    due = lot.due(1.0)
    assert next(due) == "a"
    lot.release("b")
    assert list(due) == []
