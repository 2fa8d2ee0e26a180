"""Meters of plugins: how often each was asked, and, for one attempt out of so many, how long it took.

Counting is an addition per call, timing two looks at a clock that is handed in; without one nothing is timed. An
attempt is timed as a whole, so what is told of an extension point is the sum over its plugins in that attempt. The
first attempt is timed, so that a slow plugin shows even where little happens. Told to ``metrics.py``. Plugins that are
not built in are timed at each call, so that a slow one is named (``slow_calls.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from headgate.scheduling.plugin_failures import PluginFailures

Clock = Callable[[], float]

SUCCESS: Final = "Success"
SKIP: Final = "Skip"
UNSCHEDULABLE: Final = "Unschedulable"
ERROR: Final = "Error"

PRE_ENQUEUE: Final = "PreEnqueue"
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


class Record(Protocol):
    """Where durations go, in seconds."""

    def plugin_took(self, plugin: str, point: str, status: str, duration_s: float, /) -> None: ...

    def point_took(self, point: str, status: str, profile: str, duration_s: float, /) -> None: ...

    def times_always(self, plugin: str, /) -> bool:
        """Whether every call of the plugin is timed, and told to :meth:`call_took`."""
        ...

    def call_took(self, plugin: str, point: str, duration_s: float, now_s: float, /) -> None: ...


class Meter:
    """One plugin at one extension point of one profile."""

    __slots__ = ("_watch", "asked", "plugin", "point", "times_always")

    def __init__(self, plugin: str, point: str, watch: Watch, *, times_always: bool = False) -> None:
        self.plugin = plugin
        self.point = point
        self.asked = 0
        self.times_always = times_always
        self._watch = watch

    def begin(self) -> float | None:
        """The plugin is asked. When, if that is to be told to :meth:`end`."""
        self.asked += 1
        return self._watch.now_s() if self._watch.is_timing or self.times_always else None

    def end(self, began_s: float, status: str) -> None:
        self._watch.took(self, status, self._watch.now_s() - began_s)


class Watch:
    """The meters of one profile. ``every``: one attempt out of so many is timed. ``failures``: of its plugins."""

    def __init__(
        self,
        profile: str = "",
        clock: Clock | None = None,
        record: Record | None = None,
        every: int = 10,
        failures: PluginFailures | None = None,
    ) -> None:
        self.failures = PluginFailures() if failures is None else failures
        self.profile = profile
        self.is_timing = False
        self.now_s: Clock = clock or no_time
        self._record = record if clock is not None else None
        self._every = every
        self._until_next = 1
        self._meters: dict[tuple[str, str], Meter] = {}
        self._points: dict[str, tuple[float, str]] = {}

    def meter(self, plugin: str, point: str) -> Meter:
        found = self._meters.get((plugin, point))
        if found is None:
            always = self._record is not None and self._record.times_always(plugin)
            found = self._meters[plugin, point] = Meter(plugin, point, self, times_always=always)
        return found

    def meters(self) -> Iterator[Meter]:
        return iter(self._meters.values())

    def begin(self) -> None:
        """An attempt begins."""
        self._until_next -= 1
        if not self._until_next:
            self._until_next = self._every
            self.is_timing = self._record is not None

    def took(self, meter: Meter, status: str, duration_s: float) -> None:
        if self._record is not None and meter.times_always:
            self._record.call_took(meter.plugin, meter.point, duration_s, self.now_s())
        if not self.is_timing:
            return
        if self._record is not None:
            self._record.plugin_took(meter.plugin, meter.point, status, duration_s)
        total_s, worst = self._points.get(meter.point, (0.0, SUCCESS))
        self._points[meter.point] = (total_s + duration_s, worst if status in (SUCCESS, SKIP) else status)

    def end(self) -> None:
        """The attempt is over."""
        if not self.is_timing:
            return
        self.is_timing = False
        for point, (duration_s, status) in self._points.items():
            if self._record is not None and point != BIND:  # told by whoever performs it
                self._record.point_took(point, status, self.profile, duration_s)
        self._points.clear()


def no_time() -> float:
    return 0.0
