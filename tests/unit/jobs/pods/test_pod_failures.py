"""Pods in queues with late watches, lost responses, any order of events, and crashes at every write."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, Patch
from headgate.kube.api_resources import PODS as POD
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.jobs.pods.fixtures import (
    a_world,
    add,
    add_group,
    has,
    messages_of,
    pods,
    started,
    workloads,
)
from unit.jobs.queue_fixtures import PREEMPTION


@pytest.mark.parametrize("deaf", [[WORKLOAD], [POD], [POD, WORKLOAD]])
def test_late_watches_cause_no_second_write(deaf: Any) -> None:
    world = a_world()
    add_group(world, "g")
    world.deliver_all()
    before = len(world.requests)
    world.settle(delayed=deaf)
    created = [each for each in world.requests[before:] if each[0] == "POST" and each[1].endswith("/workloads")]
    assert len(created) == 1
    world.advance(2)
    assert started(world) == ["g-0", "g-1"]
    assert messages_of(world, "Started") == ["Admitted by clusterQueue cq"] * 2


@pytest.mark.parametrize("what", [Create, Patch, Delete])
def test_a_lost_response_is_resolved_by_a_read(what: Any) -> None:
    world = a_world(cpu=2, **PREEMPTION)
    losses = iter([True, False, True, True])
    world.loses_response = lambda effect: isinstance(effect, what) and next(losses, False)
    add_group(world, "low", priority="low")
    world.advance(20)
    add(world, "high", priority="high", ends="Succeeded")
    world.advance(40)
    assert has(world, "high", "Finished")
    assert list(pods(world)) == ["high"], "of the victims nothing is left"
    assert "finalizers" not in pods(world)["high"]["metadata"]
    assert list(workloads(world)) == ["high"]


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_events_does_not_matter(seed: int) -> None:
    drawn = random.Random(seed)
    world = a_world(cpu=2, **PREEMPTION)
    add_group(world, "low", priority="low")
    add(world, "high", priority="high", ends="Succeeded")
    for _ in range(20):
        world.settle(drawn.choice)
        world.advance(1)
    assert has(world, "high", "Finished")
    for name in ("x", "y"):
        if len([each for each in pods(world) if each != "high"]) < 2:
            add(world, name, group="low", priority="low")
    for _ in range(20):
        world.settle(drawn.choice)
        world.advance(1)
    assert has(world, "low", "Admitted")


def test_a_pod_that_cannot_be_started_does_not_block_the_others() -> None:
    world = a_world(cpu=3)

    def refuse(effect: Effect) -> EffectResponse | None:
        is_start = isinstance(effect, Patch) and effect.resource == POD and "schedulingGates" in str(effect.body)
        if is_start and isinstance(effect, Patch) and effect.name == "g-1":
            return EffectResponse(422, {"message": "no"}, world.server.epoch_s)
        return None

    world.refuse = refuse
    add_group(world, "g", count=3)
    world.advance(30)
    assert started(world) == ["g-0", "g-2"]
    assert messages_of(world, "FailedToStart") == ["pod 'g-1': no"], "once"
    world.refuse = lambda effect: None
    world.advance(60)
    assert started(world) == ["g-0", "g-1", "g-2"]


def test_a_group_that_the_watch_lost_keeps_its_workload() -> None:
    """Its pods are there, though no watch has told so."""
    world = a_world()
    add_group(world, "g")
    world.advance(1)
    world.crash()
    world.settle(delayed=[POD])
    assert not has(world, "g", "Finished")
    assert has(world, "g", "Admitted")
    world.advance(1)
    assert started(world) == ["g-0", "g-1"]


# -- deaths --------------------------------------------------------------------------------------------------------
