"""Guards of plugins of others, made fit to be keys of the scheduling queue's indexes.

The queue finds waiting pods by their wakers, so it hashes and compares guards whenever pods come and go, outside of any
call of a plugin. A guard that changes would not be found again, and one that raises would stop the queue. Its hash is
therefore taken once, and a comparison that raises means that the two differ. An event matches a guard that raises, or
that returns neither ``True`` nor ``False``: the pod is tried once too often, and the failure is told.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.waiting.waker import Waker


class FixedGuard:
    """``tell``: what failures of the guard are told to; nothing before :func:`tell_failures`."""

    __slots__ = ("_guard", "_hash", "tell")

    def __init__(self, guard: Any) -> None:
        """Raises what the guard's ``__hash__`` does."""
        self._guard = guard
        self._hash = hash(guard)
        self.tell: Callable[[BaseException], None] | None = None

    def matches(self, event: Any, /) -> bool:
        try:
            found = self._guard.matches(event)
            if isinstance(found, bool | np.bool_):
                return bool(found)
            if inspect.iscoroutine(found):
                found.close()  # it never runs; unclosed it would warn when it is collected
            raise TypeError(f"a guard returned a value of type {type(found).__name__} instead of True or False")
        except BaseException as broken:
            if self.tell is not None:
                self.tell(broken)
            return True

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FixedGuard) or self._hash != other._hash:
            return False
        if self._guard is other._guard:
            return True
        try:
            return bool(self._guard == other._guard)
        except BaseException:
            return False


def with_fixed_guards(wakers: tuple[Waker, ...]) -> tuple[Waker, ...]:
    return tuple(each if each.guard is None else Waker(each.topic, FixedGuard(each.guard), each.own) for each in wakers)


def tell_failures(wakers: tuple[Waker, ...], tell: Callable[[BaseException], None]) -> None:
    """From now on failures of these guards are told."""
    for each in wakers:
        if isinstance(each.guard, FixedGuard):
            each.guard.tell = tell
