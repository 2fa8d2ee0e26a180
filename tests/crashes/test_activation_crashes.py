"""Activation by labels when the controllers die at every write, and when others write meanwhile: a held job never gets
quota, and no request is lost."""

from __future__ import annotations

from typing import Any

from headgate.controllers.framework.effects import Create, Patch, RequestEffect
from headgate.kube.api_resources import JOBS as JOB
from headgate.quota.api.activation import WorkloadActivationState
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World
from unit.jobs.activation_fixtures import (
    activation_labels,
    an_activation_world,
    job_labels,
    label,
    patch_workload,
    read,
    state,
    switch,
)
from unit.jobs.audited import assert_tidy, audited, run_with_interference
from unit.jobs.fixtures import JOBS, add, has, is_complete, running, workload
from unit.jobs.queue_fixtures import WORKLOADS


def of_job(effect: RequestEffect) -> bool:
    """Writes of the two controllers to Workloads, and to jobs."""
    if isinstance(effect, Create):
        return effect.resource == WORKLOAD
    return isinstance(effect, Patch) and effect.resource in (WORKLOAD, JOB) and effect.how == "merge"


def make() -> CrashingWorld:
    return audited(an_activation_world(cpu=1), counts=of_job)


class Hold:
    """Checks after every write that ``job`` gets no quota from the request until ``is_over``."""

    def __init__(self, world: CrashingWorld) -> None:
        self.is_over = False
        audit = world.check

        def check(told: World) -> None:
            audit(told)
            assert self.is_over or not has(told, "job", "QuotaReserved"), "a held job got quota"

        world.check = check


def held_and_resumed(world: CrashingWorld) -> None:
    add(world, "first")
    world.advance(1)
    add(world, "job", ends=True)
    world.advance(1)
    hold = Hold(world)
    label(world, "job", deactivate="true")
    world.advance(5)
    world.server.delete(f"{JOBS}/first", {"propagationPolicy": "Background"})
    world.advance(5)
    assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL
    assert job_labels(world, "job") == {}
    hold.is_over = True
    label(world, "job", activate="true")
    world.advance(10)


def test_a_crash_at_any_write_loses_no_request_and_admits_no_held_job() -> None:
    def look(title: str, world: CrashingWorld) -> tuple[Any, ...]:
        assert is_complete(world, "job"), title
        assert job_labels(world, "job") == {}, title
        assert activation_labels(workload(world, "job") or {}) == {}, title
        assert not read(world, "job").is_marked, title
        assert_tidy(world, title)
        return ()

    assert len(run_with_crashes(make, held_and_resumed, look)) > 20


def test_a_crash_at_any_write_while_the_feature_is_switched_off_and_on_keeps_the_hold() -> None:
    def switched(world: CrashingWorld) -> None:
        add(world, "first")
        world.advance(1)
        add(world, "job", ends=True)
        label(world, "job", deactivate="true")
        world.advance(5)
        for is_on in (False, True):
            switch(world, is_on)
            world.advance(5)
        world.server.delete(f"{JOBS}/first", {"propagationPolicy": "Background"})
        world.advance(10)

    def look(title: str, world: CrashingWorld) -> tuple[Any, ...]:
        assert running(world) == [], title
        assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL, title
        assert job_labels(world, "job") == {}, title
        assert activation_labels(workload(world, "job") or {}) == {}, title
        return ()

    run_with_crashes(make, switched, look)


def test_a_workload_that_is_deleted_after_any_write_leaves_the_job_held() -> None:
    def scenario(world: CrashingWorld) -> None:
        add(world, "job", ends=True)
        label(world, "job", deactivate="true")
        world.advance(10)

    def delete(world: World) -> None:
        found = workload(world, "job")
        if found is not None:
            world.server.delete(f"{WORKLOADS}/{found['metadata']['name']}")

    def look(title: str, world: CrashingWorld) -> None:
        world.advance(20)
        assert running(world) == [], title
        assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL, title
        assert job_labels(world, "job") == {}, title

    run_with_interference(make, scenario, delete, look)


def test_a_workload_without_its_finalizer_that_is_deleted_after_any_write_leaves_the_job_held() -> None:
    def scenario(world: CrashingWorld) -> None:
        add(world, "job", ends=True)
        label(world, "job", deactivate="true")
        world.advance(10)

    def delete(world: World) -> None:
        found = workload(world, "job")
        if found is not None:
            path = f"{WORKLOADS}/{found['metadata']['name']}"
            world.server.patch(path, {"metadata": {"finalizers": None}})
            world.server.delete(path)

    def look(title: str, world: CrashingWorld) -> None:
        world.advance(20)
        assert running(world) == [], title
        assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL, title
        assert job_labels(world, "job") == {}, title
        assert "kueue.x-k8s.io/resource-in-use" in (workload(world, "job") or {})["metadata"]["finalizers"], title

    run_with_interference(make, scenario, delete, look)


def test_a_crash_at_any_write_after_an_uninstallation_keeps_the_hold_and_restores_the_finalizer() -> None:
    def scenario(world: CrashingWorld) -> None:
        add(world, "first")
        world.advance(1)
        add(world, "job", ends=True)
        label(world, "job", deactivate="true")
        world.advance(5)
        for each in ("first", "job"):
            patch_workload(world, each, {"metadata": {"finalizers": None}})
        world.crash()
        world.advance(5)
        path = f"{WORKLOADS}/{(workload(world, 'job') or {})['metadata']['name']}"
        assert world.server.delete(path).status == 200
        world.server.delete(f"{JOBS}/first", {"propagationPolicy": "Background"})
        world.advance(20)

    def look(title: str, world: CrashingWorld) -> tuple[Any, ...]:
        assert running(world) == [], title
        assert state(world, "job") is WorkloadActivationState.INACTIVE_MANUAL, title
        assert job_labels(world, "job") == {}, title
        return ()

    run_with_crashes(make, scenario, look)


def test_a_request_that_follows_after_any_write_is_the_one_that_counts() -> None:
    def scenario(world: CrashingWorld) -> None:
        add(world, "job", ends=True)
        label(world, "job", deactivate="true", activate=None)
        world.advance(10)

    def resume(world: World) -> None:
        label(world, "job", activate="true", deactivate=None)

    def look(title: str, world: CrashingWorld) -> None:
        world.advance(20)
        assert is_complete(world, "job"), title
        assert job_labels(world, "job") == {}, title

    run_with_interference(make, scenario, resume, look)
