"""A server that is killed, or paused, under load; ``make torture`` does the same a thousand times."""

from __future__ import annotations

from pathlib import Path

from torture import compare_and_swap, server_kills


def test_fifteen_kills_lose_nothing_that_a_client_has_seen(tmp_path: Path) -> None:
    outcome = server_kills.run(tmp_path, kills=15)
    assert outcome.kills == 15
    assert outcome.answered > 100
    assert outcome.in_doubt > 10  # otherwise no write was in progress at the kills


def test_compare_and_swap_over_http_is_linearizable_with_pauses(tmp_path: Path) -> None:
    history, pauses = compare_and_swap.run_over_http(tmp_path, seconds=5, longest_pause_s=0.5)
    assert compare_and_swap.check(history) > 200
    assert pauses >= 3
