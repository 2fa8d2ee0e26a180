"""The history of a unit as lines."""

from __future__ import annotations

from headgate.terminal.io.details import history_lines
from headgate.views.explanations import HistoryStep


def test_steps_have_their_time_their_age_and_their_note() -> None:
    steps = (
        HistoryStep("created", "2023-11-14T22:13:20Z"),
        HistoryStep("gated", "2023-11-14T22:13:20Z", "example.com/data, set by kubectl"),
        HistoryStep("is being deleted", "", "its grace period ends"),
    )
    assert list(history_lines(steps, 1_700_000_030.0)) == [
        "  2023-11-14T22:13:20Z (30s ago)  created",
        "  2023-11-14T22:13:20Z (30s ago)  gated: example.com/data, set by kubectl",
        "  -  is being deleted: its grace period ends",
    ]


def test_a_step_later_than_the_clock_of_the_terminal_is_no_seconds_ago() -> None:
    steps = (HistoryStep("created", "2023-11-14T22:13:20Z"),)
    assert list(history_lines(steps, 1_699_999_990.0)) == ["  2023-11-14T22:13:20Z (0s ago)  created"]
