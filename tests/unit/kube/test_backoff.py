"""The delay after the n-th failure in a row."""

from __future__ import annotations

import pytest

from headgate.client.backoff import Backoff
from headgate.kube.backoff import ExponentialBackoff


def test_the_delay_doubles_up_to_the_limit() -> None:
    delays_s = [ExponentialBackoff(1.0, 10.0).delay_s(failures) for failures in range(7)]
    assert delays_s == [0.0, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_the_delay_may_grow_faster() -> None:
    delays_s = [ExponentialBackoff(0.02, 10.0, factor=3.0).delay_s(failures) for failures in range(1, 8)]
    assert delays_s == [*(0.02 * 3**attempt for attempt in range(6)), 10.0]


def test_a_first_delay_above_the_limit_is_the_limit() -> None:
    assert ExponentialBackoff(20.0, 10.0).delay_s(1) == 10.0


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_any_number_of_failures_has_a_delay(factor: float) -> None:
    """A power of two above 1023 is no float: an API server that was down for hours must not raise here."""
    assert ExponentialBackoff(1.0, 30.0, factor).delay_s(1_000_000) == 30.0


def test_jitter_adds_up_to_the_delay_itself() -> None:
    backoff = Backoff(0.05, 0.3)
    assert [backoff.next(jitter) for jitter in (0.0, 0.5, 0.0, 0.5)] == pytest.approx([0.05, 0.15, 0.2, 0.45])
    backoff.reset()
    assert backoff.next(0.0) == 0.05
