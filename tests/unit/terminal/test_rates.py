"""Rates from samples of counters."""

from __future__ import annotations

from headgate.terminal.rates import KEPT, Rates
from headgate.views.activity import Activity


def test_a_rate_is_the_difference_of_two_samples_per_second() -> None:
    rates = Rates()
    rates.sample("a", 10.0, Activity(100, 5, 5), 7)
    assert rates.latest("created") is None
    rates.sample("a", 12.0, Activity(104, 5, 6), 9)
    assert rates.latest("created") == 2.0
    assert rates.latest("bound") == 0.5
    assert list(rates.waiting) == [7, 9]


def test_the_first_lists_of_other_views_are_no_activity() -> None:
    rates = Rates()
    rates.sample("a", 10.0, Activity(100), 0)
    rates.sample("b", 11.0, Activity(5000), 0)
    assert rates.latest("created") is None
    rates.sample("b", 12.0, Activity(5001), 0)
    assert rates.latest("created") == 1.0


def test_what_arrives_after_an_interruption_did_not_happen_within_a_second() -> None:
    rates = Rates()
    rates.sample("a", 10.0, Activity(0), 0)
    rates.interrupt()
    rates.sample("a", 60.0, Activity(900), 0)
    assert rates.latest("created") is None


def test_only_the_newest_samples_are_kept() -> None:
    rates = Rates()
    for second in range(3 * KEPT):
        rates.sample("a", float(second), Activity(second), 0)
    assert len(rates.history["created"]) == KEPT
