"""Streams of two hundred watchers against the history; ``make torture`` runs the same for a million events."""

from __future__ import annotations

from torture import watches


def test_every_stream_is_the_history_filtered_by_its_selector() -> None:
    outcome = watches.run(deliveries=20_000)
    assert outcome.compactions >= 5
    assert outcome.expired >= 20
