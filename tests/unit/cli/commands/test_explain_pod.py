"""The lines of ``headgate explain pod``, and what queues and PriorityClasses add to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from headgate.capacity.api.queue import read_queue
from headgate.capacity.engine import QueueEngine
from headgate.capacity.explanation import PodExplanation
from headgate.capacity.names import LEASE
from headgate.cli.commands.explain_pod import pod_lines, queue_remarks, read_priority_class
from headgate.http.transport import HTTPResponse
from headgate.runtime.inspection.queues import QueueInspection

_WAITING = PodExplanation("ns", "p", "u", "waiting", "it waits for a node", "headgate")


def remarks(status: int, body: Mapping[str, Any]) -> list[str]:
    """What is said about the PriorityClass ``quick`` if the server answers in this way."""
    steps = read_priority_class("quick", an_inspection())
    assert next(steps).path == "/apis/scheduling.k8s.io/v1/priorityclasses/quick"
    with pytest.raises(StopIteration) as done:
        steps.send(HTTPResponse(status, {}, msgspec.json.encode(body)))
    found: list[str] = done.value.value
    return found


def an_inspection(*queues: dict[str, Any]) -> QueueInspection:
    engine = QueueEngine()
    for each in queues:
        engine.queue_applied(each)
    specs = {queue.name: queue for queue in map(read_queue, queues)}
    return QueueInspection(engine, specs, "1", 0, {})


def test_the_age_of_a_promise_and_its_lease_are_one_line() -> None:
    explanation = msgspec.structs.replace(
        _WAITING, promised_at="1970-01-01T00:01:40.000000Z", lease="it never lapses (default)"
    )
    lines = list(pod_lines(explanation, 400.0))
    assert lines[2] == ("  its capacity was promised at 1970-01-01T00:01:40.000000Z, 5m ago; it never lapses (default)")
    assert not any("promised" in line for line in pod_lines(_WAITING, 400.0))


def test_a_time_later_than_the_clock_of_the_command_is_no_seconds_ago() -> None:
    at = "1970-01-01T00:01:40.000000Z"
    explanation = msgspec.structs.replace(_WAITING, created=at, promised_at=at, lease="it never lapses (default)")
    lines = list(pod_lines(explanation, 90.0))
    assert lines[1].endswith(", 0s old")
    assert lines[2] == f"  its capacity was promised at {at}, 0s ago; it never lapses (default)"


def test_annotations_without_effect_are_listed_at_the_end() -> None:
    explanation = msgspec.structs.replace(_WAITING, ignored=("metadata.annotations[a]: bad", "queue q: bad"))
    assert list(pod_lines(explanation, 0.0))[-3:] == [
        "without effect",
        "  metadata.annotations[a]: bad",
        "  queue q: bad",
    ]


def test_the_invalid_lease_of_an_ancestor_is_named() -> None:
    root = {"metadata": {"name": "root", "annotations": {LEASE: "soon"}}, "spec": {}}
    queue = {"metadata": {"name": "q"}, "spec": {"parent": "root"}}
    (remark,) = queue_remarks(an_inspection(root, queue), "q")
    assert remark.startswith("queue root: metadata.annotations[headgate.dev/reservation-lease]: 'soon' is neither")


def test_the_invalid_lease_of_a_priority_class_is_named() -> None:
    wire = {"metadata": {"name": "quick", "annotations": {LEASE: "soon"}}}
    (remark,) = remarks(200, wire)
    assert remark.startswith("PriorityClass quick: metadata.annotations[headgate.dev/reservation-lease]: 'soon'")


def test_a_priority_class_that_may_not_be_read_is_named_with_the_missing_right() -> None:
    body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}
    (remark,) = remarks(403, body)
    assert remark.startswith("PriorityClass quick, which may set the time of the lease: ")
    assert "priorityclasses.scheduling.k8s.io" in remark
