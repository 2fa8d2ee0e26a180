"""Workloads that have lost the finalizer ``resource-in-use``: it is added again, and not in a loop."""

from __future__ import annotations

from typing import Any

from headgate.controllers.framework.effects import Patch, RequestEffect
from headgate.quota.names import RESOURCE_IN_USE
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS, a_world, add, running, workload
from unit.jobs.queue_fixtures import WORKLOADS


def finalizers(obj: Wire | None) -> list[str]:
    assert obj is not None
    return obj["metadata"].get("finalizers") or []


def is_restore(effect: RequestEffect) -> bool:
    return isinstance(effect, Patch) and RESOURCE_IN_USE in (effect.body.get("metadata", {}).get("finalizers") or ())


def remove(world: World, name: str) -> None:
    found = workload(world, name)
    assert found is not None
    path = f"{WORKLOADS}/{found['metadata']['name']}"
    assert world.server.patch(path, {"metadata": {"finalizers": None}}).status == 200


def counting(world: CrashingWorld) -> list[RequestEffect]:
    """The restoring writes, as they are sent."""
    sent: list[RequestEffect] = []
    request = world._request

    def count(effect: RequestEffect) -> Any:
        if is_restore(effect):
            sent.append(effect)
        return request(effect)

    world._request = count  # type: ignore[method-assign]  # the test counts the requests
    return sent


def test_jobs_that_run_and_that_wait_have_the_finalizer_again_after_a_restart() -> None:
    world = a_world(cpu=1)
    add(world, "runs")
    world.advance(1)
    add(world, "waits")
    world.advance(1)
    for each in ("runs", "waits"):
        remove(world, each)
    world.crash()
    sent = counting(world)
    world.advance(5)
    assert finalizers(workload(world, "waits")) == [RESOURCE_IN_USE]
    assert finalizers(workload(world, "runs")) == [RESOURCE_IN_USE]
    assert len(sent) == 2


def test_a_program_that_removes_the_finalizer_again_and_again_is_answered_with_back_off() -> None:
    world = a_world(cpu=1)
    add(world, "job")
    world.advance(1)
    sent = counting(world)
    for _ in range(600):
        if RESOURCE_IN_USE in finalizers(workload(world, "job")):
            remove(world, "job")
        world.advance(1)
    assert 3 <= len(sent) <= 8
    world.advance(3600)
    assert finalizers(workload(world, "job")) == [RESOURCE_IN_USE]
    assert running(world) == ["job"]


def test_a_workload_that_is_being_deleted_or_is_finished_gets_no_finalizer() -> None:
    world = a_world(cpu=1)
    add(world, "job", ends=True)
    world.advance(10)
    sent = counting(world)
    remove(world, "job")
    world.advance(10)
    assert sent == []
    add(world, "next")
    world.advance(1)
    found = workload(world, "next")
    assert found is not None
    path = f"{WORKLOADS}/{found['metadata']['name']}"
    world.server.patch(path, {"metadata": {"finalizers": ["example.com/kept"]}})
    world.server.delete(path)
    world.server.delete(f"{JOBS}/next", {"propagationPolicy": "Background"})
    world.advance(10)
    assert sent == []
