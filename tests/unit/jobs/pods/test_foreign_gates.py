"""Pods with scheduling gates of other controllers hold no quota, because they could not use it."""

from __future__ import annotations

import pytest

from headgate.jobs.explanation import explain_missing_pod_workload
from headgate.jobs.names import TOPOLOGY_GATE
from headgate.kube.scheduling_gates import QUEUE_ALLOCATION_GATE
from unit.controllers.world import World
from unit.jobs.pods.fixtures import (
    GATE,
    K,
    a_pod,
    a_world,
    add,
    add_group,
    condition,
    delete,
    has,
    messages_of,
    pods,
    started,
    workloads,
)
from unit.jobs.queue_fixtures import API, PODS, PREEMPTION

OTHER = "example.com/other"


def gates(world: World, name: str) -> list[str]:
    return [each["name"] for each in pods(world)[name]["spec"].get("schedulingGates") or ()]


def lift(world: World, name: str, gate: str) -> None:
    body = {"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}}
    assert world.server.patch(f"{PODS}/{name}", body, "strategic").status == 200


def reserving(world: World) -> int:
    count: int = world.server.get(f"{API}/clusterqueues/cq").body["status"]["reservingWorkloads"]
    return count


def test_a_pod_with_a_gate_of_another_controller_gets_no_quota_before_that_gate_is_gone() -> None:
    world = a_world(cpu=1)
    add(world, "held", gates=(OTHER, GATE))
    world.advance(2)
    add(world, "free", ends="Succeeded")
    world.advance(2)
    assert has(world, "free", "Finished"), "the quota was there for it"
    assert (gates(world, "held"), workloads(world).get("held"), reserving(world)) == ([OTHER, GATE], None, 0)
    assert messages_of(world, "SchedulingGated") == [f"No Workload is created while pods are gated by: {OTHER}"]
    lift(world, "held", OTHER)
    world.advance(2)
    assert gates(world, "held") == []
    assert started(world) == ["free", "held"]


def test_a_group_gets_no_quota_while_one_of_its_pods_has_a_gate_of_another_controller() -> None:
    world = a_world(cpu=2)
    add(world, "g-0", group="g")
    add(world, "g-1", group="g", gates=(GATE, OTHER))
    world.advance(2)
    assert (started(world), reserving(world)) == ([], 0)
    lift(world, "g-1", OTHER)
    world.advance(2)
    assert started(world) == ["g-0", "g-1"]


@pytest.mark.parametrize("own", [QUEUE_ALLOCATION_GATE, TOPOLOGY_GATE])
def test_own_gates_are_not_foreign_gates(own: str) -> None:
    world = a_world(cpu=1)
    add(world, "a", gates=(own, GATE))
    world.advance(2)
    assert has(world, "a", "Admitted")
    assert gates(world, "a") == ([own] if own == QUEUE_ALLOCATION_GATE else [])


def test_a_group_that_runs_keeps_its_quota_when_a_replacement_has_a_gate_of_another_controller() -> None:
    world = a_world(cpu=2)
    add_group(world, "g")
    world.advance(2)
    delete(world, "g-0")
    world.advance(70)
    add(world, "g-2", group="g", gates=(OTHER, GATE))
    world.advance(2)
    assert has(world, "g", "Admitted")
    assert gates(world, "g-2") == [OTHER], "its own gate went, the other one stays"


def test_a_group_that_waits_for_quota_gets_none_when_a_replacement_has_a_gate_of_another_controller() -> None:
    world = a_world(cpu=2)
    add(world, "first", cpu="2")
    world.advance(2)
    add_group(world, "g")
    world.advance(2)
    assert not has(world, "g", "QuotaReserved")
    delete(world, "g-0")
    world.advance(2)
    add(world, "g-2", group="g", gates=(OTHER, GATE))
    world.advance(2)
    delete(world, "first")
    world.advance(70)
    assert (workloads(world).get("g"), reserving(world)) == (None, 0)
    lift(world, "g-2", OTHER)
    world.advance(5)
    assert has(world, "g", "Admitted")
    assert started(world) == ["g-1", "g-2"]


def test_a_group_that_was_evicted_waits_for_the_gates_of_its_replacements() -> None:
    world = a_world(cpu=2, **PREEMPTION)
    add_group(world, "low", priority="low")
    world.advance(2)
    add(world, "high", cpu="2", priority="high", ends="Succeeded")
    world.advance(70)
    for number in (2, 3):
        add(world, f"low-{number}", group="low", priority="low", gates=(OTHER, GATE))
    world.advance(5)
    assert (reserving(world), started(world)) == (0, ["high"])
    for number in (2, 3):
        lift(world, f"low-{number}", OTHER)
    world.advance(5)
    assert has(world, "low", "Admitted")
    assert {"low-2", "low-3"} <= set(started(world))


def test_a_gated_pod_is_explained_by_the_gate() -> None:
    pod = a_pod("a", gates=(OTHER, GATE))
    absence = explain_missing_pod_workload(pod, None, 1)
    assert (absence.state, absence.gate) == ("gated", OTHER)
    assert absence.next == (f"the controller that set {OTHER} has to remove it from spec.schedulingGates",)


def test_the_condition_of_a_pod_that_was_admitted_stays() -> None:
    """A gate cannot be added to a pod that exists, so a Workload that holds quota is never held afterwards."""
    world = a_world(cpu=1)
    add(world, "a")
    world.advance(2)
    body = {"spec": {"schedulingGates": [{"name": OTHER}]}}
    assert world.server.patch(f"{PODS}/a", body, "strategic").status == 422
    assert condition(world, "a", "Admitted")["status"] == "True"
    assert pods(world)["a"]["metadata"]["labels"][f"{K}/managed"] == "true"


def test_the_other_pods_of_a_gated_group_are_explained_by_the_gate_too() -> None:
    absence = explain_missing_pod_workload(a_pod("a", group="g"), None, 2, (OTHER,))
    assert (absence.state, absence.gate) == ("gated", OTHER)
    assert absence.summary == f"its group is held by scheduling gates of others: {OTHER}"
