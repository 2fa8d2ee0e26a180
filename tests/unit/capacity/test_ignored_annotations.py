"""Annotations whose values cannot be read: each gets a text."""

from __future__ import annotations

import pytest

from capacity_builders import a_queue
from headgate.capacity.api.ignored_annotations import find_ignored_annotations, find_ignored_lease
from headgate.capacity.api.queue import read_queue
from headgate.capacity.kinds.queue_validation import queue_warnings
from headgate.capacity.names import LEASE, MAX_PODS_WITHOUT_NODE, OPT_IN, PREEMPTABLE, WITHOUT_NODE_TIMEOUT

_SLA = "volcano.sh/sla-waiting-time"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((LEASE, value) for value in ("", "soon", "0s", "-1m", "10", "Never")),
        *((_SLA, value) for value in ("1 hour", "0s", "-5m")),
        *((PREEMPTABLE, value) for value in ("False", "0", "")),
        *((OPT_IN, value) for value in ("True", "1", "")),
    ],
)
def test_a_value_without_effect_is_reported_with_its_annotation(key: str, value: str) -> None:
    (found,) = find_ignored_annotations({key: value})
    assert found.startswith(f"metadata.annotations[{key}]: ")
    assert "ignored" in found


@pytest.mark.parametrize(
    "annotations",
    [{}, {LEASE: "never"}, {LEASE: "1h30m"}, {_SLA: "1h"}, {_SLA: ""}, {PREEMPTABLE: "false"}, {OPT_IN: "true"}],
)
def test_a_value_with_an_effect_is_not_reported(annotations: dict[str, str]) -> None:
    assert find_ignored_annotations(annotations) == []


def test_a_queue_with_an_invalid_lease_stays_valid_and_reports_it() -> None:
    queue = read_queue(a_queue("q", annotations={LEASE: "soon"}))
    assert (queue.problem, queue.lease_s) == ("", None)
    assert queue.ignored == find_ignored_lease({LEASE: "soon"})[0]
    assert read_queue(a_queue("q", annotations={LEASE: "5m"})).ignored == ""


def test_a_timeout_without_a_limit_is_warned_about_when_it_is_added() -> None:
    unused = a_queue("q", annotations={WITHOUT_NODE_TIMEOUT: "5m"})
    (warning,) = queue_warnings(unused, None)
    assert warning == (
        "metadata.annotations[headgate.dev/without-node-timeout]: it has no effect without the annotation "
        "headgate.dev/max-pods-without-node on the same queue"
    )
    assert queue_warnings(unused, unused) == []
    assert (
        queue_warnings(a_queue("q", annotations={WITHOUT_NODE_TIMEOUT: "5m", MAX_PODS_WITHOUT_NODE: "1"}), None) == []
    )
