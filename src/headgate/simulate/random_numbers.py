"""Random numbers with a seed: the same seed gives the same numbers on every platform and in every version of Python.

The generator is SplitMix64 (Steele, Lea, Flood 2014): one 64-bit addition and two multiplications per number, and any
two seeds give independent streams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15


def _mix(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


class RandomNumbers:
    """``stream``: numbers of different streams of one seed are independent."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._state = _mix((_mix(seed & _MASK) + stream * _STEP) & _MASK)

    def uniform(self) -> float:
        """A number in (0, 1), with 53 random bits; never 0, so its logarithm exists."""
        self._state = (self._state + _STEP) & _MASK
        return ((_mix(self._state) >> 11) + 0.5) / (1 << 53)

    def exponential(self, mean: float) -> float:
        return -mean * math.log(self.uniform())

    def normal(self) -> float:
        """Mean 0, deviation 1 (Box and Muller)."""
        return math.sqrt(-2.0 * math.log(self.uniform())) * math.cos(2.0 * math.pi * self.uniform())

    def log_normal(self, mu: float, sigma: float) -> float:
        return math.exp(mu + sigma * self.normal())

    def choice(self, values: Sequence[T], cumulative: Sequence[float]) -> T:
        """One of the values. ``cumulative``: the sums of their weights."""
        wanted = self.uniform() * cumulative[-1]
        low, high = 0, len(values) - 1
        while low < high:
            middle = (low + high) // 2
            if cumulative[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        return values[low]
