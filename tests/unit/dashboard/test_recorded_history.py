"""What is recorded about a unit, without what the viewer may not list."""

from __future__ import annotations

from headgate.dashboard.io.recorded_history import visible_history
from headgate.runtime.inspection.timeline import HistoryEntry, ObjectHistory

HISTORY = ObjectHistory(
    "pod",
    "ns",
    "a",
    "u",
    (
        HistoryEntry("2026-01-01T00:00:00Z", "metadata", "created"),
        HistoryEntry("2026-01-01T00:00:01Z", "Event of scheduler", "Scheduled: to node n"),
        HistoryEntry("2026-01-01T00:00:02Z", "condition", "Admitted became True", "workload w"),
    ),
    ("what was before",),
)


def test_a_viewer_with_all_rights_sees_everything() -> None:
    assert visible_history(HISTORY, sees_events=True, sees_related=True) == HISTORY


def test_what_may_not_be_listed_is_left_out_and_named() -> None:
    found = visible_history(HISTORY, sees_events=False, sees_related=False)
    assert [each.text for each in found.entries] == ["created"]
    assert found.unknown == (
        "what was before",
        "its Events: you may not list them",
        "its Workloads: you may not list them",
    )
    only_events = visible_history(HISTORY, sees_events=True, sees_related=False)
    assert [each.source for each in only_events.entries] == ["metadata", "Event of scheduler"]
