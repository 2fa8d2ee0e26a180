"""Puts the events of several watches into the order of their revisions.

Each watch is ordered, but one may be ahead of another: an admission may be delivered before the change of the queue
that made it possible. Resource versions are revisions of one store, so an event is held for a moment and the events of
all watches are then taken in the order of their revisions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headgate.kube.api_resources import APIResource

Object = dict[str, Any]

HOLD_S: Final = 1.0
"""How far one watch may be behind another."""


class HeldEvent(msgspec.Struct, frozen=True):
    """``object``: the new state; None for a deletion."""

    resource: APIResource
    namespace: str
    name: str
    uid: str
    object: Object | None
    arrived_s: float


class EventOrder:
    def __init__(self, hold_s: float = HOLD_S) -> None:
        self._hold_s = hold_s
        self._heap: list[tuple[int, int, HeldEvent]] = []
        self._count = 0
        self._newest = 0

    def __len__(self) -> int:
        return len(self._heap)

    def put_applied(self, resource: APIResource, obj: Object, now_s: float) -> None:
        metadata = obj["metadata"]
        text = str(metadata.get("resourceVersion", ""))
        self._newest = max(self._newest, int(text) if text.isdecimal() else 0)
        event = HeldEvent(resource, metadata.get("namespace", ""), metadata["name"], metadata["uid"], obj, now_s)
        self._push(int(text) if text.isdecimal() else self._newest, event)

    def put_removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> None:
        """The revision of a deletion is not delivered: it happened after all events that have arrived."""
        self._push(self._newest, HeldEvent(resource, namespace, name, uid, None, now_s))

    def _push(self, revision: int, event: HeldEvent) -> None:
        self._count += 1
        heapq.heappush(self._heap, (revision, self._count, event))

    def due(self, now_s: float) -> Iterator[HeldEvent]:
        """Takes the events that have been held long enough, in order."""
        while self._heap and self._heap[0][2].arrived_s <= now_s - self._hold_s:
            yield heapq.heappop(self._heap)[2]

    def all(self) -> Iterator[HeldEvent]:
        """Takes all events, in order."""
        while self._heap:
            yield heapq.heappop(self._heap)[2]

    def next_s(self) -> float | None:
        """When the next event is due."""
        return self._heap[0][2].arrived_s + self._hold_s if self._heap else None
