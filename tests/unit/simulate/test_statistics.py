"""Percentiles, Jain's index, and confidence intervals."""

from __future__ import annotations

import pytest

from headgate.simulate.comparison import number_text
from headgate.simulate.random_numbers import RandomNumbers
from headgate.simulate.statistics import interval, jain, percentiles


def test_percentiles_are_values_that_occurred() -> None:
    found = percentiles([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (found.count, found.mean, found.p50, found.p90, found.p99, found.max) == (5, 3.0, 3.0, 5.0, 5.0, 5.0)
    assert percentiles([]).count == 0
    assert percentiles([float(each) for each in range(1, 101)]).p99 == 99.0


def test_jains_index() -> None:
    assert jain([2.0, 2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain([]) == 1.0


def test_an_interval_uses_students_distribution() -> None:
    found = interval([10.0, 12.0, 14.0])
    assert found.mean == 12.0
    assert found.high - found.mean == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)
    assert found.excludes_zero
    assert interval([1.0]).low == interval([1.0]).high == 1.0


def test_the_interval_holds_the_mean_in_about_95_of_100_cases() -> None:
    random, held = RandomNumbers(4), 0
    for _ in range(1000):
        found = interval([3.0 + random.normal() for _ in range(10)])
        held += found.low <= 3.0 <= found.high
    assert 930 <= held <= 970


def test_numbers_for_people() -> None:
    assert [number_text(each, "s") for each in (5.0, 600.0, 7200.0, 200_000.0, -600.0)] == [
        *("5 s", "10 min", "2 h", "2.31 d", "-10 min")
    ]
    assert number_text(12_345.6, "money") == "12,346"
    assert number_text(12.5, "%") == "12.5 %"
