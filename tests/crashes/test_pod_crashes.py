"""Pods in queues whose controllers crash at every write, or with interfering writes: every revision is checked.

Gates are removed once and only from admitted pods, no pod holds quota twice, and no finalizer is left on a deleted
object.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.controllers.framework.effects import Effect, EffectResponse, Patch
from headgate.kube.api_resources import PODS as POD
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World
from unit.jobs.audited import audited, of_quota_and_pods, run_with_interference
from unit.jobs.pods.fixtures import K, SlowKubelet, a_world, add, add_group, delete, end, has, pods, started, workloads
from unit.jobs.queue_fixtures import PODS, PREEMPTION, WORKLOADS


def judged(cpu: int = 2) -> CrashingWorld:
    return audited(a_world(cpu=cpu, kubelet=SlowKubelet, **PREEMPTION), counts=of_quota_and_pods)


def assert_tidy(world: World, title: str) -> None:
    for obj in (*pods(world).values(), *workloads(world).values()):
        assert "deletionTimestamp" not in obj["metadata"], (title, obj["metadata"])
    for name, pod in pods(world).items():
        if pod["status"]["phase"] in ("Succeeded", "Failed"):
            assert f"{K}/managed" not in pod["metadata"].get("finalizers", ()), (title, name)


# -- scenarios -------------------------------------------------------------------------------------------------------


def alone(world: CrashingWorld) -> None:
    """The first pod is preempted for the second, is created again by its user, and is admitted later."""
    add(world, "low", cpu="2", priority="low")
    world.advance(2)
    add(world, "high", cpu="2", priority="high", ends="Succeeded")
    world.advance(70)
    assert "low" not in pods(world)
    add(world, "low", cpu="2", priority="low")
    world.advance(30)


def together(world: CrashingWorld) -> None:
    """The same with groups; a failed pod is replaced."""
    add_group(world, "low", priority="low")
    world.advance(2)
    add_group(world, "high", priority="high", ends="Succeeded")
    world.advance(70)
    assert not {"low-0", "low-1"} & set(pods(world))
    add_group(world, "low", priority="low")
    world.advance(30)


def replaced(world: CrashingWorld) -> None:
    add_group(world, "low")
    world.advance(2)
    end(world, "low-0", "Failed")
    world.advance(10)
    add(world, "low-2", group="low")
    world.advance(10)
    add_group(world, "high", priority="high", ends="Succeeded")
    world.advance(70)
    for number in range(3, 5):
        add(world, f"low-{number}", group="low")
    world.advance(30)


_SCENARIOS: dict[str, tuple[Callable[[CrashingWorld], None], list[str]]] = {
    "alone": (alone, ["low"]),
    "together": (together, ["low-0", "low-1"]),
    "replaced": (replaced, ["low-3", "low-4"]),
}


@pytest.mark.parametrize("name", _SCENARIOS)
def test_a_crash_at_any_write_has_no_visible_effect(name: str) -> None:
    scenario, at_work = _SCENARIOS[name]

    def look(title: str, world: CrashingWorld) -> None:
        world.check(world)
        assert has(world, "high", "Finished"), title
        assert has(world, "low", "Admitted"), title
        running = [each for each in started(world) if each.startswith("low")]
        assert set(at_work) <= set(running), (title, running)
        assert_tidy(world, title)

    run_with_crashes(judged, scenario, look)


def test_a_pod_that_is_preempted_before_its_gate_is_removed_waits_and_is_admitted_later() -> None:
    world = judged()
    add(world, "low", cpu="2", priority="low")
    world.settle(delayed=[POD])
    world.refuse = lambda effect: EffectResponse(500, {}, world.server.epoch_s) if _starts(effect, "low") else None
    world.settle()
    assert has(world, "low", "Admitted")
    add(world, "high", cpu="2", priority="high", ends="Succeeded")
    world.advance(1)
    world.refuse = lambda effect: None
    world.advance(100)
    assert not has(world, "high", "Admitted"), "a start with an unknown outcome may be performed for two minutes"
    world.advance(50)
    assert has(world, "high", "Finished")
    assert "low" in started(world)


def _starts(effect: Effect, name: str) -> bool:
    return isinstance(effect, Patch) and effect.resource == POD and effect.name == name


# -- meddling ------------------------------------------------------------------------------------------------------


def delete_pods(world: World) -> None:
    delete(world, *(name for name, pod in pods(world).items() if name.startswith("low") and not _is_leaving(pod)))


def delete_workload(world: World) -> None:
    if "low" in workloads(world):
        world.server.delete(f"{WORKLOADS}/{workloads(world)['low']['metadata']['name']}")


def write_to_all(world: World) -> None:
    """Every write that is on its way was decided on an older version."""
    labels = {"metadata": {"labels": {"example.com/seen": "true"}}}
    for path, found in ((PODS, pods(world)), (WORKLOADS, workloads(world))):
        for obj in found.values():
            world.server.patch(f"{path}/{obj['metadata']['name']}", labels)


@pytest.mark.parametrize("meddle", [delete_pods, delete_workload, write_to_all])
def test_a_write_that_interferes_with_a_group_at_any_time_does_not_block_the_other_group(
    meddle: Callable[[World], None],
) -> None:
    def scenario(world: CrashingWorld) -> None:
        add_group(world, "low", priority="low")
        world.advance(2)
        add_group(world, "high", priority="high", ends="Succeeded")
        world.advance(70)

    def look(title: str, world: CrashingWorld) -> None:
        world.advance(100)
        assert has(world, "high", "Finished"), title
        assert_tidy(world, title)

    run_with_interference(judged, scenario, meddle, look)


def _is_leaving(pod: dict[str, dict[str, object]]) -> bool:
    return "deletionTimestamp" in pod["metadata"]
