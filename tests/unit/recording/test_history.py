from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from headgate.recording.changes import (
    HistoryEvent,
    RecordedChange,
    ResourceAbsent,
    ResourceSynced,
    SessionEnded,
    SessionStarted,
)
from headgate.recording.history import HistoryGap, Survey, ordered_changes, survey
from unit.recording.histories import an_object


def change(
    resource: str, revision: int, at_s: float, *, observed: bool = True, deleted: bool = False
) -> RecordedChange:
    return RecordedChange(resource, an_object("a", revision), at_s, revision, deleted, observed, at_s)


def session(at_s: float, *resources: str) -> SessionStarted:
    return SessionStarted(at_s, "1", False, resources)


def play(events: Sequence[HistoryEvent]) -> tuple[list[tuple[int, bool]], Survey]:
    found = survey(lambda: events)
    return [(each.revision, each.observed) for each in ordered_changes(lambda: events, found)], found


def test_changes_of_several_watches_come_in_the_order_of_revisions() -> None:
    events: list[HistoryEvent] = [
        session(0, "pods", "nodes"),
        ResourceSynced(1, "pods", 10),
        ResourceSynced(1, "nodes", 10),
    ]
    drawn = random.Random(1)
    changes = [change(drawn.choice(("pods", "nodes")), revision, 2 + revision / 10) for revision in range(11, 300)]
    late = sorted(changes, key=lambda each: each.at_s + drawn.uniform(0, 5))
    arrived = [
        RecordedChange(each.resource, each.object, 2 + number / 10, each.revision) for number, each in enumerate(late)
    ]
    order, found = play([*events, *arrived])
    assert order == [(revision, True) for revision in range(11, 300)]
    assert found.gaps == ()


def test_states_before_the_last_of_the_first_lists_are_not_certain() -> None:
    events: list[HistoryEvent] = [
        session(0, "pods", "nodes"),
        change("pods", 3, 0.1, observed=False),
        ResourceSynced(0.1, "pods", 10),
        change("pods", 12, 0.2),  # the watch of pods has begun, and nodes are not listed yet
        change("nodes", 14, 0.3, observed=False),
        ResourceSynced(0.3, "nodes", 15),
        change("pods", 16, 0.4),
        SessionEnded(100),
    ]
    assert play(events)[0] == [(3, False), (12, False), (14, False), (16, True)]


def test_a_resource_that_is_not_served_is_not_waited_for() -> None:
    events: list[HistoryEvent] = [
        session(0, "pods", "cohorts"),
        ResourceAbsent(0, "cohorts"),
        ResourceSynced(0.1, "pods", 10),
        change("pods", 11, 1),
        change("pods", 12, 100),
        change("pods", 13, 200),
    ]
    order, found = play(events)
    assert order == [(11, True), (12, True), (13, True)]
    assert found.absent == ("cohorts",)


def test_a_second_list_makes_everything_since_the_last_event_of_its_resource_uncertain() -> None:
    events: list[HistoryEvent] = [
        session(0, "pods", "nodes"),
        ResourceSynced(0, "pods", 10),
        ResourceSynced(0, "nodes", 10),
        change("pods", 11, 1),
        change("nodes", 12, 2),
        change("pods", 20, 50, observed=False),
        RecordedChange("pods", an_object("b", 4), 50, 0, True, False, 1),  # only the list shows that it is gone
        ResourceSynced(50, "pods", 30),
        change("nodes", 31, 51),
    ]
    order, found = play(events)
    assert order == [(11, True), (12, False), (20, False), (30, False), (31, True)]
    assert found.gaps == (HistoryGap("pods", 1, 50),)


def test_a_restart_of_the_recorder_is_a_gap_of_all_resources() -> None:
    events: list[HistoryEvent] = [
        session(0, "pods"),
        ResourceSynced(0, "pods", 10),
        change("pods", 11, 5),
        session(1000, "pods"),
        change("pods", 40, 1000, observed=False),
        ResourceSynced(1000, "pods", 50),
        change("pods", 51, 1001),
    ]
    order, found = play(events)
    assert order == [(11, True), (40, False), (51, True)]
    assert found.gaps == (HistoryGap("", 5, 1000),)
    assert (found.from_s, found.to_s, found.changes) == (0, 1001, 3)


def test_a_change_that_arrives_too_late_makes_what_it_missed_uncertain() -> None:
    events: list[HistoryEvent] = [
        session(0, "pods", "nodes"),
        ResourceSynced(0, "pods", 10),
        ResourceSynced(0, "nodes", 10),
        change("pods", 11, 1),
        change("pods", 15, 2),
        change("pods", 16, 300),
        change("nodes", 12, 301),  # its watch was interrupted for minutes
        change("pods", 17, 302),
    ]
    order = dict(play(events)[0])
    assert order == {11: True, 12: False, 15: False, 16: True, 17: True}


@pytest.mark.parametrize("revision", range(25))
def test_ranges_include_both_ends(revision: int) -> None:
    found = Survey(((3, 5), (8, 8), (20, 23)))
    assert found.is_certain(revision) == (revision not in (3, 4, 5, 8, 20, 21, 22, 23))
