"""Cluster events: the names of updates, and which registered events match."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent, node_update_events, on, pod_update_events
from headgate.waiting.queueing_hints import any_event_matches
from unit.scheduling.pods import AShape, a_pod

POD = a_pod("p", shape=AShape({"cpu": 100, "memory": 10}))
GATED = a_pod("p", gates=("foo", "bar"))


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (POD, POD.but(labels={"a": "b"}), ["UnschedulablePodUpdatePodLabel"]),
        (POD, POD.but(shape=AShape({"cpu": 50, "memory": 10})), ["UnschedulablePodUpdatePodScaleDown"]),
        (POD, POD.but(shape=AShape({"cpu": 100})), ["UnschedulablePodUpdatePodScaleDown"]),
        (POD, POD.but(shape=AShape({"cpu": 200, "memory": 10})), ["UnschedulablePodUpdate"]),
        (
            POD,
            POD.but(shape=AShape({"cpu": 1, "memory": 10}), labels={"a": "b"}),
            ["UnschedulablePodUpdatePodLabel", "UnschedulablePodUpdatePodScaleDown"],
        ),
        (POD, POD.but(note="annotated"), ["UnschedulablePodUpdate"]),
        (GATED, GATED.but(gates=()), ["UnschedulablePodUpdatePodSchedulingGatesEliminated"]),
        (GATED, GATED.but(gates=("bar",)), ["UnschedulablePodUpdate"]),
        (GATED, GATED.but(gates=("bar", "foo")), ["UnschedulablePodUpdate"]),
        (
            POD,
            POD.but(shape=AShape({"cpu": 100, "memory": 10}, ("t",))),
            ["UnschedulablePodUpdatePodToleration"],
        ),
        (POD.but(node_name="n"), POD.but(node_name="n", labels={"a": "b"}), ["AssignedPodUpdatePodLabel"]),
    ],
)
def test_an_update_of_a_pod_is_named_by_what_changed(old: Any, new: Any, labels: list[str]) -> None:
    assert [event.label for event in pod_update_events(old, new)] == labels


def test_an_update_of_a_pod_without_a_node_is_about_that_pod_alone() -> None:
    (waiting,) = pod_update_events(POD, POD.but(labels={"a": "b"}))
    (running,) = pod_update_events(POD.but(node_name="n"), POD.but(node_name="n", labels={"a": "b"}))
    assert (waiting.target, running.target) == (POD.uid, None)


NODE: dict[str, Any] = {
    "metadata": {"name": "n", "labels": {"zone": "a"}},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "1"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}],
    },
}


def a_node(**parts: Any) -> dict[str, Any]:
    return {name: {**NODE[name], **parts.get(name, {})} for name in NODE}


@pytest.mark.parametrize(
    ("new", "labels"),
    [
        (a_node(), []),
        (a_node(status={"allocatable": {"cpu": "1000m"}}), []),
        (a_node(status={"allocatable": {"cpu": "2"}}), ["NodeUpdateNodeAllocatable"]),
        (a_node(metadata={"labels": {"zone": "b"}}), ["NodeUpdateNodeLabel"]),
        (a_node(metadata={"annotations": {"a": "b"}}), ["NodeUpdateNodeAnnotation"]),
        (a_node(spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}), ["NodeUpdateNodeTaint"]),
        (a_node(spec={"unschedulable": True}), []),
        (a_node(status={"conditions": [{"type": "Ready", "status": "False"}]}), ["NodeUpdateNodeCondition"]),
        (a_node(status={"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2"}]}), []),
        (
            a_node(metadata={"labels": {}}, spec={"taints": [{"key": "k"}]}),
            ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
        ),
        (a_node(metadata={"resourceVersion": "2"}), []),
    ],
)
def test_an_update_of_a_node_is_named_by_the_fields_that_plugins_read(new: Any, labels: list[str]) -> None:
    assert [event.label for event in node_update_events(NODE, new)] == labels


def test_uncordoning_counts_as_a_change_of_taints() -> None:
    changed = node_update_events(a_node(spec={"unschedulable": True}), NODE)
    assert [event.label for event in changed] == ["NodeUpdateNodeTaint"]


@pytest.mark.parametrize(
    ("waits_for", "event", "woken"),
    [
        (on("Node", "Update"), ClusterEvent("Node", "UpdateNodeLabel"), True),
        (on("Node", "UpdateNodeLabel"), ClusterEvent("Node", "Update"), False),
        (on("Node", "UpdateNodeLabel"), ClusterEvent("Node", "UpdateNodeLabel"), True),
        (on("Node", "UpdateNodeLabel"), ClusterEvent("Node", "UpdateNodeTaint"), False),
        (on("Node", "Add", "Delete"), ClusterEvent("Node", "Delete"), True),
        (on("Node", "All"), ClusterEvent("Node", "UpdateNodeTaint"), True),
        (on("Pod", "Delete"), ClusterEvent("AssignedPod", "Delete"), True),
        (on("Pod", "Add"), ClusterEvent("Node", "Add"), False),
        (on("*", "All"), ClusterEvent("PersistentVolume", "Update"), True),
        (on("*", "Add"), ClusterEvent("example.com/Thing", "Add"), True),
        (on("*", "Add"), ClusterEvent("example.com/Thing", "Delete"), False),
        (on("Pod", "Update"), ClusterEvent("UnschedulablePod", "UpdatePodLabel", target="u"), True),
        (
            on("Pod", "UpdatePodSchedulingGatesEliminated"),
            ClusterEvent("UnschedulablePod", "Update", target="u"),
            False,
        ),
        (cluster_events.own_update(), ClusterEvent("AssignedPod", "UpdatePodLabel"), False),
        (cluster_events.own_update(), ClusterEvent("UnschedulablePod", "UpdatePodLabel"), False),
    ],
)
def test_a_registered_event_must_cover_the_event(waits_for: Any, event: ClusterEvent, woken: bool) -> None:
    assert any_event_matches(waits_for, event) is woken


@pytest.mark.parametrize(
    ("old", "new", "eliminated"),
    [
        (("a",), (), True),
        (("a", "b"), ("a",), False),
        ((), (), False),
        (("mine", "a"), ("mine",), True),
        (("mine", "a", "b"), ("mine", "b"), False),
        (("mine", "a"), ("a",), False),
        (("mine",), (), True),
        (("mine", "mine2"), ("mine2",), False),
        (("a",), ("mine",), False),
    ],
)
def test_gates_are_eliminated_when_no_foreign_gate_is_left(
    old: tuple[str, ...], new: tuple[str, ...], eliminated: bool
) -> None:
    assert cluster_events.gates_eliminated(old, new, lambda gate: gate.startswith("mine")) is eliminated


def test_events_without_an_object_have_labels_of_their_own() -> None:
    assert cluster_events.UNSCHEDULABLE_TIMEOUT.label == "UnschedulableTimeout"
    assert cluster_events.force_activate("u").label == "ForceActivate"


def test_events_registered_for_one_object_match_only_that_object() -> None:
    wakers = cluster_events.on_one(
        cluster_events.PERSISTENT_VOLUME_CLAIM, "default/mine", cluster_events.ADD, cluster_events.UPDATE
    )
    assert any_event_matches(
        wakers, ClusterEvent(cluster_events.PERSISTENT_VOLUME_CLAIM, cluster_events.ADD, subjects=("default/mine",))
    )
    assert any_event_matches(
        wakers, ClusterEvent(cluster_events.PERSISTENT_VOLUME_CLAIM, cluster_events.UPDATE, subjects=("default/mine",))
    )
    assert not any_event_matches(
        wakers, ClusterEvent(cluster_events.PERSISTENT_VOLUME_CLAIM, cluster_events.ADD, subjects=("default/other",))
    )
    assert not any_event_matches(
        wakers, ClusterEvent(cluster_events.PERSISTENT_VOLUME_CLAIM, cluster_events.DELETE, subjects=("default/mine",))
    )
    assert any_event_matches(
        on(cluster_events.PERSISTENT_VOLUME_CLAIM, cluster_events.ADD),
        ClusterEvent(cluster_events.PERSISTENT_VOLUME_CLAIM, cluster_events.ADD, subjects=("a/b",)),
    )
