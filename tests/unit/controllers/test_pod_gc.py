"""The pod garbage collector on the embedded server with a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import a_pod, events
from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, Get
from headgate.controllers.pod_gc import QUARANTINE_S, PodGCController
from unit.controllers.world import World

PODS = "/api/v1/namespaces/a/pods"
NODES = "/api/v1/nodes"
TAINT = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}


@pytest.fixture
def world() -> World:
    return a_world()


def a_world(**options: Any) -> World:
    world = World(lambda: PodGCController(**options))
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    return world.settle()


def add_node(world: World, name: str = "n", *taints: Any) -> None:
    assert world.server.post(NODES, {"metadata": {"name": name}, "spec": {"taints": list(taints)}}).status == 201


def add_pod(world: World, name: str = "p", phase: str = "", **spec: Any) -> None:
    assert world.server.post(PODS, a_pod(name, **spec)).status == 201
    if phase:
        world.server.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})


def names(world: World) -> list[str]:
    return [each["metadata"]["name"] for each in world.server.get(PODS).body["items"]]


def test_pods_of_a_deleted_node_are_deleted_after_the_quarantine(world: World) -> None:
    add_node(world)
    add_pod(world, "runs", "Running", nodeName="n")
    add_pod(world, "done", "Succeeded", nodeName="n")
    add_pod(world, "elsewhere", nodeName="m")
    add_node(world, "m")
    world.settle()
    world.server.delete(f"{NODES}/n")
    world.advance(QUARANTINE_S - 1)
    assert names(world) == ["done", "elsewhere", "runs"]
    world.advance(1)
    assert names(world) == ["elsewhere"]


def test_a_deleted_pod_is_set_to_failed_with_a_condition(world: World) -> None:
    watch = world.server.watch(PODS)
    assert events(watch) == []
    add_pod(world, nodeName="never")
    world.advance(QUARANTINE_S)
    last = next(obj for kind, obj in events(watch) if kind == "MODIFIED")
    assert last["status"]["phase"] == "Failed"
    (condition,) = [each for each in last["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["reason"], condition["message"]) == ("DeletionByPodGC", "PodGC: node no longer exists")
    assert names(world) == []


def test_a_node_that_returns_in_time_keeps_its_pods(world: World) -> None:
    add_node(world)
    add_pod(world, nodeName="n")
    world.settle()
    world.server.delete(f"{NODES}/n")
    world.advance(30)
    add_node(world)
    world.advance(20)
    world.server.delete(f"{NODES}/n")
    world.advance(QUARANTINE_S - 1)
    assert names(world) == ["p"], "its time begins anew"
    world.advance(1)
    assert names(world) == []


def test_a_node_that_only_the_server_knows_keeps_its_pods(world: World) -> None:
    """The watch of nodes is late; without a read from the API server the pods of an existing node would be deleted."""
    add_pod(world, nodeName="n")
    world.settle()
    exists = EffectResponse(200, {"metadata": {"name": "n", "uid": "u"}}, 0.0)
    world.refuse = lambda effect: exists if isinstance(effect, Get) and effect.name == "n" else None
    world.advance(3600)
    assert names(world) == ["p"]


def test_a_terminating_pod_without_a_node_is_deleted(world: World) -> None:
    obj = a_pod("p", schedulingGates=[{"name": "example.com/g"}])
    obj["metadata"]["finalizers"] = ["example.com/hold"]
    world.server.post(PODS, obj)
    world.server.delete(f"{PODS}/p")
    world.settle()
    assert world.server.get(f"{PODS}/p").body["status"]["phase"] == "Failed"
    world.server.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert names(world.settle()) == []


def test_terminating_pods_of_an_out_of_service_node_are_deleted_and_others_stay(world: World) -> None:
    add_node(world)
    for name in ("leaving", "staying"):
        add_pod(world, name, nodeName="n")
    world.server.delete(f"{PODS}/leaving")
    assert names(world.settle()) == ["leaving", "staying"]
    world.server.patch(f"{NODES}/n", {"spec": {"taints": [TAINT]}})
    assert names(world.settle()) == ["staying"]
    world.server.delete(f"{PODS}/staying")
    assert names(world.settle()) == []


def test_pods_of_a_ready_node_are_not_deleted_whatever_its_taints(world: World) -> None:
    add_node(world, "n", TAINT)
    ready = {"type": "Ready", "status": "True", "reason": "r", "message": "m"}
    world.server.patch(f"{NODES}/n/status", {"status": {"conditions": [ready]}}, "strategic")
    add_pod(world, nodeName="n")
    world.server.delete(f"{PODS}/p")
    assert names(world.settle()) == ["p"]


def test_above_the_limit_the_oldest_finished_pods_are_deleted_evicted_ones_first() -> None:
    world = a_world(finished_kept=2)
    add_node(world)
    for name in ("a", "b", "c", "d"):
        add_pod(world, name, "Succeeded", nodeName="n")
        world.server.epoch_s += 10
    add_pod(world, "runs", "Running", nodeName="n")
    world.server.post(PODS, a_pod("evicted", nodeName="n"))
    status = {"phase": "Failed", "reason": "Evicted"}
    world.server.patch(f"{PODS}/evicted/status", {"status": status})
    world.advance(30)
    assert names(world) == ["c", "d", "runs"], "the evicted one is the youngest"


def test_a_rejected_deletion_is_retried_and_does_not_block_others(world: World) -> None:
    for name in ("a", "b"):
        add_pod(world, name, nodeName="never")
    no = EffectResponse(500, {"message": "not now"}, 0.0)
    refused: list[Effect] = []

    def refuse(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Delete) and effect.name == "a" and len(refused) < 3:
            refused.append(effect)
            return no
        return None

    world.refuse = refuse
    world.advance(QUARANTINE_S)
    assert names(world) == ["a"]
    world.advance(60)
    assert names(world) == []


def test_a_recreated_pod_is_not_deleted(world: World) -> None:
    add_pod(world, nodeName="never")
    world.deliver_all()
    world.server.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    add_node(world, "real")
    add_pod(world, nodeName="real")
    world.advance(3600)
    assert names(world) == ["p"]


def test_after_a_crash_the_quarantine_starts_again(world: World) -> None:
    add_pod(world, nodeName="never")
    world.advance(20)
    world.crash().advance(QUARANTINE_S)
    assert names(world) == []


def test_running_pods_cause_no_requests(world: World) -> None:
    add_node(world)
    for number in range(10):
        add_pod(world, f"p{number}", "Running", nodeName="n")
    world.advance(3600)
    assert world.requests[2:] == [], "discovery is all that was asked for"
