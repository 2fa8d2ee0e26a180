"""The parking lot against a scan of all parked units, after any parks, releases, wake-ups and time-outs."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.waiting.heap import Heap
from headgate.waiting.parking_lot import ParkingLot
from headgate.waiting.queueing_hints import ClusterEventWithHint
from headgate.waiting.ranked_list import RankedList

UNITS = [f"u{number}" for number in range(8)]
TOPICS = ["room", "light", ("gates", "u1")]


class Needs(msgspec.Struct, frozen=True):
    size: int

    def matches(self, event: Any, /) -> bool:
        if self.size == 3:
            raise ValueError("cannot say")
        return bool(event.size >= self.size)


class Happens(msgspec.Struct, frozen=True):
    topics: tuple[Any, ...]
    size: int
    target: str | None = None


units = st.sampled_from(UNITS)
wakers = st.lists(
    st.builds(
        ClusterEventWithHint, st.sampled_from(TOPICS), st.none() | st.builds(Needs, st.integers(0, 3)), st.booleans()
    ),
    max_size=4,
).map(tuple)
happenings = st.builds(
    Happens, st.lists(st.sampled_from(TOPICS), max_size=3).map(tuple), st.integers(0, 3), st.none() | units
)
moments = st.none() | st.integers(0, 20).map(float)


class Parked(msgspec.Struct):
    """As the lot should know it, in plain words."""

    order: int
    number: int
    wakers: tuple[ClusterEventWithHint, ...]
    until_s: float | None


def wakes(unit: str, parked: Parked, event: Happens) -> bool:
    for waker in parked.wakers:
        if waker.topic not in event.topics:
            continue
        if event.target != unit if event.target is not None else waker.own:
            continue
        guard = waker.guard
        if not isinstance(guard, Needs) or guard.size == 3 or event.size >= guard.size:
            return True
    return False


class LotAgainstAskingEverybody(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lot: ParkingLot[str, str] = ParkingLot()
        self.known: dict[str, Parked] = {}
        self.number = 0

    def park_one(self, unit: str, wakers: tuple[ClusterEventWithHint, ...], order: int, until_s: float | None) -> None:
        self.lot.park(unit, f"reason {self.number}", wakers, order, until_s)
        self.known[unit] = Parked(order, self.number, wakers, until_s)
        self.number += 1

    def in_order(self) -> list[str]:
        return sorted(self.known, key=lambda unit: (self.known[unit].order, self.known[unit].number))

    def expected(self, event: Happens) -> list[str]:
        return [unit for unit in self.in_order() if wakes(unit, self.known[unit], event)]

    @rule(unit=units, wakers=wakers, order=st.integers(0, 3), until_s=moments)
    def park(self, unit: str, wakers: tuple[ClusterEventWithHint, ...], order: int, until_s: float | None) -> None:
        self.park_one(unit, wakers, order, until_s)

    @rule(unit=units)
    def release(self, unit: str) -> None:
        assert self.lot.release(unit) is (self.known.pop(unit, None) is not None)

    @rule(event=happenings)
    def wake(self, event: Happens) -> None:
        assert list(self.lot.wake(event)) == self.expected(event)

    @rule(event=happenings, enough=st.integers(0, 3), fates=st.lists(st.sampled_from("rps"), min_size=8, max_size=8))
    def wake_some_and_change_them_meanwhile(self, event: Happens, enough: int, fates: list[str]) -> None:
        expected = self.expected(event)[:enough]
        woken: list[str] = []
        for unit in self.lot.wake(event) if enough else ():
            woken.append(unit)
            fate = fates.pop()
            if fate == "r":
                self.release(unit)
            elif fate == "p":
                self.park_one(unit, self.known[unit].wakers, 3, None)
            if len(woken) == enough:
                break
        assert woken == expected

    @rule(now_s=st.integers(0, 20).map(float))
    def time_passes(self, now_s: float) -> None:
        due = [unit for unit, each in self.known.items() if each.until_s is not None and each.until_s <= now_s]
        assert sorted(self.lot.due(now_s)) == sorted(due)
        for unit in due:
            self.known[unit].until_s = None

    @rule(unit=units, topic=st.none() | st.sampled_from(TOPICS))
    def position(self, unit: str, topic: Any) -> None:
        me = self.known.get(unit)
        if me is None:
            assert self.lot.position(unit, topic) is None
            return

        def beside(other: Parked) -> bool:
            if topic is None:
                return other.wakers == me.wakers
            return any(waker.topic == topic and not waker.own for waker in other.wakers)

        before = self.in_order()[: self.in_order().index(unit)]
        assert self.lot.position(unit, topic) == sum(beside(self.known[each]) for each in before)

    @invariant()
    def the_lot_knows_whom_it_holds(self) -> None:
        assert len(self.lot) == len(self.known)
        assert list(self.lot.all_units()) == self.in_order()
        deadlines = [each.until_s for each in self.known.values() if each.until_s is not None]
        assert self.lot.next_deadline_s() == min(deadlines, default=None)

    @invariant()
    def the_index_holds_nothing_that_nobody_waits_for(self) -> None:
        wanted = {waker.topic for each in self.known.values() for waker in each.wakers if not waker.own}
        assert set(self.lot._index) == wanted
        assert set(self.lot._lists) == {each.wakers for each in self.known.values()}


TestLot = LotAgainstAskingEverybody.TestCase
TestLot.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


class LineAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.line, self.plain = RankedList(), list[tuple[int, ...]]()

    @rule(keys=st.sets(st.integers(0, 5000), max_size=2500))
    def add_many(self, keys: set[int]) -> None:
        for key in keys - {entry[0] for entry in self.plain}:
            self.line.add((key,))
            self.plain.append((key,))
        self.plain.sort()

    @rule(where=st.floats(0, 0.999), count=st.integers(1, 1500))
    def remove_many(self, where: float, count: int) -> None:
        first = int(where * len(self.plain))
        for entry in self.plain[first : first + count]:
            self.line.remove(entry)
        del self.plain[first : first + count]

    @rule(key=st.integers(-1, 5001))
    def rank(self, key: int) -> None:
        assert self.line.rank((key,)) == sum(entry < (key,) for entry in self.plain)

    @invariant()
    def it_is_in_order(self) -> None:
        assert list(self.line.walk()) == self.plain
        assert bool(self.line) is bool(self.plain)


TestLine = LineAgainstAList.TestCase
TestLine.settings = settings(
    max_examples=15,  # each of 12 steps adds or removes thousands of keys
    stateful_step_count=12,
    deadline=None,
)


class HeapAgainstADict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.heap: Heap[str] = Heap()
        self.plain: dict[str, tuple[int, int]] = {}
        self.count = 0

    @rule(name=units, key=st.integers(0, 4))
    def put(self, name: str, key: int) -> None:
        self.count += 1
        self.heap.put(name, key)
        self.plain[name] = (key, self.count)

    @rule(name=units)
    def discard(self, name: str) -> None:
        self.heap.discard(name)
        self.plain.pop(name, None)

    @rule()
    def pop(self) -> None:
        least = min(self.plain, key=lambda name: self.plain[name], default=None)
        assert self.heap.pop() == least
        if least is not None:
            del self.plain[least]

    @invariant()
    def it_holds_the_same(self) -> None:
        assert len(self.heap) == len(self.plain)
        assert set(self.heap) == set(self.plain)
        least = min(self.plain, key=lambda name: self.plain[name], default=None)
        assert self.heap.first() == (None if least is None else (self.plain[least][0], least))


TestHeap = HeapAgainstADict.TestCase
TestHeap.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
