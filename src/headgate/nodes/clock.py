"""The clock of hollow nodes: it runs evenly, as the event loop's does, and is set right when the wall clock was moved.

What is written (a Lease's ``renewTime``, heartbeats, times of conditions) is compared with the clocks of other
machines, so it must follow the wall clock: after a suspend, a correction by NTP, or when somebody sets it. How long a
pod runs must not depend on that. So whoever keeps deadlines is told by how much the clock was moved, and moves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_TOLERANCE_S: Final = 0.05
"""Differences below this are not worth moving every deadline for."""


class FollowingClock:
    """Seconds since 1970. ``steady`` runs evenly from anywhere; ``moved`` hears by how much the clock was set."""

    def __init__(
        self, steady: Callable[[], float], wall: Callable[[], float], moved: Callable[[float], None] = lambda by_s: None
    ) -> None:
        self._steady: Final = steady
        self._wall: Final = wall
        self._moved: Final = moved
        self._offset_s = wall() - steady()

    def now_s(self) -> float:
        steady_s = self._steady()
        by_s = self._wall() - steady_s - self._offset_s
        if abs(by_s) > _TOLERANCE_S:
            self._offset_s += by_s
            self._moved(by_s)
        return self._offset_s + steady_s


class SteadyClock:
    """Seconds since 1970 as of the start, from then on evenly: for who writes no times, but reads some."""

    def __init__(self, steady: Callable[[], float], wall: Callable[[], float]) -> None:
        self._steady: Final = steady
        self._wall: Final = wall
        self._offset_s: Final = wall() - steady()

    def now_s(self) -> float:
        return self._offset_s + self._steady()

    def ahead_s(self) -> float:
        """How far the wall clock, and with it every time that others write now, has moved ahead of this one."""
        return self._wall() - self.now_s()
