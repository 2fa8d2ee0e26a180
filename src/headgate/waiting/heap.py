"""A heap of named items with lazy deletion: the item with the least sort key is first, and any item can be replaced or
removed by its name.

A removed or replaced entry stays in the heap until it comes first, or until such entries are the majority. So each
change costs logarithmic time, and the heap does not grow with removed items. In a :class:`Heap` the sort keys are any
comparable values; in a :class:`DeadlineHeap` they are times.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
_MIN_STALE: Final = 64

_Entry = tuple[Any, int, Any]


class Heap(Generic[Name]):
    """Names with sort keys. Names with equal keys are popped in the order of insertion."""

    __slots__ = ("_count", "_entries", "_live")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._live: dict[Name, _Entry] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, name: Name) -> bool:
        return name in self._live

    def __iter__(self) -> Iterator[Name]:
        """In no order."""
        return iter(self._live)

    def entries(self) -> Iterator[tuple[Any, Name]]:
        """Keys and names, in no order."""
        return ((key, name) for key, _, name in self._live.values())

    def put(self, name: Name, key: Any) -> None:
        """Add a name, or give it another sort key."""
        self._count += 1
        entry = (key, self._count, name)
        self._live[name] = entry
        heappush(self._entries, entry)
        self._compact()

    def key_of(self, name: Name) -> Any | None:
        """The sort key of the name; None if the heap does not have it."""
        entry = self._live.get(name)
        return None if entry is None else entry[0]

    def discard(self, name: Name) -> None:
        if self._live.pop(name, None) is not None:
            self._compact()

    def first(self) -> tuple[Any, Name] | None:
        """The least key and its name."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if self._live.get(entry[2]) is entry:
                return entry[0], entry[2]
            heappop(entries)
        return None

    def pop(self) -> Name | None:
        """Remove and return the name with the least key; None if the heap is empty."""
        first = self.first()
        if first is None:
            return None
        heappop(self._entries)
        del self._live[first[1]]
        return first[1]

    def _compact(self) -> None:
        if len(self._entries) > 2 * len(self._live) + _MIN_STALE:
            self._entries = list(self._live.values())
            heapify(self._entries)


class DeadlineHeap(Heap[Name]):
    """Names with the time at which each is due. The owner of the heap provides the time."""

    __slots__ = ()

    def next_deadline_s(self) -> float | None:
        first = self.first()
        return None if first is None else float(first[0])

    def due(self, now_s: float) -> Iterator[Name]:
        """Removes and returns, one by one, the names that are due. Names that are put meanwhile count, too."""
        while (first := self.first()) is not None and first[0] <= now_s:
            self.pop()
            yield first[1]
