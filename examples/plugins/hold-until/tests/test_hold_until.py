"""Tests the plugin alone, and in Headgate's scheduler without a cluster. Only the tests move the clock."""

from __future__ import annotations

from typing import Any

import pytest
from headgate_hold_until import HoldUntil, read_date

from headgate.scheduling.testing import Clock, VirtualScheduler, a_node, a_pod

DATE = "2027-01-01T06:00:00Z"
MOMENT_S = 1798783200.0


def held_pod(date: str = DATE) -> dict[str, Any]:
    return a_pod("nightly", annotations={"example.com/hold-until": date})


def test_a_date_is_read_with_and_without_a_zone() -> None:
    assert read_date(DATE) == read_date("2027-01-01T07:00:00+01:00") == read_date("2027-01-01 06:00") == MOMENT_S


def test_arguments_name_another_annotation_or_are_refused() -> None:
    assert HoldUntil({"annotation": "a/b"}).annotations == ("a/b",)
    with pytest.raises(ValueError, match="unknown argument 'anotation'"):
        HoldUntil({"anotation": "a/b"})


def test_a_pod_is_held_until_its_date_and_then_bound() -> None:
    clock = Clock(MOMENT_S - 3600)
    scheduler = VirtualScheduler(HoldUntil({}, clock), clock=clock)
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(held_pod(), a_pod("free"))
    scheduler.advance(3599)
    assert scheduler.node_of("free") == "node-a"
    assert scheduler.node_of("nightly") is None
    assert scheduler.events("nightly") == [f'PreEnqueueRejected: PreEnqueue plugin "HoldUntil": held until {DATE}']
    scheduler.advance(1)
    assert scheduler.node_of("nightly") == "node-a"


def test_a_date_that_is_moved_is_noticed_at_once() -> None:
    clock = Clock(MOMENT_S - 3600)
    scheduler = VirtualScheduler(HoldUntil({}, clock), clock=clock)
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(held_pod())
    scheduler.run()
    scheduler.apply_pod(held_pod("2020-01-01"))
    scheduler.run()
    assert scheduler.node_of("nightly") == "node-a"


def test_a_date_that_cannot_be_read_holds_the_pod_with_a_reason() -> None:
    scheduler = VirtualScheduler(HoldUntil({}))
    scheduler.apply_node(a_node("node-a"))
    scheduler.apply_pod(held_pod("tomorrow"))
    scheduler.advance(5)
    assert scheduler.node_of("nightly") is None
    condition = scheduler.condition("nightly")
    assert condition is not None
    assert condition["reason"] == "PreEnqueueRejected"
    assert "'tomorrow' is not a date" in condition["message"]
