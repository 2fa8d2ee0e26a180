"""Whether work grows no faster than its input, by CPU time of this thread.

Other processes of the machine share its caches and its memory, so a measured time is the work and what they add: too
high at times, never too low. The least of the rounds is therefore the figure, and rounds go on until it is within the
bound: work that really grows faster exceeds the bound in all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import garbage_collector

TIMES = 8  # so many times the size is the large input
MOST = 14.0  # so many times the cost it may have: leaving the caches is more than 8, quadratic work is 64
SMALL_S = 0.001  # below that the parts of the work that do not grow hide how the others do
_FEWEST_ROUNDS = 4
_MOST_ROUNDS = 24
_PATIENCE_S = 10.0  # of CPU time: rounds of work that grows too fast take long


def cpu_s(run: Callable[[], object]) -> float:
    with garbage_collector.switched_off():
        began = time.thread_time()
        run()
        return time.thread_time() - began


def too_steep(
    small: Callable[[], float], large: Callable[[], float], most: float = MOST, at_least_s: float = SMALL_S
) -> str:
    """Empty if the large cost is at most `most` times the small one; otherwise both costs, for the failure."""
    small_s, large_s = min(small() for _ in range(_FEWEST_ROUNDS)), float("inf")
    began_s = time.thread_time()
    for done in range(_MOST_ROUNDS):
        if done >= _FEWEST_ROUNDS and time.thread_time() - began_s > _PATIENCE_S:
            break
        small_s, large_s = min(small_s, small()), min(large_s, large())
        if large_s <= most * max(small_s, at_least_s):
            return ""
    return f"{small_s * 1000:.2f} ms, then {large_s * 1000:.2f} ms: {large_s / small_s:.1f} times as much"
