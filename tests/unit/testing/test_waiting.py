"""Waiting for a condition."""

from __future__ import annotations

import pytest

from headgate.testing import NotInTime, wait_until


def test_the_result_of_the_condition_is_returned() -> None:
    answers = iter(("", "", "found"))
    assert wait_until(lambda: next(answers), poll_s=0.0) == "found"


def test_a_condition_that_stays_false_is_named_in_the_error() -> None:
    with pytest.raises(NotInTime, match="the pod runs did not become true in 0 s"):
        wait_until(lambda: False, 0.0, what="the pod runs")
    with pytest.raises(NotInTime, match="the condition is 0"):
        wait_until(lambda: 0, 0.0)
