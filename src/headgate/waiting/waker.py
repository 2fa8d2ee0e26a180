"""What may wake a parked unit: a topic, and a guard that looks closer.

A topic is any hashable key, and the cheap half: who did not name a topic is never looked at when it comes up. A guard
is the dear half: it sees the event itself. Guards are compared by equality, and equal guards are asked once per event,
however many units stand behind them; so a guard must depend on what its units share (a shape), not on one unit.
Who is parked, and how events find them, is ``lot.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import msgspec

Topic = Hashable


class Happening(Protocol):
    """Something that may wake units: those that named one of its topics; of them only ``target``, if it has one."""

    @property
    def topics(self) -> Sequence[Topic]: ...

    @property
    def target(self) -> Any: ...


class Guard(Protocol):
    def matches(self, event: Any, /) -> bool:
        """Whether the event may end the wait. Saying yes too often costs work; saying no wrongly costs a wait."""

    def __hash__(self) -> int: ...


class Waker(msgspec.Struct, frozen=True):
    """``own``: only events that are about the unit itself count, so nobody has to find it by the topic."""

    topic: Topic
    guard: Guard | None = None
    own: bool = False


def opens(guard: Guard | None, event: Happening) -> bool:
    if guard is None:
        return True
    try:
        return bool(guard.matches(event))
    except BaseException:
        # A guard that fails must not strand its units: they look for themselves, and fail with a reason.
        return True


def stirred(wakers: Sequence[Waker], event: Happening) -> bool:
    """Whether the event wakes a unit with these wakers; whether it is about that unit is the caller's question."""
    about_one, topics = event.target is not None, event.topics
    return any(waker.topic in topics and (about_one or not waker.own) and opens(waker.guard, event) for waker in wakers)
