"""Waits for a condition with a deadline, in place of a sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotInTime(AssertionError):
    """The condition did not become true before the deadline."""


def wait_until(condition: Callable[[], T], timeout_s: float = 30.0, *, poll_s: float = 0.02, what: str = "") -> T:
    """Calls ``condition`` until its result is true, and returns that result. Raises ``NotInTime``.

    ``what`` is for the message; without it the message has the last result.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline_s:
            raise NotInTime(f"{what or f'the condition is {found!r} and'} did not become true in {timeout_s:g} s")
        time.sleep(poll_s)
