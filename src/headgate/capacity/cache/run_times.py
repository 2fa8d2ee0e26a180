"""When pods that hold capacity end: the pods with a run-time limit, by queue and in the order of their limits.

The kubelet stops a pod at its limit, and the pod has left its node after its grace period. A pod that has not started
reaches its limit so many seconds from now, at the earliest. Pods without a limit are not here: they may end at any
time. ``capacity/ordering/start_forecast.py`` asks what is released in and below a queue. A pod is therefore kept in its
queue and all ancestors, as in the ledger (``ledger.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from headgate.capacity.cache.pod_record import Ask, PodRecord
from headgate.capacity.cache.pseudo_resources import PseudoResource
from headgate.capacity.cache.timed_amounts import TimedAmounts

RUN_TIME: Final = PseudoResource("run-time")
"""In the ask of a unit: after how many seconds its pods have left their nodes."""
_NONE: Final = TimedAmounts()
_Times = dict[str, TimedAmounts]
"""By queue: what pods in and below it hold, by a time of each."""


class RunTimes:
    """``_ends``: when started pods reach their limits; ``_gone``: when they have left their nodes, at the latest; both
    in seconds since 1970. ``_limits``: the limits of pods that have not started. ``_own``: by queue, the pods in the
    queue itself, by uid. ``_paths``: by queue, itself and its ancestors, for queues with ancestors."""

    def __init__(self) -> None:
        self._ends: _Times = {}
        self._gone: _Times = {}
        self._limits: _Times = {}
        self._own: dict[str, dict[str, PodRecord]] = {}
        self._paths: dict[str, tuple[str, ...]] = {}

    def add(self, record: PodRecord) -> None:
        """The pod holds capacity in its queue."""
        if record.task.run_time is None:
            return
        self._own.setdefault(record.queue, {})[record.task.uid] = record
        self._count(record, self._path(record.queue))

    def remove(self, record: PodRecord) -> None:
        """The record is the same as at :meth:`add`."""
        if record.task.run_time is None:
            return
        del self._own[record.queue][record.task.uid]
        if not self._own[record.queue]:
            del self._own[record.queue]
        self._discount(record, self._path(record.queue))

    def set_path(self, queue: str, path: tuple[str, ...]) -> None:
        """Set the path of a queue (itself, its parent, and so on): its pods then count in the new ancestors and no
        longer in the former ones."""
        before = self._path(queue)
        if len(path) == 1:
            self._paths.pop(queue, None)
        else:
            self._paths[queue] = path
        if before == path:
            return
        for record in self._own.get(queue, {}).values():
            self._discount(record, before)
            self._count(record, path)

    def _path(self, queue: str) -> tuple[str, ...]:
        return self._paths.get(queue, (queue,))

    def _count(self, record: PodRecord, names: tuple[str, ...]) -> None:
        for times, time_s in self._places(record):
            for name in names:
                times.setdefault(name, TimedAmounts()).add(
                    time_s, record.task.uid, record.counted_amounts, is_in_gang=record.gang is not None
                )

    def _discount(self, record: PodRecord, names: tuple[str, ...]) -> None:
        for times, time_s in self._places(record):
            for name in names:
                times[name].remove(time_s, record.task.uid)
                if not times[name]:
                    del times[name]

    def _places(self, record: PodRecord) -> list[tuple[_Times, float]]:
        run_time = record.task.run_time
        if run_time is None:
            return []
        if run_time.started_s is None:
            return [(self._limits, run_time.limit_s)]
        end_s = run_time.started_s + run_time.limit_s
        return [(self._ends, end_s), (self._gone, end_s + max(run_time.grace_s, 0.0))]

    def has_unstarted(self, queue: str) -> bool:
        """Whether a pod with a limit, in or below the queue, has not started: its end is later as time goes by."""
        return queue in self._limits

    def held(self, queue: str, resource: str, *, with_gangs: bool) -> int:
        """What the pods with a limit, in and below the queue, hold of the resource. ``with_gangs``: whether members of
        gangs count."""
        return sum(
            times.get(queue, _NONE).total(resource, with_gangs=with_gangs) for times in (self._ends, self._limits)
        )

    def released_at_s(self, queue: str, resource: str, amount: float, now_s: float, *, with_gangs: bool) -> float:
        """The earliest time, from now on, at which pods with a limit, in and below the queue, may have released this
        amount; infinite if they hold less. A pod beyond its limit may end now."""
        if amount <= 0:
            return now_s
        ends, limits = self._ends.get(queue, _NONE), self._limits.get(queue, _NONE)

        def is_enough(until_s: float) -> bool:
            total = ends.total_until(resource, until_s, with_gangs=with_gangs)
            return total + limits.total_until(resource, until_s, with_gangs=with_gangs, from_s=now_s) >= amount

        times_s = ends.first_time_s(is_enough), limits.first_time_s(is_enough, now_s)
        return max(min((each for each in times_s if each is not None), default=math.inf), now_s)

    def released_by(self, queue: str, resource: str, until_s: float, now_s: float, *, with_gangs: bool) -> int:
        """What pods with a limit, in and below the queue, have surely released then. It is not known when a pod that
        has not started leaves, and one that should have left by now and has not is not trusted again."""
        gone = self._gone.get(queue, _NONE)
        return gone.total_until(resource, until_s, with_gangs=with_gangs) - gone.total_until(
            resource, now_s, with_gangs=with_gangs
        )


def with_run_time(ask: Ask, records: Iterable[PodRecord]) -> Ask:
    """The ask of a unit of these pods, with the time after which they have left their nodes if that is known."""
    run_time_s = _longest_s(records)
    return ask if run_time_s is None else (*ask, (RUN_TIME, run_time_s))


def run_time_s_of(ask: Ask) -> int | None:
    """How many seconds after its start the unit has left its nodes, at the latest; None if that is not known."""
    return next((amount for name, amount in ask if name == RUN_TIME), None)


def _longest_s(records: Iterable[PodRecord]) -> int | None:
    total_s = 0.0
    for record in records:
        run_time = record.task.run_time
        if run_time is None:
            return None
        total_s = max(total_s, run_time.limit_s + run_time.grace_s)
    return math.ceil(total_s)
