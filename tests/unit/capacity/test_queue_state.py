"""The state of a queue: closed by annotation, by status or by an ancestor, and opened again."""

from __future__ import annotations

from typing import Any

import pytest

from harness.queues import a_queue
from headgate.capacity.api.queue_state import DesiredQueueState, closed_by, condition_of, read_desired_state, state_of

Object = dict[str, Any]


def queue(name: str, *, annotation: str = "", state: str = "", reason: str = "", parent: str = "") -> Object:
    wire = a_queue(name, **({"parent": parent} if parent else {}))
    if annotation:
        wire["metadata"]["annotations"] = {"headgate.dev/state": annotation}
    conditions = [{"type": "Open", "status": "False", "reason": reason}] if reason else []
    return {**wire, "status": {"state": state, "conditions": conditions}}


@pytest.mark.parametrize(
    ("annotation", "state", "reason", "is_open"),
    [
        ("", "", "", True),
        ("", "Open", "", True),
        ("", "Unknown", "", True),
        ("", "Closed", "", False),
        ("", "Closing", "", False),
        ("Closed", "Open", "", False),
        ("Open", "Closed", "", True),
        ("closed", "Open", "", True),
        ("", "Closed", "AncestorClosed", True),
        ("", "Closed", "Closed", False),
    ],
)
def test_the_annotation_wins_over_the_state_unless_an_ancestor_closed_the_queue(
    annotation: str, state: str, reason: str, is_open: bool
) -> None:
    assert read_desired_state("q", queue("q", annotation=annotation, state=state, reason=reason)).is_open is is_open


def test_the_root_is_always_open() -> None:
    assert read_desired_state("root", queue("root", annotation="Closed", state="Closed")) == DesiredQueueState(
        is_open=True, parent=""
    )


@pytest.mark.parametrize(
    ("closing_queue", "job_count", "state"), [("", 3, "Open"), ("q", 3, "Closing"), ("q", 0, "Closed")]
)
def test_a_closed_queue_is_closing_until_it_is_empty(closing_queue: str, job_count: int, state: str) -> None:
    assert state_of(closing_queue, job_count) == state


def test_a_queue_below_a_closed_queue_is_closed_by_it() -> None:
    desired = {
        name: read_desired_state(name, wire)
        for name, wire in {
            "root": queue("root"),
            "top": queue("top", annotation="Closed"),
            "mid": queue("mid", parent="top"),
            "leaf": queue("leaf", parent="mid"),
            "shut": queue("shut", parent="mid", state="Closed"),
            "other": queue("other"),
        }.items()
    }
    assert {name: closed_by(name, desired.get) for name in desired} == {
        "root": "",
        "top": "top",
        "mid": "top",
        "leaf": "top",
        "shut": "shut",
        "other": "",
    }


def test_cycles_and_missing_parents_close_nothing() -> None:
    desired = {
        "a": DesiredQueueState(parent="b"),
        "b": DesiredQueueState(parent="a"),
        "c": DesiredQueueState(parent="gone"),
    }
    assert [closed_by(name, desired.get) for name in ("a", "b", "c", "unknown")] == ["", "", "", ""]


def test_the_condition_distinguishes_closed_by_a_user_from_closed_by_an_ancestor() -> None:
    assert condition_of("q", "") is None
    own, above = condition_of("q", "q"), condition_of("q", "top")
    assert own is not None
    assert above is not None
    assert own["reason"] == "Closed"
    assert (above["reason"], above["message"]) == ("AncestorClosed", "the queue top above it was closed")


@pytest.mark.parametrize(
    "wire",
    [
        {},
        {"metadata": [], "spec": "x", "status": 3},
        {"metadata": {"annotations": "x"}, "spec": {"parent": 7}, "status": {"state": {}, "conditions": "x"}},
        {"status": {"state": "Closed", "conditions": [7]}},
    ],
)
def test_a_malformed_queue_has_a_desired_state_and_raises_nothing(wire: Object) -> None:
    assert read_desired_state("q", wire).parent == "root"
