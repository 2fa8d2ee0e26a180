"""The delays between requests that fail."""

from __future__ import annotations

from headgate.client.backoff import APIServerBackoff, Backoff


def delays(backoff: APIServerBackoff, count: int, *, connected: bool = True) -> list[float]:
    return [backoff.next(0.0, connected=connected) for _ in range(count)]


def test_a_delay_doubles_up_to_its_limit_and_a_success_resets_it() -> None:
    backoff = Backoff(0.8, 3.0)
    assert [backoff.next(0.0) for _ in range(4)] == [0.8, 1.6, 3.0, 3.0]
    assert backoff.next(0.5) == 4.5
    assert backoff.next(0.5, max_s=1.0) == 1.5
    backoff.reset()
    assert backoff.next(0.0) == 0.8


def test_refused_connections_are_tried_again_every_one_to_two_seconds_however_long_they_last() -> None:
    backoff = APIServerBackoff()
    assert delays(backoff, 1000, connected=False) == [0.25, 0.5] + [1.0] * 998
    assert backoff.next(0.999, connected=False) < 2.0


def test_a_server_that_has_just_started_has_twenty_failures_with_short_delays() -> None:
    backoff = APIServerBackoff()
    delays(backoff, 1000, connected=False)
    assert delays(backoff, 17) == [1.0] * 17
    assert delays(backoff, 6) == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_failure_that_lasts_has_long_delays_until_connections_are_refused_or_a_request_succeeds() -> None:
    backoff = APIServerBackoff()
    assert delays(backoff, 20) == [0.25, 0.5] + [1.0] * 18
    assert delays(backoff, 100)[-1] == 30.0
    assert backoff.next(0.0, connected=False) == 1.0
    assert backoff.next(0.0) == 1.0
    delays(backoff, 100)
    backoff.reset()
    assert backoff.next(0.0) == 0.25
