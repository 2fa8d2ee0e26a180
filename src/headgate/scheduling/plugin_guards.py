"""Guards of plugins of others, made fit to be keys of the scheduling queue's indexes.

The queue finds waiting pods by their wakers, so it hashes and compares guards whenever pods come and go, outside of any
call of a plugin. A guard that changes would not be found again, and one that raises would stop the queue. Its hash is
therefore taken once, and a comparison that raises means that the two differ.
"""

from __future__ import annotations

from typing import Any

from headgate.waiting.waker import Waker


class FixedGuard:
    __slots__ = ("_guard", "_hash")

    def __init__(self, guard: Any) -> None:
        """Raises what the guard's ``__hash__`` does."""
        self._guard = guard
        self._hash = hash(guard)

    def matches(self, event: Any, /) -> bool:
        return bool(self._guard.matches(event))

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
