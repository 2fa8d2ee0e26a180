"""The clock of hollow nodes: monotonic, and corrected when the wall clock is set.

Written times (a Lease's ``renewTime``, heartbeats, times of conditions) are compared with the clocks of other machines,
so they must be equal to the wall clock, also after a suspend, an NTP correction, or a manual change. The run time of a
pod must not depend on that. The clock therefore reports the offset, and the owner of the deadlines moves them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_TOLERANCE_S: Final = 0.05
"""Deadlines are not moved for a smaller difference."""


class FollowingClock:
    """Seconds since 1970. ``steady`` is a monotonic clock; ``moved`` is called with the offset when the clock was
    changed.
    """

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
    """Seconds since 1970, read once at the start and monotonic from then on, for users that do not write times."""

    def __init__(self, steady: Callable[[], float], wall: Callable[[], float]) -> None:
        self._steady: Final = steady
        self._wall: Final = wall
        self._offset_s: Final = wall() - steady()

    def now_s(self) -> float:
        return self._offset_s + self._steady()

    def ahead_s(self) -> float:
        """How far the wall clock is ahead of this clock, and with it the times that other processes write now."""
        return self._wall() - self.now_s()
