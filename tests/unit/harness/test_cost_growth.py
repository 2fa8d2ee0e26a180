"""The growth of costs is judged by the least of the rounds: other processes slow down some rounds, the square all."""

from __future__ import annotations

from itertools import chain, repeat

import pytest

from cost_growth import TIMES, cpu_s, too_steep


def test_rounds_that_other_processes_slow_down_are_not_counted() -> None:
    large = chain(repeat(0.05, 10), repeat(0.016))
    assert not too_steep(lambda: 0.002, lambda: next(large))


def test_quadratic_work_is_too_steep_in_every_round() -> None:
    costs = "2.00 ms, then 128.00 ms: 64.0 times as much"
    assert (
        too_steep(lambda: 0.002, lambda: 0.128, control=lambda _: 8.0)
        == f"{costs}; linear work costs 8.0 times as much"
    )
    assert too_steep(lambda: 0.002, lambda: 0.128, control=lambda _: 60.0), "also if linear work is slow"


def test_a_bound_that_is_exceeded_by_little_is_exceeded() -> None:
    assert too_steep(lambda: 0.002, lambda: 0.0281, control=lambda _: 8.0)


def test_work_that_grows_like_linear_work_in_this_process_is_not_too_steep() -> None:
    asked: list[float] = []

    def control(small_s: float) -> float:
        asked.append(small_s)
        return 14.0

    assert not too_steep(lambda: 0.002, lambda: 0.048, control=control)
    assert asked == [0.002]
    assert too_steep(lambda: 0.002, lambda: 0.050, control=control)


def test_a_bound_for_work_that_may_not_grow_is_kept_whatever_linear_work_costs() -> None:
    assert too_steep(lambda: 0.002, lambda: 0.007, most=3.0, control=lambda _: 20.0)


def _search(count: int) -> int:
    found: list[str] = []
    for number in range(count):
        name = f"name-{number % (count - 1)}"
        if name not in found:
            found.append(name)
    return len(found)


@pytest.mark.measured
def test_a_search_in_a_list_for_each_item_is_too_steep() -> None:
    assert too_steep(lambda: cpu_s(lambda: _search(500)), lambda: cpu_s(lambda: _search(500 * TIMES)))
