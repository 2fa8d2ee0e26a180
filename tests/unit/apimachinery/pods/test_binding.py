"""Binding of a pod to a node."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.api_errors import StatusError
from headgate.apimachinery.pods.binding import bind_pod, check_binding
from headgate.kube.feature_gates import DEFAULTS
from unit.apimachinery.validation.pod.pods import NOW, copy_of, make_pod, stored

LATER = "2026-11-15T09:00:00Z"


def binding(pod: str = "p", /, **target: str) -> dict[str, Any]:
    return {"metadata": {"name": pod}, "target": target}


def bound(pod: dict[str, Any], to: dict[str, Any]) -> dict[str, Any]:
    result = bind_pod(pod, to, DEFAULTS, LATER)
    assert isinstance(result, dict)
    return result


def test_a_bound_pod_has_a_node_and_a_true_condition() -> None:
    pod = bound(stored(make_pod()), binding(kind="Node", name="n1"))
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["status"]["conditions"] == [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER}]


def test_binding_does_not_change_the_old_pod() -> None:
    pod = stored(make_pod(metadata={"labels": {"a": "1"}}))
    before = copy_of(pod)
    to = binding(name="n1")
    to["metadata"] = {"name": "p", "labels": {"a": "2"}}
    bound(pod, to)
    assert pod == before


def test_labels_and_annotations_of_the_binding_win() -> None:
    pod = stored(make_pod(metadata={"labels": {"a": "1", "b": "1"}}))
    to = binding(name="n1")
    to["metadata"] |= {"labels": {"a": "2"}, "annotations": {"x": "y"}}
    meta = bound(pod, to)["metadata"]
    assert meta["labels"] == {"a": "2", "b": "1"}
    assert meta["annotations"] == {"x": "y"}


def test_an_unschedulable_condition_and_a_nomination_are_removed() -> None:
    pod = stored(make_pod())
    pod["status"] |= {
        "nominatedNodeName": "n2",
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOW},
        ],
    }
    status = bound(pod, binding(name="n1"))["status"]
    assert "nominatedNodeName" not in status
    assert status["conditions"] == [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER},
    ]


@pytest.mark.parametrize(
    ("metadata", "spec", "problem"),
    [
        ({}, {"nodeName": "n0"}, 'pod p is already assigned to node "n0"'),
        ({"deletionTimestamp": NOW}, {}, "pod p is being deleted, cannot be assigned to a host"),
        ({"deletionTimestamp": NOW}, {"nodeName": "n0"}, "pod p is being deleted, cannot be assigned to a host"),
    ],
)
def test_a_pod_that_cannot_be_bound_is_a_conflict(metadata: dict[str, Any], spec: dict[str, Any], problem: str) -> None:
    result = bind_pod(stored(make_pod(metadata=metadata, **spec)), binding(name="n1"), DEFAULTS, NOW)
    assert isinstance(result, StatusError)
    assert result.body()["message"] == f'Operation cannot be fulfilled on pods/binding "p": {problem}'
    assert result.body()["details"] == {"name": "p", "kind": "pods/binding"}


@pytest.mark.parametrize(
    ("to", "code", "message"),
    [
        (binding("other", name="n1"), 400, "name in URL does not match name in Binding object"),
        (binding(), 500, "target.name: Required value"),
        (
            binding(kind="Pod"),
            500,
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]',
        ),
    ],
)
def test_an_invalid_binding_is_rejected_before_the_pod_is_read(to: dict[str, Any], code: int, message: str) -> None:
    problem = check_binding(to, "p")
    assert problem is not None
    assert (problem.code, problem.message) == (code, message)


def test_a_good_binding_passes() -> None:
    assert check_binding(binding(name="n1"), "p") is None
