"""Pods in Kueue's queues that are preempted, replaced and deleted, with crashes of their controllers at writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.jobs.pods.fixtures import (
    SLOW,
    SlowKubelet,
    a_world,
    add,
    add_group,
    delete,
    end,
    has,
    no_gate_is_lifted_without_quota,
    pods,
    started,
    workloads,
)
from unit.jobs.queue_fixtures import PREEMPTION


def preempted(world: CrashingWorld) -> None:
    add_group(world, "low", priority="low")
    world.advance(10)
    add(world, "high", priority="high", ends="Succeeded")
    world.advance(80)
    for name in ("x", "y"):
        add(world, name, group="low", priority="low")
    world.advance(30)


def replaced(world: CrashingWorld) -> None:
    add_group(world, "low", priority="low")
    add(world, "high", priority="high", ends="Succeeded", cpu="500m")
    world.advance(10)
    end(world, "low-0", "Failed")
    world.advance(10)
    add(world, "x", group="low", priority="low")
    add(world, "z", group="low", priority="low")
    world.advance(10)
    delete(world, "low-1")
    world.advance(80)
    add(world, "y", group="low", priority="low")
    world.advance(30)


@pytest.mark.parametrize("features", [None, SLOW])
@pytest.mark.parametrize("scenario", [preempted, replaced])
def test_a_crash_at_any_write_does_not_change_the_final_state(
    scenario: Callable[[CrashingWorld], None], features: Any
) -> None:
    def make() -> CrashingWorld:
        cpu = 2 if scenario is preempted else 3
        world = a_world(cpu, features, kubelet=SlowKubelet, **PREEMPTION)
        world.check = no_gate_is_lifted_without_quota
        return world

    def look(title: str, world: CrashingWorld) -> None:
        assert has(world, "high", "Finished"), title
        assert has(world, "low", "Admitted"), title
        running = [name for name in started(world) if pods(world)[name]["status"]["phase"] == "Running"]
        assert running == ["x", "y"], title
        assert sorted(workloads(world)) == ["high", "low"], title
        stuck = [name for name, each in pods(world).items() if "deletionTimestamp" in each["metadata"]]
        assert not stuck, title

    run_with_crashes(make, scenario, look, stride=5 if features is None else 11)


def finished(world: CrashingWorld) -> None:
    add_group(world, "g", ends="Succeeded")
    add(world, "a", ends="Failed")
    world.advance(20)
    delete(world, "g-0", "g-1", "a")
    world.advance(20)


def abandoned(world: CrashingWorld) -> None:
    add_group(world, "g")
    add(world, "a")
    world.advance(20)
    delete(world, "g-0", "g-1", "a")
    world.advance(100)


@pytest.mark.parametrize("scenario", [finished, abandoned])
def test_a_crash_at_any_write_leaves_nothing_of_deleted_pods(
    scenario: Callable[[CrashingWorld], None],
) -> None:
    def make() -> CrashingWorld:
        world = a_world(cpu=3, kubelet=SlowKubelet)
        world.check = no_gate_is_lifted_without_quota
        return world

    def look(title: str, world: CrashingWorld) -> None:
        assert not pods(world), title
        assert not workloads(world), title

    run_with_crashes(make, scenario, look, stride=5)
