"""The range of replayed starts: its ranks, and starts beyond the horizon."""

from __future__ import annotations

import math

import pytest

from headgate.estimates.estimator import REPLAYS, SHARE, EstimateSettings, range_of, replays_for

NOW_S = 1000.0
PLAIN = EstimateSettings(19)


def test_the_range_of_nineteen_replays_goes_from_the_second_to_the_eighteenth() -> None:
    found = range_of([NOW_S + 10 * (n + 1) for n in range(19)], NOW_S, PLAIN)
    assert (found.state, found.earliest_s, found.latest_s) == ("range", NOW_S + 20, NOW_S + 180)


def test_the_range_of_nine_replays_goes_from_the_first_to_the_last() -> None:
    found = range_of([NOW_S + 10 * (n + 1) for n in reversed(range(9))], NOW_S, EstimateSettings(9))
    assert (found.state, found.earliest_s, found.latest_s) == ("range", NOW_S + 10, NOW_S + 90)


@pytest.mark.parametrize("replays", REPLAYS)
def test_a_further_start_of_the_same_kind_is_in_the_range_with_the_stated_probability(replays: int) -> None:
    starts = [NOW_S + 10 * (n + 1) for n in range(replays + 1)]
    held = 0
    for left_out in starts:
        found = range_of([each for each in starts if each != left_out], NOW_S, EstimateSettings(replays))
        assert found.earliest_s is not None
        assert found.latest_s is not None
        held += found.earliest_s <= left_out <= found.latest_s
    assert held / len(starts) == SHARE


def test_an_upper_end_beyond_the_horizon_is_not_named() -> None:
    found = range_of([NOW_S + 10.0] * 16 + [math.inf] * 3, NOW_S, PLAIN)
    assert (found.state, found.earliest_s, found.latest_s) == ("later", NOW_S + 10, None)
    assert range_of([math.inf] * 19, NOW_S, PLAIN).state == "no basis"


def test_a_large_cluster_gets_fewer_replays() -> None:
    assert [replays_for(units) for units in (10, 5_000, 50_000)] == [19, 9, 9]
