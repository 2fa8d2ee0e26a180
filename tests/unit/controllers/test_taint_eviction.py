"""Eviction of pods by NoExecute taints, on the embedded server with a virtual clock."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from embedded import a_pod, events
from headgate.controllers.framework.effects import Delete, Effect, EffectResponse
from headgate.controllers.node_lifecycle.taint_eviction import TaintEvictionController, stay_s
from unit.controllers.world import World

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/a/pods"
TAINT = {"key": "example.com/t", "effect": "NoExecute"}
OTHER = {"key": "example.com/o", "effect": "NoExecute"}


@pytest.fixture
def world() -> World:
    world = World(TaintEvictionController)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    world.server.post(NODES, {"metadata": {"name": "n"}})
    return world.settle()


def taint(world: World, *taints: Any) -> None:
    world.server.patch(f"{NODES}/n", {"spec": {"taints": list(taints)}})
    world.settle()


def add_pod(world: World, name: str, *tolerations: Any) -> None:
    assert world.server.post(PODS, a_pod(name, nodeName="n", tolerations=list(tolerations))).status == 201


def going(world: World) -> set[str]:
    """Pods that are being deleted, or are gone."""
    there = {each["metadata"]["name"]: each["metadata"] for each in world.server.get(PODS).body["items"]}
    return {name for name, metadata in there.items() if "deletionTimestamp" in metadata}


def for_s(seconds: int | None, key: str = "example.com/t") -> dict[str, Any]:
    return {
        **({"key": key} if key else {}),
        "operator": "Exists",
        "effect": "NoExecute",
        **({} if seconds is None else {"tolerationSeconds": seconds}),
    }


def said(world: World) -> list[str]:
    return [each.message for each in world.emitted]


def test_a_pod_that_does_not_tolerate_the_taint_is_evicted_at_once_with_a_condition(world: World) -> None:
    watch = world.server.watch(PODS)
    events(watch)
    add_pod(world, "p")
    add_pod(world, "stays", for_s(None))
    taint(world, TAINT)
    assert going(world) == {"p"}
    assert said(world) == ["Marking for deletion Pod a/p"]
    conditions = [
        condition
        for _, obj in events(watch)
        for condition in (obj.get("status") or {}).get("conditions") or ()
        if condition["type"] == "DisruptionTarget"
    ]
    assert conditions[0]["reason"] == "DeletionByTaintManager"
    assert conditions[0]["observedGeneration"] == 1


def test_the_shortest_of_the_times_that_match_counts(world: World) -> None:
    add_pod(world, "p", for_s(30), for_s(10, "example.com/o"), for_s(1, "example.com/else"))
    taint(world, TAINT, OTHER)
    world.advance(9)
    assert going(world) == set()
    world.advance(1)
    assert going(world) == {"p"}


def test_a_pod_stays_when_the_taint_is_removed_in_time(world: World) -> None:
    add_pod(world, "p", for_s(30))
    taint(world, TAINT)
    world.advance(29)
    taint(world)
    world.advance(3600)
    assert going(world) == set()
    assert said(world) == ["Cancelling deletion of Pod a/p"]
    taint(world, TAINT)
    world.advance(29)
    assert going(world) == set(), "its time begins anew"
    world.advance(1)
    assert going(world) == {"p"}


def test_a_further_taint_that_is_not_tolerated_ends_the_wait(world: World) -> None:
    add_pod(world, "p", for_s(30))
    taint(world, TAINT)
    world.advance(5)
    taint(world, TAINT, OTHER)
    assert going(world) == {"p"}
    assert said(world) == ["Cancelling deletion of Pod a/p", "Marking for deletion Pod a/p"]


def test_a_pod_that_is_bound_to_a_tainted_node_is_checked_too(world: World) -> None:
    taint(world, TAINT)
    add_pod(world, "p")
    add_pod(world, "q", for_s(3))
    world.settle()
    assert going(world) == {"p"}
    world.advance(3)
    assert going(world) == {"p", "q"}


def test_an_added_toleration_counts(world: World) -> None:
    add_pod(world, "p", for_s(30))
    taint(world, TAINT)
    pod = world.server.get(f"{PODS}/p").body
    longer = [{"operator": "Exists"}, *pod["spec"]["tolerations"]]
    assert world.server.patch(f"{PODS}/p", {"spec": {"tolerations": longer}}).status == 200
    world.advance(3600)
    assert going(world) == set()


def test_no_schedule_taints_evict_no_pod(world: World) -> None:
    add_pod(world, "p")
    taint(world, {**TAINT, "effect": "NoSchedule"}, {**OTHER, "effect": "PreferNoSchedule"})
    world.advance(3600)
    assert going(world) == set()


def test_a_failed_deletion_is_retried_and_announced_once(world: World) -> None:
    add_pod(world, "p")
    world.refuse = lambda effect: _refusal(effect)
    taint(world, TAINT)
    assert going(world) == set()
    world.refuse = lambda effect: None
    world.advance(1)
    assert going(world) == {"p"}
    assert said(world) == ["Marking for deletion Pod a/p"]


def _refusal(effect: Effect) -> EffectResponse | None:
    return EffectResponse(500, {}, 0.0) if isinstance(effect, Delete) else None


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([], [], inf),
        ([TAINT], [], 0.0),
        ([TAINT], [for_s(None)], inf),
        ([TAINT], [for_s(-5)], 0.0),
        ([TAINT], [for_s(7), for_s(3)], 7.0),
        ([TAINT, OTHER], [for_s(7)], 0.0),
        ([TAINT, OTHER], [for_s(9, "")], 9.0),
        ([TAINT], [{"key": "example.com/t", "operator": "Equal", "value": "x"}], 0.0),
    ],
)
def test_how_long_a_pod_may_stay(taints: list[Any], tolerations: list[Any], expected: float) -> None:
    assert stay_s(taints, tolerations) == expected
