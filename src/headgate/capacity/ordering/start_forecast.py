"""Forecasts when the first unit in line may start, and what other units may take without a delay of it.

The first unit starts when its queue and all ancestors have capacity for it. Pods with a run-time limit are expected to
run until their limit (``capacity/cache/run_times.py``); all other pods may end at any time. So the unit starts at
``not_before_s`` at the earliest. What is surely free then, beside the first unit, is *spare*: what is free now, and
what pods with a limit have released by then. A later unit delays nothing if it has left by ``not_before_s``, or if it
asks for no more than the spare amounts.

:meth:`StartForecaster.bound` says how much a forecast may change when the usage of ancestors changes, so that not every
pod that starts or ends anywhere makes all forecasts necessary again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.capacity.cache.ledger import Amounts, Ledger
from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.cache.queue_tree import QueueTree
from headgate.capacity.cache.run_times import RunTimes
from headgate.capacity.cache.usage_triggers import QueueResource
from headgate.capacity.ordering.queue_views import ENQUEUE_CHECK

BOUND_S: Final = 60.0
"""How long a bound is valid while pods with a run-time limit have not started: their ends are later every second."""


class StartForecast(msgspec.Struct, frozen=True):
    """``not_before_s``: the earliest start of the unit, in seconds since 1970. ``spare``: what remains beside it of the
    limits, if the amounts that pods hold count. ``spare_of_committed``: if the amounts that are set aside for enqueued
    groups count, too. ``missing_of_groups``: if only amounts that are set aside for enqueued groups are missing, the
    resources of these; otherwise empty."""

    not_before_s: float
    spare: dict[QueueResource, float]
    spare_of_committed: dict[QueueResource, float]
    missing_of_groups: frozenset[str] = frozenset()

    @property
    def queues(self) -> set[str]:
        """The queues whose usage decides."""
        return {name for name, _ in (*self.spare, *self.spare_of_committed)}


class ForecastBound(msgspec.Struct, frozen=True):
    """``forecast``: the latest start, the largest spare amounts and the most resources that any forecast has after
    changes of usage up to the amounts ``changes``, by ancestor and resource, and until ``until_s``."""

    forecast: StartForecast
    changes: dict[QueueResource, int]
    until_s: float


class _Room:
    """One queue that limits the unit. ``asked``: the amounts that the unit asks for of resources with a limit there.
    ``change``: by resource, how much the usage may change. ``free``: the limits without the amounts that pods hold;
    ``free_of_committed``: without the amounts that are set aside for enqueued groups either; both after the change.
    Each is empty if the unit need not fit there. ``set_aside``: the amounts that are set aside."""

    def __init__(self, name: str, limits: Amounts, asked: dict[str, int], change: dict[str, float]) -> None:
        self.name = name
        self.limits = limits
        self.asked = asked
        self.change = change
        self.free: dict[str, float] = {}
        self.free_of_committed: dict[str, float] = {}
        self.set_aside: dict[str, int] = {}

    @property
    def lacks_held(self) -> bool:
        """Whether more is missing than what is set aside."""
        without_groups = {each: free + self.set_aside[each] for each, free in self.free_of_committed.items()}
        return bool(self._short_of(self.free) or self._short_of(without_groups))

    @property
    def lacks(self) -> bool:
        return bool(self._short_of(self.free) or self.missing_of_committed)

    @property
    def missing_of_committed(self) -> list[str]:
        return self._short_of(self.free_of_committed)

    def _short_of(self, free: dict[str, float]) -> list[str]:
        return [resource for resource, amount in free.items() if amount < self.asked[resource]]


class StartForecaster:
    """``is_enqueue`` in all methods: the unit is a group that waits for the enqueue action. ``is_timed``: whether run
    times matter; otherwise a forecast has only what is missing."""

    def __init__(self, tree: QueueTree, ledger: Ledger, run_times: RunTimes) -> None:
        self._tree = tree
        self._ledger = ledger
        self._run_times = run_times

    def forecast(self, queue: str, ask: Ask, now_s: float, *, is_enqueue: bool, is_timed: bool = True) -> StartForecast:
        """The forecast for a unit with this ask."""
        rooms = self._rooms(queue, ask, is_enqueue, 0.0)
        lacking = [room for room in rooms if room.lacks]
        missing_of_groups: frozenset[str] = frozenset()
        if not any(room.lacks_held for room in lacking):
            missing_of_groups = frozenset(each for room in lacking for each in room.missing_of_committed)
        not_before_s = now_s
        if is_timed:
            # A unit that asks for more than an ancestor has starts never: then nothing is concluded from run times.
            latest_s = self._not_before_s(lacking, now_s)
            not_before_s = now_s if math.isinf(latest_s) else latest_s
            self._release_until(lacking, now_s, not_before_s)
        return _forecast(rooms, not_before_s, missing_of_groups)

    def bound(
        self, queue: str, ask: Ask, now_s: float, fraction: float, *, is_enqueue: bool, is_timed: bool
    ) -> ForecastBound:
        """A bound for the forecasts that follow if the usage of ancestors changes by up to this fraction of their
        limits. The usage of the queue itself stays."""
        rooms = self._rooms(queue, ask, is_enqueue, fraction)
        missing_of_groups: frozenset[str] = frozenset()
        if not any(room.lacks_held for room in rooms):
            missing_of_groups = frozenset(each for room in rooms for each in room.free_of_committed)
        not_before_s, until_s = now_s, math.inf
        if is_timed:
            not_before_s = self._not_before_s(rooms, now_s)
            has_unstarted = any(self._run_times.has_unstarted(room.name) for room in rooms)
            until_s = now_s + BOUND_S if has_unstarted else math.inf
            self._release_until(rooms, now_s, not_before_s + (BOUND_S if has_unstarted else 0.0))
        changes = {
            (room.name, each): int(amount)
            for room in rooms
            for each, amount in room.change.items()
            if room.name != queue and amount < math.inf
        }
        return ForecastBound(_forecast(rooms, not_before_s, missing_of_groups), changes, until_s)

    def _rooms(self, queue: str, ask: Ask, is_enqueue: bool, fraction: float) -> list[_Room]:
        rooms = []
        for name in self._tree.path(queue):
            tree_queue, account = self._tree.queues.get(name), self._ledger.account(name)
            limits = {} if tree_queue is None else tree_queue.limits
            asked = {each: amount for each, amount in ask if amount and each in limits}
            if not asked:
                continue
            change = {each: 0 if name == queue else _part_of(limits[each], fraction) for each in asked}
            room = _Room(name, limits, asked, change)
            for each in asked:
                if not is_enqueue:
                    room.free[each] = limits[each] - account.allocated_plus_reserved(each) + change[each]
                if is_enqueue or ENQUEUE_CHECK in ask:
                    room.free_of_committed[each] = limits[each] - account.committed(each) + change[each]
                    room.set_aside[each] = account.set_aside(each)
            rooms.append(room)
        return rooms

    def _not_before_s(self, rooms: Iterable[_Room], now_s: float) -> float:
        """The earliest time at which the queues have capacity for the unit: all pods without a limit may end now.
        Groups hold what is set aside for them no longer than until they are deleted, which may be now as well."""
        found_s = now_s
        for room in rooms:
            with_gangs = bool(room.free)
            for each, amount in room.asked.items():
                held = self._run_times.held(room.name, each, with_gangs=with_gangs)
                missing = amount - room.limits[each] + held + room.change[each]
                found_s = max(
                    found_s, self._run_times.released_at_s(room.name, each, missing, now_s, with_gangs=with_gangs)
                )
        return found_s

    def _release_until(self, rooms: Iterable[_Room], now_s: float, until_s: float) -> None:
        """Add what pods with a limit have surely released by then. What a member of a group releases stays set aside
        for the group."""
        for room in rooms:
            for free, with_gangs in ((room.free, True), (room.free_of_committed, False)):
                for each in free:
                    free[each] += self._run_times.released_by(room.name, each, until_s, now_s, with_gangs=with_gangs)


def _part_of(limit: int, fraction: float) -> float:
    """Whole, or infinite."""
    return math.inf if math.isinf(fraction) else int(limit * fraction)


def _forecast(rooms: list[_Room], not_before_s: float, missing_of_groups: frozenset[str]) -> StartForecast:
    return StartForecast(
        not_before_s,
        {(room.name, each): free - room.asked[each] for room in rooms for each, free in room.free.items()},
        {(room.name, each): free - room.asked[each] for room in rooms for each, free in room.free_of_committed.items()},
        missing_of_groups,
    )
