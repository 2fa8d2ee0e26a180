"""Related jobs, with a crash at every write: a child of an evicted job, a prebuilt Workload, and a Workload that
another client detached from its job.
"""

from __future__ import annotations

from headgate.kube.conditions import is_true
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World
from unit.jobs.fixtures import a_world, add, has, is_complete, running, workload
from unit.jobs.queue_fixtures import PREEMPTION, WORKLOADS
from unit.jobs.test_custom_kinds import a_child, a_training_world, run
from unit.jobs.test_custom_kinds import add as add_run
from unit.jobs.test_job_options import PREBUILT, a_prebuilt, put


def items(world: World) -> list[Wire]:
    found: list[Wire] = world.server.get(WORKLOADS).body["items"]
    return found


def test_a_crash_at_any_write_leaves_no_child_running_without_the_quota_of_its_ancestor() -> None:
    def scenario(world: CrashingWorld) -> None:
        add_run(world, "low", priority="low")
        world.advance(2)
        a_child(world, run(world, "low"))
        world.advance(2)
        add_run(world, "high", priority="high")
        world.advance(6)

    def look(title: str, world: CrashingWorld) -> None:
        assert run(world, "high")["spec"]["suspend"] is False, title
        assert running(world) == [], title
        assert len(items(world)) == 2, title

    run_with_crashes(lambda: a_training_world(**PREEMPTION), scenario, look, stride=2)


def test_a_crash_at_any_write_loses_no_prebuilt_workload() -> None:
    def scenario(world: CrashingWorld) -> None:
        a_prebuilt(world)
        put(world, "a", labels={PREBUILT: "ready-made"}, ends=True)
        world.advance(3)
        add(world, "b", ends=True)
        world.advance(12)

    def at_most_one_holds_quota(world: World) -> None:
        told = [(each.get("status") or {}).get("conditions") for each in items(world)]
        holding = [each for each in told if is_true(each, "QuotaReserved") and not is_true(each, "Finished")]
        assert len(holding) <= 1

    def make() -> CrashingWorld:
        world = a_world()
        world.check = at_most_one_holds_quota
        return world

    def look(title: str, world: CrashingWorld) -> None:
        assert is_complete(world, "a"), title
        assert is_complete(world, "b"), title
        found = workload(world, "a")
        assert found is not None, title
        assert found["metadata"]["name"] == "ready-made", title

    run_with_crashes(make, scenario, look, stride=2)


def test_after_a_crash_at_any_write_a_lost_workload_returns_to_its_job() -> None:
    def scenario(world: CrashingWorld) -> None:
        add(world, "a")
        world.advance(3)
        (only,) = items(world)
        path = f"{WORKLOADS}/{only['metadata']['name']}"
        assert world.server.patch(path, {"metadata": {"ownerReferences": None}}).status == 200
        world.advance(8)

    def look(title: str, world: CrashingWorld) -> None:
        assert len(items(world)) == 1, title
        assert has(world, "a", "Admitted"), title
        assert running(world) == ["a"], title

    run_with_crashes(a_world, scenario, look)
