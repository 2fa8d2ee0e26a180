"""The stamp, and the queue annotations of a pod."""

from __future__ import annotations

import pytest

from headgate.capacity.api.stamp import Stamp, read_stamp, write_stamp
from headgate.capacity.api.task import TaskInfo, read_annotations
from headgate.capacity.names import GATE, STAMP

STAMPED = Stamp("u1", "team-a", {"memory": 1 << 30, "cpu": 1500, "example.com/gpu": 2}, "2026-01-02T03:04:05.000006Z")


def test_a_stamp_is_read_back_as_it_was_written() -> None:
    assert read_stamp(write_stamp(STAMPED), "u1") == STAMPED


def test_amounts_are_written_as_quantities_in_a_fixed_order() -> None:
    text = write_stamp(STAMPED)
    assert '"requests":{"cpu":"1500m","example.com/gpu":"2","memory":"1073741824"}' in text
    turned = Stamp("u1", "team-a", dict(reversed(list(STAMPED.requests.items()))), STAMPED.at)
    assert write_stamp(turned) == text


def test_a_stamp_of_another_pod_does_not_count() -> None:
    assert read_stamp(write_stamp(STAMPED), "u2") is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "true",
        "{",
        "[" * 5000,
        "[]",
        '{"uid":"u1"}',
        '{"uid":"u1","queue":1,"requests":{},"at":""}',
        '{"uid":"u1","queue":"q","requests":{"cpu":"NaN"},"at":""}',
        '{"uid":"u1","queue":"q","requests":{"cpu":"-1"},"at":""}',
        '{"uid":"u1","queue":"q","requests":{"cpu":[]},"at":""}',
    ],
)
def test_an_invalid_text_is_no_stamp(text: str | None) -> None:
    assert read_stamp(text, "u1") is None


@pytest.mark.parametrize("value", ["", "True", "TRUE", "1", " true", "yes", "false"])
def test_almost_true_does_not_opt_in(value: str) -> None:
    assert read_annotations({GATE: value}, "u1").opted_in is False


def test_the_first_group_name_counts() -> None:
    both = {"scheduling.volcano.sh/group-name": "b", "scheduling.k8s.io/group-name": "a"}
    assert read_annotations(both, "u1").group == "a"


def test_a_stamp_is_read_only_on_its_own_pod() -> None:
    annotations = {STAMP: write_stamp(STAMPED), GATE: "true"}
    assert read_annotations(annotations, "u1").stamp == STAMPED
    assert read_annotations(annotations, "u9").stamp is None


def test_any_gate_except_the_queue_gate_is_foreign() -> None:
    assert not TaskInfo("u", "ns", "p", gates=(GATE,)).has_foreign_gate
    assert TaskInfo("u", "ns", "p", gates=(GATE, "example.com/other")).has_foreign_gate
