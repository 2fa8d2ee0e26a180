"""Scores of estimates: coverage with its error over traces, interval scores, and traces that do not end."""

from __future__ import annotations

import pytest
from bench.estimate_traces import KINDS
from bench.estimates import Case, StuckGuard, TraceStuckError, interval_score, result_of, result_table

from headgate.estimates.estimator import EstimateSettings
from headgate.simulate.simulation import JournalEntry


def case(seed: int, real: float) -> Case:
    return Case(seed, low=10.0, high=20.0, past_low=0.0, past_high=100.0, real=real)


def test_a_trace_that_goes_on_at_one_moment_is_stopped() -> None:
    guard = StuckGuard("cohort, seed 7", jobs=400)
    for _ in range(StuckGuard.MAX_AT_ONCE):
        guard.observe(JournalEntry(60.0, "preempted", "a"))
    with pytest.raises(TraceStuckError, match=r"cohort, seed 7, at 60 s: workloads preempt each other without end"):
        guard.observe(JournalEntry(60.0, "preempted", "a"))


def test_a_trace_that_goes_on_over_time_is_stopped() -> None:
    guard = StuckGuard("cohort, seed 7", jobs=2)
    for second in range(2 * StuckGuard.MAX_PER_JOB):
        guard.observe(JournalEntry(5.0 * second, "preempted", "a"))
    with pytest.raises(TraceStuckError):
        guard.observe(JournalEntry(1e6, "preempted", "a"))


def test_a_trace_that_does_not_end_has_no_cases_and_is_reported() -> None:
    result = result_of(KINDS[0], [([case(1, 15.0), case(1, 50.0)], 3), None, ([case(3, 11.0)], 1)], 1.0)
    assert (len(result.cases), result.asked, result.stuck) == (3, 4, 1)
    assert result.coverage == pytest.approx(2 / 3)
    assert "3 of 4 (1 traces do not end)" in "\n".join(result_table([result], EstimateSettings()))


def test_cases_that_hold_or_fail_together_have_a_larger_error() -> None:
    apart = result_of(KINDS[0], [([case(seed, 15.0), case(seed, 50.0)], 2) for seed in range(10)], 1.0)
    together = result_of(KINDS[0], [([case(seed, 15.0 if seed % 2 else 50.0)] * 2, 2) for seed in range(10)], 1.0)
    assert apart.coverage == together.coverage == 0.5
    assert apart.coverage_error == 0.0
    assert together.coverage_error == pytest.approx(0.5 / 3)


def test_a_missed_range_costs_ten_times_the_distance() -> None:
    assert [interval_score(10.0, 20.0, real) for real in (15.0, 22.0, 7.0)] == [10.0, 30.0, 40.0]
