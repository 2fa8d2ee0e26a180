"""Counts how often the components of this process failed and started again, for the health checks.

A component that fails as a whole is started anew from the API alone, which mends what was caused by one bad moment. One
that fails again and again does no work, and a probe has to show that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

FAILURES: Final = 3
"""So many failures are a loop, each at most :data:`QUIET_S` after the one before it."""
QUIET_S: Final = 60.0
"""A component that has not failed for so long is well."""


class _Failures(msgspec.Struct, frozen=True):
    count: int
    last_s: float
    why: str


class Restarts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def failed(self, component: str, why: BaseException) -> None:
        """The component ended by this exception, and is about to start again."""
        now_s = self._clock()
        before = self._failures.get(component)
        count = 1 if before is None or now_s - before.last_s > QUIET_S else before.count + 1
        self._failures[component] = _Failures(count, now_s, _shown(why))

    def problem(self) -> str:
        """Which components restart in a loop, and why; empty if none does."""
        now_s = self._clock()
        return "; ".join(
            f"{component} failed {each.count} times and restarts, last {now_s - each.last_s:.0f}s ago by {each.why}"
            for component, each in sorted(self._failures.items())
            if each.count >= FAILURES and now_s - each.last_s <= QUIET_S
        )


def _shown(why: BaseException) -> str:
    """Of tasks that ran together: what ended the first of them."""
    while isinstance(why, BaseExceptionGroup):
        why = why.exceptions[0]
    return f"{type(why).__name__}: {why}"
