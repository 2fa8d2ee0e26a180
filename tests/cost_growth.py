"""Whether work grows no faster than its input, by CPU time of this thread.

Other processes of the machine share its caches and its memory, so a measured time is the work and what they add: too
high at times, never too low. The least of the rounds is therefore the figure, and rounds go on until it is within the
bound: work that really grows faster exceeds the bound in all of them.

Work whose objects do not fit in the caches takes longer for each of them, and longer still where earlier tests have
left the free memory of the process in pieces: linear work on eight times the objects then costs up to 25 times as much.
So work that exceeds the bound is compared with a control, which is linear and costs the same for the small input: the
bound is then the same multiple of the growth of the control.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import garbage_collector

TIMES = 8  # so many times the size is the large input
MOST = 14.0  # so many times the cost it may have: leaving the caches is more than 8, quadratic work is 64
SMALL_S = 0.001  # below that the parts of the work that do not grow hide how the others do
_FEWEST_ROUNDS = 4
_MOST_ROUNDS = 24
_PATIENCE_S = 10.0  # of CPU time: rounds of work that grows too fast take long
_CONTROL_ROUNDS = 6
_CONTROL_ITEMS = 500  # to find out what an item costs
_CONTROL_READS = 4
_MOST_LINEAR = 20.0  # the highest growth of linear work that counts: with it the bound is 35, and quadratic work is 64


def cpu_s(run: Callable[[], object]) -> float:
    with garbage_collector.switched_off():
        began = time.thread_time()
        run()
        return time.thread_time() - began


def too_steep(
    small: Callable[[], float],
    large: Callable[[], float],
    most: float = MOST,
    at_least_s: float = SMALL_S,
    control: Callable[[float], float] | None = None,
) -> str:
    """Empty if the large cost is at most `most` times the small one; otherwise both costs, for the failure.

    ``control``: how many times as much as the small input, which costs so many seconds, linear work on the large input
    costs. It is asked only with the bound for linear work.
    """
    small_s, large_s = min(small() for _ in range(_FEWEST_ROUNDS)), float("inf")
    began_s = time.thread_time()
    for done in range(_MOST_ROUNDS):
        if done >= _FEWEST_ROUNDS and time.thread_time() - began_s > _PATIENCE_S:
            break
        small_s, large_s = min(small_s, small()), min(large_s, large())
        if large_s <= most * max(small_s, at_least_s):
            return ""
    costs = f"{small_s * 1000:.2f} ms, then {large_s * 1000:.2f} ms: {large_s / small_s:.1f} times as much"
    if most != MOST:
        return costs
    linear = min((control or _growth_of_linear_work)(max(small_s, at_least_s)), _MOST_LINEAR)
    if large_s <= most * linear / TIMES * max(small_s, at_least_s):
        return ""
    return f"{costs}; linear work costs {linear:.1f} times as much"


def _growth_of_linear_work(small_s: float) -> float:
    def cost_s(items: int) -> float:
        return min(cpu_s(lambda: _linear_work(items)) for _ in range(_CONTROL_ROUNDS))

    items = max(_CONTROL_ITEMS, int(small_s * _CONTROL_ITEMS / cost_s(_CONTROL_ITEMS)))
    return cost_s(TIMES * items) / cost_s(items)


def _linear_work(count: int) -> int:
    """Makes objects like those of the API, indexes them by name and reads them."""
    objects: list[dict[str, Any]] = [{"name": f"name-{number}", "value": number} for number in range(count)]
    total = 0
    for _ in range(_CONTROL_READS):
        by_name = {each["name"]: each for each in objects}
        total += sum(by_name[each["name"]]["value"] for each in objects)
    return total
