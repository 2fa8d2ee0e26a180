"""Timers of plugins: the number of calls of each plugin and, for a sample of the attempts, their duration.

Counting costs one addition per call. Timing reads the clock twice per call; without a clock nothing is timed. An
attempt is timed as a whole, so the duration of an extension point is the sum over its plugins in that attempt. The
first attempt is always timed, so that a slow plugin is visible in an idle cluster. External plugins are timed at every
call, so that slow ones are logged (``scheduling/metrics/slow_plugin_calls.py``).
``scheduling/metrics/scheduler_metrics.py`` receives the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from headgate.scheduling.framework.plugin_failures import PluginFailures

TimerClock = Callable[[], float]

SUCCESS: Final = "Success"
SKIP: Final = "Skip"
UNSCHEDULABLE: Final = "Unschedulable"
ERROR: Final = "Error"

PRE_ENQUEUE: Final = "PreEnqueue"
QUEUE_ADMISSION: Final = "QueueAdmission"
QUEUE_RESERVE: Final = "QueueReserve"
QUEUE_RELEASE: Final = "QueueRelease"
QUEUE_ORDER: Final = "QueueOrder"
PRE_FILTER: Final = "PreFilter"
FILTER: Final = "Filter"
POST_FILTER: Final = "PostFilter"
PRE_SCORE: Final = "PreScore"
SCORE: Final = "Score"
RESERVE: Final = "Reserve"
UNRESERVE: Final = "Unreserve"
PERMIT: Final = "Permit"
PRE_BIND: Final = "PreBind"
BIND: Final = "Bind"
POST_BIND: Final = "PostBind"


class DurationRecorder(Protocol):
    """Receives durations in seconds."""

    def plugin_took(self, plugin: str, point: str, status: str, duration_s: float, /) -> None: ...

    def point_took(self, point: str, status: str, profile: str, duration_s: float, /) -> None: ...

    def times_always(self, plugin: str, /) -> bool:
        """Whether every call of the plugin is timed and reported to :meth:`call_took`."""
        ...

    def call_took(self, plugin: str, point: str, duration_s: float, now_s: float, /) -> None: ...


class PluginTimer:
    """One plugin at one extension point of one profile."""

    __slots__ = ("_timers", "calls", "plugin", "point", "times_always")

    def __init__(self, plugin: str, point: str, timers: ProfileTimers, *, times_always: bool = False) -> None:
        self.plugin = plugin
        self.point = point
        self.calls = 0
        self.times_always = times_always
        self._timers = timers

    def begin(self) -> float | None:
        """Count a call. Returns its start time if the call is timed; the caller then passes it to :meth:`end`."""
        self.calls += 1
        return self._timers.now_s() if self._timers.is_timing or self.times_always else None

    def end(self, began_s: float, status: str) -> None:
        self._timers.took(self, status, self._timers.now_s() - began_s)


class ProfileTimers:
    """The timers of one profile. ``every``: one of this many attempts is timed. ``failures``: of its plugins."""

    def __init__(
        self,
        profile: str = "",
        clock: TimerClock | None = None,
        record: DurationRecorder | None = None,
        every: int = 10,
        failures: PluginFailures | None = None,
    ) -> None:
        self.failures = PluginFailures() if failures is None else failures
        self.profile = profile
        self.is_timing = False
        self.now_s: TimerClock = clock or no_time
        self._record = record if clock is not None else None
        self._every = every
        self._until_next = 1
        self._timers: dict[tuple[str, str], PluginTimer] = {}
        self._points: dict[str, tuple[float, str]] = {}

    def timer(self, plugin: str, point: str) -> PluginTimer:
        found = self._timers.get((plugin, point))
        if found is None:
            always = self._record is not None and self._record.times_always(plugin)
            found = self._timers[plugin, point] = PluginTimer(plugin, point, self, times_always=always)
        return found

    def timers(self) -> Iterator[PluginTimer]:
        return iter(self._timers.values())

    def begin(self) -> None:
        """An attempt begins."""
        self._until_next -= 1
        if not self._until_next:
            self._until_next = self._every
            self.is_timing = self._record is not None

    def took(self, timer: PluginTimer, status: str, duration_s: float) -> None:
        if self._record is not None and timer.times_always:
            self._record.call_took(timer.plugin, timer.point, duration_s, self.now_s())
        if not self.is_timing:
            return
        if self._record is not None:
            self._record.plugin_took(timer.plugin, timer.point, status, duration_s)
        total_s, status_so_far = self._points.get(timer.point, (0.0, SUCCESS))
        self._points[timer.point] = (total_s + duration_s, status_so_far if status in (SUCCESS, SKIP) else status)

    def end(self) -> None:
        """The attempt ended."""
        if not self.is_timing:
            return
        self.is_timing = False
        for point, (duration_s, status) in self._points.items():
            if self._record is not None and point != BIND:  # the dispatcher reports it
                self._record.point_took(point, status, self.profile, duration_s)
        self._points.clear()


def no_time() -> float:
    return 0.0
