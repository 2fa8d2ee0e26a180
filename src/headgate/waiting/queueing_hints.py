"""What may wake a parked unit: a topic, and a queueing hint that checks the event.

A unit is what waits, such as a pod. A topic is any hashable key, such as a resource and an action: an event costs
nothing for units that did not register one of its topics. A hint costs more, because it reads the event. Equal hints
are evaluated once per event for all units that have them; a hint must therefore depend on what these units share (a
shape), not on one unit. ``parking_lot.py`` holds the units.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import msgspec

Topic = Hashable


class WakeUpEvent(Protocol):
    """An event that may wake the units that registered one of its ``topics``. If it has a ``target``, it may wake only
    this unit."""

    @property
    def topics(self) -> Sequence[Topic]: ...

    @property
    def target(self) -> Any: ...


class QueueingHint(Protocol):
    """Checks an event. Equal hints must give equal results."""

    def matches(self, event: Any, /) -> bool:
        """Whether the event may end the wait. A wrong True costs an attempt; a wrong False leaves the unit waiting."""

    def __hash__(self) -> int: ...


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """An event that a unit registers for. ``guard``: the queueing hint that checks each event of the ``topic``; None
    accepts all. ``own``: only events whose ``target`` is the unit count, so the unit is not indexed by the topic."""

    topic: Topic
    guard: QueueingHint | None = None
    own: bool = False


def hint_matches(hint: QueueingHint | None, event: WakeUpEvent) -> bool:
    """Whether the hint accepts the event; without a hint every event is accepted."""
    if hint is None:
        return True
    try:
        return bool(hint.matches(event))
    except BaseException:
        # If a hint raises, its units are woken and tried: otherwise they might wait forever.
        return True


def any_event_matches(wakers: Sequence[ClusterEventWithHint], event: WakeUpEvent) -> bool:
    """Whether the event wakes a unit with these registered events; the caller checks the event's target."""
    has_target, topics = event.target is not None, event.topics
    return any(
        waker.topic in topics and (has_target or not waker.own) and hint_matches(waker.guard, event) for waker in wakers
    )
