"""The range of replayed starts: its ranks, its widening, and starts beyond the horizon."""

from __future__ import annotations

import math

import pytest

from headgate.estimates.estimator import EstimateSettings, range_of, replays_for

NOW_S = 1000.0
PLAIN = EstimateSettings(19, 1.0, 1.0)


def test_the_range_of_nineteen_replays_goes_from_the_second_to_the_eighteenth() -> None:
    found = range_of([NOW_S + 10 * (n + 1) for n in range(19)], NOW_S, PLAIN)
    assert (found.state, found.earliest_s, found.latest_s) == ("range", NOW_S + 20, NOW_S + 180)


def test_widening_moves_both_ends_away_from_the_median() -> None:
    starts = [NOW_S + 10 * (n + 1) for n in range(19)]
    found = range_of(starts, NOW_S, EstimateSettings(19, 2.0, 2.0))
    assert found.earliest_s == NOW_S + 100 * 0.2**2
    assert found.latest_s == NOW_S + 100 * 1.8**2


def test_ranges_are_widened_by_default() -> None:
    starts = [NOW_S + 10 * (n + 1) for n in range(19)]
    found = range_of(starts, NOW_S, EstimateSettings())
    assert found.earliest_s == pytest.approx(NOW_S + 100 * 0.2**1.2)
    assert found.latest_s == pytest.approx(NOW_S + 100 * 1.8**1.1)


def test_equal_starts_give_one_moment_however_wide_the_widening() -> None:
    found = range_of([NOW_S + 90] * 9, NOW_S, EstimateSettings(9, 3.0, 3.0))
    assert (found.earliest_s, found.latest_s) == (NOW_S + 90, NOW_S + 90)


def test_an_upper_end_beyond_the_horizon_is_not_named() -> None:
    found = range_of([NOW_S + 10.0] * 16 + [math.inf] * 3, NOW_S, PLAIN)
    assert (found.state, found.earliest_s, found.latest_s) == ("later", NOW_S + 10, None)
    assert range_of([math.inf] * 19, NOW_S, PLAIN).state == "no basis"


def test_a_large_cluster_gets_fewer_replays() -> None:
    assert [replays_for(units) for units in (10, 5_000, 50_000)] == [19, 9, 9]
