"""Members of a group that are deleted without a grace period on an unreachable node: no kubelet confirms their end."""

from __future__ import annotations

import pytest

from headgate.kube.feature_gates import FeatureGates
from unit.controllers.kubelet import HELD
from unit.controllers.world import World
from unit.jobs.pods.fixtures import SLOW, K, a_world, add, add_group, condition, delete, has, pods, started, workloads
from unit.jobs.queue_fixtures import PODS


def lose_node(world: World, *names: str) -> None:
    """From now on nothing is heard of them."""
    for name in names:
        assert world.server.patch(f"{PODS}/{name}", {"metadata": {"annotations": {HELD: "true"}}}).status == 200


def force(world: World, *names: str) -> None:
    for name in names:
        assert world.server.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0}).status == 200


@pytest.mark.parametrize("features", [None, SLOW])
def test_a_force_deleted_member_loses_its_finalizer_and_can_be_replaced(features: FeatureGates | None) -> None:
    world = a_world(features=features)
    add_group(world, "g")
    world.advance(2)
    lose_node(world, "g-0")
    delete(world, "g-0")
    world.advance(5)
    assert "g-0" in pods(world), "its grace is not over"
    force(world, "g-0")
    world.advance(2)
    assert list(pods(world)) == ["g-1"]
    add(world, "g-2", group="g")
    world.advance(70)
    assert started(world) == ["g-1", "g-2"]
    assert has(world, "g", "Admitted")


def test_a_force_deleted_group_is_deleted_with_its_workload() -> None:
    world = a_world()
    add_group(world, "g")
    world.advance(2)
    lose_node(world, "g-0", "g-1")
    force(world, "g-0", "g-1")
    world.advance(5)
    assert (pods(world), workloads(world)) == ({}, {})


def test_a_group_that_ends_with_its_failures_ends_with_a_member_that_was_deleted_by_force() -> None:
    world = a_world()
    add_group(world, "g", annotations={f"{K}/retriable-in-group": "false"}, ends="")
    world.advance(2)
    lose_node(world, "g-0")
    force(world, "g-0")
    world.server.patch(f"{PODS}/g-1", {"metadata": {"annotations": {"test.example/ends": "Failed"}}})
    world.advance(5)
    assert condition(world, "g", "Finished")["reason"] == "Failed"
    assert list(pods(world)) == ["g-1"]
    assert "finalizers" not in pods(world)["g-1"]["metadata"]
