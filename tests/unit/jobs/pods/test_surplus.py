"""Pods of a group that succeed although they were told to end: their replacements have no place any more.

A pod that is told to end may finish its work before its grace is over. Its replacement is there by then, behind its
gate or running, and the group has more pods than places.
"""

from __future__ import annotations

import pytest

from headgate.kube.feature_gates import FeatureGates
from unit.controllers.world import World
from unit.jobs.pods.fixtures import (
    SLOW,
    SlowKubelet,
    a_world,
    add,
    add_group,
    condition,
    delete,
    has,
    pods,
    reasons,
    started,
)
from unit.jobs.queue_fixtures import PODS, PREEMPTION


def succeed(world: World, name: str) -> None:
    """Whether it was told to end or not."""
    world.server.patch(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})


def evict(world: World, group: str) -> None:
    """By a pod that is more important and needs all there is."""
    add(world, "high", cpu="2", priority="high")
    world.advance(1)
    assert has(world, group, "Evicted")


@pytest.mark.parametrize("features", [None, SLOW], ids=["fast release", "slow release"])
def test_a_waiting_replacement_of_a_pod_that_succeeded_after_all_is_removed(features: FeatureGates | None) -> None:
    world = a_world(kubelet=SlowKubelet, features=features, **PREEMPTION)
    add_group(world, "g", priority="low")
    world.advance(1)
    succeed(world, "g-1")
    world.advance(1)
    evict(world, "g")
    add(world, "new", group="g", priority="low")
    succeed(world, "g-0")
    world.advance(5)
    assert condition(world, "g", "Finished")["message"] == "Pods succeeded: 2/2."
    world.advance(70)
    assert sorted(pods(world)) == ["g-1", "high"]
    assert started(world) == ["g-1", "high"]
    assert reasons(world).count("ExcessPodDeleted") == 1


def test_a_replaced_pod_without_the_finalizer_does_not_count_although_it_succeeds() -> None:
    world = a_world(kubelet=SlowKubelet)
    add_group(world, "g")
    world.advance(1)
    delete(world, "g-0")
    add(world, "new", group="g")
    world.advance(1)
    assert started(world) == ["g-1"], "the place is in use until the pod before it has left"
    assert "finalizers" not in pods(world)["g-0"]["metadata"]
    succeed(world, "g-0")
    succeed(world, "g-1")
    world.advance(70)
    assert not has(world, "g", "Finished")
    assert started(world) == ["g-1", "new"]
    succeed(world, "new")
    world.advance(5)
    assert condition(world, "g", "Finished")["message"] == "Pods succeeded: 2/2."


def test_a_replacement_that_comes_after_the_end_of_its_group_is_removed() -> None:
    world = a_world()
    add_group(world, "g", ends="Succeeded")
    world.advance(5)
    assert has(world, "g", "Finished")
    delete(world, "g-0")
    world.advance(5)
    assert list(pods(world)) == ["g-1"]
    add(world, "late", group="g")
    world.advance(5)
    assert list(pods(world)) == ["g-1"]
    assert reasons(world).count("ExcessPodDeleted") == 1
