"""The delay after the n-th failure in a row. Pure: the caller provides the randomness."""

from __future__ import annotations


class Backoff:
    """Doubles from ``first_s`` to ``most_s``; up to as much again is added at random."""

    def __init__(self, first_s: float = 0.8, most_s: float = 30.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def next(self, jitter: float) -> float:
        """The wait for this failure; ``jitter`` is in [0, 1)."""
        wait_s = self._next_s * (1 + jitter)
        self._next_s = min(self._next_s * 2, self._most_s)
        return wait_s

    def reset(self) -> None:
        """Things work again."""
        self._next_s = self._first_s
