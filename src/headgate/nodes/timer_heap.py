"""All timers of the hollow fleet in one heap.

A timer has a key; setting it again moves it. Cancelled and moved entries stay in the heap until they are popped, so
every operation is cheap and nothing is scanned. Pure: the owner of the heap provides the time, and the offset when the
clock was changed (:meth:`TimerHeap.move`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 64  # stale entries beyond twice the live ones, and this many, are swept out


class TimerHeap(Generic[K]):
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._deadlines: dict[K, tuple[float, int]] = {}
        self._sequence = 0  # timers with equal deadlines fire in the order in which they were set
        self._clock_offset_s = 0.0  # by how much the clock was set; stored deadlines do not include it

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, at_s: float) -> None:
        at_s -= self._clock_offset_s
        current = self._deadlines.get(key)
        if current is not None and current[0] == at_s:
            return
        self._sequence += 1
        self._deadlines[key] = (at_s, self._sequence)
        heappush(self._heap, (at_s, self._sequence, key))
        if len(self._heap) > 2 * len(self._deadlines) + _SLACK:
            self._heap = [(at, sequence, live) for live, (at, sequence) in self._deadlines.items()]
            heapify(self._heap)

    def cancel(self, key: K) -> None:
        self._deadlines.pop(key, None)

    def next_deadline_s(self) -> float | None:
        while self._heap and not self._is_head_live():
            heappop(self._heap)
        return self._heap[0][0] + self._clock_offset_s if self._heap else None

    def move(self, by_s: float) -> None:
        """The clock was set forward by ``by_s``: all deadlines move with it, so that waits keep their duration."""
        self._clock_offset_s += by_s

    def due(self, now_s: float) -> Iterator[K]:
        """Removes and yields the timers that are due, including timers that are set meanwhile."""
        while (deadline := self.next_deadline_s()) is not None and deadline <= now_s:
            key = heappop(self._heap)[2]
            del self._deadlines[key]
            yield key

    def _is_head_live(self) -> bool:
        at_s, sequence, key = self._heap[0]
        return self._deadlines.get(key) == (at_s, sequence)
