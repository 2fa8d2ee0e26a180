"""All timers of the hollow nodes and pods in one heap.

A timer has a key; setting it again moves it. ``waiting/heap.py`` has the heap; this one adds the offset of a clock that
was changed (:meth:`TimerHeap.move`). Pure: the owner of the heap provides the time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from headgate.waiting.heap import DeadlineHeap

K = TypeVar("K", bound=Hashable)


class TimerHeap(Generic[K]):
    """Timers with equal deadlines fire in the order in which they were set."""

    def __init__(self) -> None:
        self._deadlines: DeadlineHeap[K] = DeadlineHeap()
        self._clock_offset_s = 0.0  # by how much the clock was set; stored deadlines do not include it

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, at_s: float) -> None:
        at_s -= self._clock_offset_s
        if self._deadlines.key_of(key) != at_s:
            self._deadlines.put(key, at_s)

    def cancel(self, key: K) -> None:
        self._deadlines.discard(key)

    def next_deadline_s(self) -> float | None:
        deadline_s = self._deadlines.next_deadline_s()
        return None if deadline_s is None else deadline_s + self._clock_offset_s

    def postpone_all(self, by_s: float) -> None:
        """The clock was set forward by ``by_s``: all deadlines move with it, so that waits keep their duration."""
        self._clock_offset_s += by_s

    def due(self, now_s: float) -> Iterator[K]:
        """Removes and yields the timers that are due, including timers that are set meanwhile."""
        # Compared with the sum that `next_deadline_s` returns: a difference may be rounded to another side of `now_s`.
        while (deadline_s := self.next_deadline_s()) is not None and deadline_s <= now_s:
            key = self._deadlines.pop()
            assert key is not None, "the heap has a deadline"
            yield key
