"""The decisions of the orchestrator in examples/controllers."""

from __future__ import annotations

from typing import Any

import pytest
from examples.controllers.placement_orchestrator import (
    GATE,
    NOT_IN_MAINTENANCE,
    REQUIRED,
    ZONE,
    Cluster,
    NoRoom,
    Placement,
    tightened_affinity,
    tightening,
)

from headgate.client.known_objects import ObjectApplied, ObjectDeleted

KEY = ("ns", "p")


def node(name: str, zone: str, cpu: str = "4", *, ready: str = "True", labels: Any = None, **spec: Any) -> Any:
    conditions = [{"type": "Ready", "status": ready}]
    metadata = {"name": name, "labels": {ZONE: zone, **(labels or {})}}
    return ObjectApplied(
        {"metadata": metadata, "spec": spec, "status": {"allocatable": {"cpu": cpu}, "conditions": conditions}}
    )


def pod(name: str = "p", *gates: str, revision: str = "5", cpu: str = "1", phase: str = "", **spec: Any) -> Any:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": revision}
    spec["containers"] = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    spec["schedulingGates"] = [{"name": each} for each in gates]
    return ObjectApplied({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def cluster(*nodes: Any) -> Cluster:
    made = Cluster()
    for each in nodes:
        made.on_node(each)
    return made


def zone_of(state: Cluster) -> str | None:
    decision = state.decide(KEY)
    return decision.zone if isinstance(decision, Placement) else None


def test_the_zone_with_the_most_free_cpu_is_chosen_and_ties_break_by_name() -> None:
    state = cluster(node("1", "b"), node("2", "a"), node("3", "c"))
    state.on_pod(pod("p", GATE))
    assert zone_of(state) == "a"
    state.on_pod(pod("bound", nodeName="2"))
    state.on_pod(pod("on-the-way", nodeSelector={ZONE: "b"}))
    assert zone_of(state) == "c"


def test_a_zone_needs_one_node_with_free_capacity_for_the_pod() -> None:
    state = cluster(node("1", "a", "2"), node("2", "a", "2"), node("3", "b", "3"))
    state.on_pod(pod("p", GATE, cpu="3"))
    assert zone_of(state) == "b"


@pytest.mark.parametrize(
    "better",
    [
        node("2", "b", "64", ready="False"),
        node("2", "b", "64", unschedulable=True),
        node("2", "b", "64", taints=[{"key": "k", "effect": "NoSchedule"}]),
        node("2", "b", "64", labels={"example.com/maintenance": ""}),
        node("2", "b", "64", labels={"disk": "hdd"}),
    ],
)
def test_a_node_that_the_pod_may_not_use_does_not_count(better: Any) -> None:
    state = cluster(node("1", "a", labels={"disk": "ssd"}), better)
    state.on_pod(pod("p", GATE, nodeSelector={"disk": "ssd"}))
    assert zone_of(state) == "a"


def test_a_pod_that_fits_nowhere_is_decided_again_when_a_pod_ends_or_a_node_changes() -> None:
    state = cluster(node("1", "a", "1"))
    state.on_pod(pod("q", nodeName="1"))
    assert state.on_pod(pod("p", GATE)) == {KEY}
    assert isinstance(state.decide(KEY), NoRoom)
    assert state.on_node(node("2", "b", "0")) == {KEY}
    assert state.on_pod(pod("q", nodeName="1", phase="Succeeded", revision="6")) == {KEY}
    assert zone_of(state) == "a"
    assert state.waiting_for_room == set()


def test_a_late_watch_event_does_not_hide_the_own_write() -> None:
    state = cluster(node("1", "a"))
    state.on_pod(pod("p", GATE))
    state.written(pod("p", revision="7", nodeSelector={ZONE: "a"}).object)
    assert state.on_pod(pod("p", GATE, revision="6")) == set()
    assert state.decide(KEY) is None
    state.on_pod(ObjectDeleted("ns", "p", "uid-p"))
    state.written(pod("p", revision="7", nodeSelector={ZONE: "a"}).object)  # of the pod that is gone
    assert state.on_pod(pod("p", GATE, revision="6")) == {KEY}


def test_no_cpu_is_counted_when_all_pods_are_gone() -> None:
    state = cluster(node("1", "a"))
    for name, cpu in (("p", "0"), ("q", "0"), ("r", "300m")):
        state.on_pod(pod(name, cpu=cpu, nodeName="1"))
        state.on_pod(pod(f"{name}-on-the-way", cpu=cpu, nodeSelector={ZONE: "a"}))
    assert {place: str(cpu) for place, cpu in state._used.items()} == {("node", "1"): "300m", ("zone", "a"): "300m"}
    for name in "pqr":
        state.on_pod(pod(name, cpu="0", nodeName="1", revision="6", phase="Failed"))
        state.on_pod(ObjectDeleted("ns", f"{name}-on-the-way", f"uid-{name}-on-the-way"))
    assert state._used == {}


def test_a_tightening_only_adds_and_names_the_version_it_was_decided_for() -> None:
    steps = tightening(pod("p", "other", GATE, nodeSelector={"disk": "ssd"}).object, "a")
    assert steps[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "5"}
    assert {"op": "add", "path": "/spec/nodeSelector", "value": {"disk": "ssd", ZONE: "a"}} in steps
    assert steps[-1] == {"op": "remove", "path": "/spec/schedulingGates/1"}


def test_every_term_gets_the_expression_once_except_for_an_empty_one() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    before: Any = {
        "podAffinity": {"x": []},
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{}, {"matchFields": [field]}, {"matchExpressions": [NOT_IN_MAINTENANCE]}]},
        },
    }
    after = tightened_affinity(before)
    assert after["podAffinity"] == {"x": []}
    assert after["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {},
        {"matchFields": [field], "matchExpressions": [NOT_IN_MAINTENANCE]},
        {"matchExpressions": [NOT_IN_MAINTENANCE]},
    ]
    assert tightened_affinity({}) == {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [NOT_IN_MAINTENANCE]}]}}
    }
