"""Pods that are being tried right now, and what happened meanwhile.

A plugin that turns a pod away judged the cluster as it was when the attempt began. What happened since may have been
just what the pod needs, and no waker was parked yet to hear it; so events are kept as long as an attempt is under way
that began before them, and are looked at again when it fails (``queue.py``).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import islice
from typing import Generic

import msgspec

from headgate.scheduling.events import Event
from headgate.scheduling.queued import P, Queued


# Mutable: the pod may be changed or deleted while it is being tried.
class Flight(msgspec.Struct, Generic[P], eq=False):
    """``began``: the number of the first event after the attempt began. ``latest``: the pod as it is known by now."""

    queued: Queued[P]
    began: int
    latest: P
    gone: bool = False


class InFlight(Generic[P]):
    """By attempt, not by pod: a pod that is gone may be known again before its last attempt has ended."""

    def __init__(self) -> None:
        # Ordered, since a plain dict finds its first key slowly once many before it were removed.
        self._flights: OrderedDict[Queued[P], Flight[P]] = OrderedDict()
        self._events: deque[Event] = deque()
        self._first = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight[P]]:
        """Oldest first."""
        return iter(self._flights.values())

    def get(self, queued: Queued[P]) -> Flight[P] | None:
        return self._flights.get(queued)

    def begin(self, queued: Queued[P]) -> None:
        self._flights[queued] = Flight(queued, self._first + len(self._events), queued.pod)

    def record(self, event: Event) -> None:
        if self._flights:
            self._events.append(event)

    def events(self) -> Iterator[Event]:
        return iter(self._events)

    def since(self, flight: Flight[P]) -> Iterator[Event]:
        """What happened during the attempt, as far as it may concern this pod."""
        uid = flight.queued.uid
        for event in islice(self._events, flight.began - self._first, None):
            if event.target is None or event.target == uid:
                yield event

    def end(self, queued: Queued[P]) -> None:
        """Forgets the attempt, and events that no other attempt has waited through."""
        if self._flights.pop(queued, None) is None:
            return
        oldest = next(iter(self._flights.values()), None)
        keep_from = self._first + len(self._events) if oldest is None else oldest.began
        while self._first < keep_from:
            self._events.popleft()
            self._first += 1
