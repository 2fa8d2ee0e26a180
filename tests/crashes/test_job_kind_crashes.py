"""Jobs of kinds that a file describes, and jobs with gates, whose controllers crash at every write of a scenario."""

from __future__ import annotations

import pytest

from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World
from unit.jobs import leader_worker_sets, model_server
from unit.jobs import test_child_restores as child_restores
from unit.jobs import test_framework_kinds as framework_kinds
from unit.jobs.audited import Auditor
from unit.jobs.fixtures import GATE, GATING, JOBS, a_world, running
from unit.jobs.fixtures import add as add_job
from unit.jobs.operators import encoded
from unit.jobs.pods.fixtures import pods, started
from unit.jobs.queue_fixtures import PREEMPTION, WORKLOADS, create
from unit.jobs.test_custom_kinds import a_training_world, add, is_true, run, workload
from unit.jobs.test_gates import count


def test_a_crash_at_any_write_does_not_change_the_final_state_of_a_custom_job() -> None:
    def scenario(world: CrashingWorld) -> None:
        add(world, "low", workers=5, least=2, priority="low")
        world.advance(4)
        add(world, "high", workers=2, priority="high", example_com__ends="Complete")
        world.advance(25)

    def look(title: str, world: CrashingWorld) -> None:
        assert is_true(workload(world, "high"), "Finished"), title
        assert run(world, "low")["spec"]["suspend"] is False, title
        assert run(world, "low")["spec"]["workers"]["replicas"] == 3, title

    run_with_crashes(lambda: a_training_world(cpu=4, **PREEMPTION), scenario, look)


def test_a_job_that_changes_with_the_removal_of_its_gate_never_has_an_old_workload() -> None:
    def scenario(world: CrashingWorld) -> None:
        add_job(world, "a", cpu="100m", annotations={GATE: "example.com/g"})
        world.advance(2)
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}}
        patch: Wire = {"spec": {"template": {"spec": {"containers": [container]}}}}
        patch["metadata"] = {"annotations": {GATE: None}}
        assert world.server.patch(f"{JOBS}/a", patch, "strategic").status == 200
        world.advance(8)

    def never_the_old_one(world: World) -> None:
        for each in world.server.get(WORKLOADS).body["items"]:
            (container,) = each["spec"]["podSets"][0]["template"]["spec"]["containers"]
            assert container["resources"]["requests"] == {"cpu": "200m"}

    def make() -> CrashingWorld:
        world = a_world(features=GATING)
        world.check = never_the_old_one
        return world

    def look(title: str, world: CrashingWorld) -> None:
        assert running(world) == ["a"], title
        assert count(world) == 1, title

    run_with_crashes(make, scenario, look)


@pytest.mark.parametrize("kind", ["JobSet", "RayJob", "MPIJob"])
def test_a_crash_at_any_write_does_not_change_the_final_state_of_a_built_in_kind(kind: str) -> None:
    spec: list[bytes] = []

    def scenario(world: CrashingWorld) -> None:
        before = framework_kinds.add(world, kind, "low", priority="low")
        spec[:] = [encoded(before["spec"])]
        world.advance(4)
        framework_kinds.add(world, kind, "high", priority="high")
        world.advance(25)

    def look(title: str, world: CrashingWorld) -> None:
        assert framework_kinds.is_running(world, kind, "high"), title
        assert encoded(framework_kinds.the(world, kind, "low")["spec"]) == spec[0], title

    run_with_crashes(lambda: audited(framework_kinds.a_kind_world(kind, **PREEMPTION)), scenario, look)


def test_a_crash_at_any_write_does_not_change_the_final_state_of_a_paused_kind() -> None:
    spec: list[bytes] = []

    def scenario(world: CrashingWorld) -> None:
        before = model_server.add(world, "low", replicas=5, least=2, priority="low")
        spec[:] = [encoded(before["spec"])]
        world.advance(4)
        model_server.add(world, "high", replicas=2, priority="high")
        world.advance(25)

    def look(title: str, world: CrashingWorld) -> None:
        assert model_server.is_running(world, "high"), title
        assert encoded(model_server.the(world, "low")["spec"]) == spec[0], title

    run_with_crashes(lambda: audited(model_server.a_server_world(cpu=4, **PREEMPTION)), scenario, look)


def test_a_crash_at_any_write_does_not_leave_a_child_job_with_the_selector_of_an_old_flavor() -> None:
    def make() -> CrashingWorld:
        world, _ = child_restores.a_running_job_set()
        child_restores.add_child(world)
        world.writes = 0
        return audited(world)

    def scenario(world: CrashingWorld) -> None:
        framework_kinds.add(world, "JobSet", "high", priority="high")
        world.advance(25)

    def look(title: str, world: CrashingWorld) -> None:
        assert framework_kinds.is_running(world, "JobSet", "high"), title
        assert "disk" not in child_restores.child_template(world)["spec"]["nodeSelector"], title

    run_with_crashes(make, scenario, look)


def test_a_crash_at_any_write_does_not_change_the_final_state_of_a_kind_whose_pods_have_gates() -> None:
    def scenario(world: CrashingWorld) -> None:
        create(world.server, leader_worker_sets.PATH, leader_worker_sets.a_set("low", priority="low"))
        world.advance(4)
        create(world.server, leader_worker_sets.PATH, leader_worker_sets.a_set("high", priority="high"))
        world.advance(30)

    def look(title: str, world: CrashingWorld) -> None:
        assert started(world) == ["high-0", "high-0-1"], title
        assert sorted(pods(world)) == ["high-0", "high-0-1", "low-0", "low-0-1"], title

    run_with_crashes(lambda: audited(leader_worker_sets.a_set_world(**PREEMPTION)), scenario, look)


def audited(world: CrashingWorld) -> CrashingWorld:
    """Every revision is judged, and a crash comes at every write."""
    world.check = Auditor(world.server)
    return world
