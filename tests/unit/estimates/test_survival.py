"""Run times drawn from observations that are partly incomplete: the shares, their mean, and the tail."""

from __future__ import annotations

import math

import pytest

from headgate.estimates.survival import RunTimeSample, SurvivalCurve, sample_of
from headgate.simulate.random_numbers import RandomNumbers


def drawn(sample: RunTimeSample, beyond_s: float = 0.0, curves: int = 600) -> list[float]:
    """One draw from each of many curves."""
    return sorted(SurvivalCurve(sample, RandomNumbers(seed)).draw(beyond_s) for seed in range(curves))


def ends(*run_s: float) -> RunTimeSample:
    return sample_of((each, True) for each in run_s)


def test_the_mean_of_draws_is_that_of_complete_observations() -> None:
    found = drawn(ends(10.0, 20.0, 40.0, 80.0, 650.0))
    assert math.fsum(found) / len(found) == pytest.approx(160.0, rel=0.2)


def test_units_that_still_run_count_for_as_long_as_they_were_seen() -> None:
    short = [(100.0, True)] * 10
    still_running = [(500.0, False)] * 10
    longest = [(900.0, True)] * 10
    found = drawn(sample_of([*short, *still_running, *longest]))
    # A third is short. Without the units that still run, it would be half of them.
    assert sum(each == 100.0 for each in found) / len(found) == pytest.approx(1 / 3, abs=0.07)
    assert sum(each == 900.0 for each in found) / len(found) == pytest.approx(2 / 3, abs=0.07)


def test_what_was_seen_only_before_an_end_says_nothing_about_it() -> None:
    found = drawn(sample_of([(50.0, False)] * 10 + [(100.0, True)] * 10 + [(900.0, True)] * 10))
    assert sum(each == 100.0 for each in found) / len(found) == pytest.approx(1 / 2, abs=0.07)


def test_if_the_longest_observations_are_incomplete_some_units_run_longer_than_all_ends() -> None:
    found = drawn(sample_of([(100.0, True)] * 10 + [(400.0, False)] * 10))
    longer = [each for each in found if each > 100.0]
    assert len(longer) / len(found) == pytest.approx(1 / 2, abs=0.07)
    assert min(longer) > 400.0


def test_curves_from_few_observations_differ_more() -> None:
    def spread(sample: RunTimeSample) -> float:
        means = []
        for seed in range(60):
            curve = SurvivalCurve(sample, RandomNumbers(seed))
            means.append(math.fsum(curve.draw(0.0) for _ in range(200)) / 200)
        return max(means) - min(means)

    few = [100.0, 200.0, 300.0, 400.0, 500.0]
    assert spread(ends(*few)) > 1.5 * spread(ends(*(few * 10)))


def test_only_longer_run_times_are_drawn_for_a_unit_that_runs() -> None:
    found = drawn(ends(10.0, 10.0, 10.0, 200.0, 300.0), beyond_s=100.0)
    assert set(found) == {200.0, 300.0}
    assert sum(each == 200.0 for each in found) / len(found) == pytest.approx(1 / 2, abs=0.07)


def test_a_unit_that_runs_longer_than_all_ends_runs_on_average_twice_as_long() -> None:
    found = drawn(ends(*[100.0] * 9), beyond_s=400.0, curves=600)
    assert found[0] >= 400.0
    assert found[len(found) // 2] == pytest.approx(400.0 * math.sqrt(2), rel=0.1)


def test_a_unit_that_runs_just_longer_than_equal_ones_ends_soon() -> None:
    assert drawn(ends(*[100.0] * 9), beyond_s=101.0)[-1] < 115.0
