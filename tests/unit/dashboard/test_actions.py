"""Actions: only those that mean something are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.dashboard.actions import Action, read_action


def read(**fields: Any) -> Action | str:
    return read_action(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        (
            {"action": "lift-gate", "kind": "Pod", "namespace": "ns", "name": "a", "value": "example.com/x"},
            "lift gate example.com/x of Pod ns/a",
        ),
        (
            {"action": "lift-gate", "kind": "Namespace", "namespace": "ns", "value": "example.com/x"},
            "lift gate example.com/x of all pods of namespace ns",
        ),
        ({"action": "hold", "kind": "Queue", "name": "q"}, "hold Queue q"),
        ({"action": "resume", "kind": "LocalQueue", "namespace": "ns", "name": "lq"}, "resume LocalQueue ns/lq"),
        (
            {"action": "set-priority", "kind": "Workload", "namespace": "ns", "name": "w", "value": "high"},
            "give Workload ns/w the priority of WorkloadPriorityClass high",
        ),
    ],
)
def test_an_action_says_what_it_does(fields: dict[str, Any], title: str) -> None:
    found = read(**fields)
    assert isinstance(found, Action)
    assert found.title == title


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"action": "delete", "kind": "Pod", "namespace": "ns", "name": "a"}, "the action is not valid"),
        ({"action": "hold", "kind": "Node", "name": "n"}, "the action is not valid"),
        ({"action": "hold", "kind": "Queue", "name": "q", "force": True}, "the action is not valid"),
        ({"action": "hold", "kind": "Pod", "namespace": "ns", "name": "a"}, "hold is for Queue, ClusterQueue"),
        ({"action": "lift-gate", "kind": "Pod", "namespace": "ns", "name": "a"}, "the value is empty"),
        ({"action": "hold", "kind": "Queue", "namespace": "ns", "name": "q"}, "a Queue is named by its name"),
        ({"action": "hold", "kind": "Queue"}, "a Queue is named by its name"),
        ({"action": "hold", "kind": "LocalQueue", "name": "q"}, "a LocalQueue is named by namespace and name"),
        (
            {"action": "lift-gate", "kind": "Namespace", "namespace": "ns", "name": "a", "value": "x"},
            "a Namespace is named",
        ),
        ({"action": "hold", "kind": "Queue", "name": "../../secrets"}, "not one of Kubernetes"),
        ({"action": "hold", "kind": "Queue", "name": "q?dryRun=All"}, "not one of Kubernetes"),
        ({"action": "hold", "kind": "Queue", "name": "q" * 254}, "not one of Kubernetes"),
        (
            {"action": "lift-gate", "kind": "Pod", "namespace": "ns", "name": "a", "value": "x" * 400},
            "the value is too long",
        ),
    ],
)
def test_an_action_that_means_nothing_is_refused(fields: dict[str, Any], problem: str) -> None:
    found = read(**fields)
    assert isinstance(found, str)
    assert problem in found


def test_a_body_that_is_no_action_is_refused() -> None:
    for body in (b"", b"action=hold", b"[]", b"null"):
        assert isinstance(read_action(body), str)
