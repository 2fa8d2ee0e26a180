"""Which queues to look at again because the usage of another queue changed by more than a given amount.

A decision about one queue may depend on the usage of its ancestors, and stay the same while that changes little. Such a
queue watches the ancestor with the amount up to which the decision stays. An amount that is added and removed again
counts twice, so this is a bound for any order of changes. A change costs the same however many queues watch.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.waiting.heap import Heap

QueueResource = tuple[str, str]
"""The name of a queue, and a resource in it."""


class UsageTriggers:
    """``_changes``: by watched place, the sum of all changes. ``_heaps``: by place, the queues that watch it, each with
    the sum up to which it need not be looked at again. ``_places``: by queue, the places that it watches."""

    def __init__(self) -> None:
        self._changes: dict[QueueResource, int] = {}
        self._heaps: dict[QueueResource, Heap[str]] = {}
        self._places: dict[str, tuple[QueueResource, ...]] = {}
        self._changed: dict[QueueResource, None] = {}

    def __bool__(self) -> bool:
        """Whether a place is watched."""
        return bool(self._heaps)

    def watch(self, queue: str, amounts: Mapping[QueueResource, int]) -> None:
        """:meth:`take_due` returns the queue after changes of more than one of these amounts, by place. It replaces
        what the queue watched before."""
        self.forget(queue)
        if amounts:
            self._places[queue] = tuple(amounts)
        for place, amount in amounts.items():
            until = self._changes.setdefault(place, 0) + amount
            self._heaps.setdefault(place, Heap()).put(queue, until)

    def forget(self, queue: str) -> None:
        for place in self._places.pop(queue, ()):
            heap = self._heaps[place]
            heap.discard(queue)
            if not heap:
                del self._heaps[place], self._changes[place]
                self._changed.pop(place, None)

    def count(self, queue: str, amounts: Mapping[str, int]) -> None:
        """These amounts were added to the usage of the queue, or removed from it."""
        for resource, amount in amounts.items():
            place = queue, resource
            if place in self._changes:
                self._changes[place] += amount
                self._changed[place] = None

    def take_due(self) -> list[str]:
        """The queues to look at again. They watch nothing any more."""
        found: list[str] = []
        while self._changed:
            place, _ = self._changed.popitem()
            while place in self._heaps and (first := self._heaps[place].first()) is not None:
                until, queue = first
                if until >= self._changes[place]:
                    break
                found.append(queue)
                self.forget(queue)
        return found
