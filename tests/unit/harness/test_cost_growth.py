"""The growth of costs is judged by the least of the rounds: other processes slow down some rounds, the square all."""

from __future__ import annotations

from itertools import chain, repeat

from cost_growth import too_steep


def test_rounds_that_other_processes_slow_down_are_not_counted() -> None:
    large = chain(repeat(0.05, 10), repeat(0.016))
    assert not too_steep(lambda: 0.002, lambda: next(large))


def test_quadratic_work_is_too_steep_in_every_round() -> None:
    assert too_steep(lambda: 0.002, lambda: 0.128) == "2.00 ms, then 128.00 ms: 64.0 times as much"


def test_a_bound_that_is_exceeded_by_little_is_exceeded() -> None:
    assert too_steep(lambda: 0.002, lambda: 0.0281)
