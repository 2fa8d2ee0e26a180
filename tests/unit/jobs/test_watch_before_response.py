"""A watch event that arrives before the response to its write: the write counts once, for every controller."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, Patch
from headgate.jobs.metrics import JobMetrics
from headgate.kube.api_resources import JOBS as JOB
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs import fixtures as stage
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.test_job_metrics import read

REMOVALS = "kueue_pod_scheduling_gate_removal_seconds_count"


def is_write(effect: Effect) -> bool:
    return isinstance(effect, Create | Patch | Delete)


def overtaken(world: CrashingWorld) -> CrashingWorld:
    world.watch_is_first = is_write
    return world


@pytest.mark.parametrize("group", ["", "g"])
def test_pods_are_started_without_a_false_failure(group: str) -> None:
    world = overtaken(of_pods.a_world())
    for name in ("a", "b"):
        of_pods.add(world, name, group=group)
    world.settle()
    assert of_pods.started(world) == ["a", "b"], "in one go, without a back-off"
    assert of_pods.messages_of(world, "FailedToStart") == []
    assert of_pods.messages_of(world, "Started") == ["Admitted by clusterQueue cq"] * 2


def test_the_removal_of_a_gate_is_measured() -> None:
    world = overtaken(of_pods.a_world())
    of_pods.add(world, "a")
    world.settle()
    found = read(of_pods.controller(world).metrics, world.server.epoch_s)
    assert [count for name, count in found.items() if name.startswith(REMOVALS)] == [1]


def test_a_job_is_started_and_stopped_without_a_back_off() -> None:
    metrics = JobMetrics()
    world = overtaken(stage.a_world(metrics=metrics, preemption={"withinClusterQueue": "LowerPriority"}))
    stage.add(world, "low", priority="low")
    world.settle()
    assert stage.running(world) == ["low"]
    stage.add(world, "high", priority="high")
    world.settle()
    assert stage.running(world) == ["high"]
    assert stage.reasons(world).count("Started") == 2
    assert stage.reasons(world).count("Stopped") == 1
    assert read(metrics, world.server.epoch_s)['kueue_workload_creation_latency_seconds_count{job_kind="Job"}'] == 2


def test_an_admission_with_a_conflict_is_decided_again_at_once() -> None:
    """Another writer changes the Workload, a webhook refuses the admission, and the watch tells of the other write
    before the refusal comes: the refusal is about a version that is no longer there."""
    world = stage.a_world()
    refusals = iter([True])

    def refuse(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or effect.resource != WORKLOAD or effect.subresource != "status":
            return None
        if not effect.body["status"].get("admission") or not next(refusals, False):
            return None
        path = WORKLOAD.object_path(effect.namespace, effect.name)
        assert world.server.patch(path, {"metadata": {"labels": {"team": "a"}}}).status == 200
        world.deliver_all()
        return EffectResponse(403, {"message": "denied"}, world.server.epoch_s)

    world.refuse = refuse
    stage.add(world, "j")
    world.settle()
    assert stage.running(world) == ["j"]
    assert not [each for each in world.emitted if "rejected the admission" in each.message]


def test_a_patch_that_the_server_drops_is_retried_later() -> None:
    world = overtaken(stage.a_world())
    sent: list[Effect] = []

    def refuse(effect: Effect) -> EffectResponse | None:
        if not (isinstance(effect, Patch) and effect.resource == JOB and "suspend" in effect.body.get("spec", {})):
            return None
        sent.append(effect)
        return EffectResponse(200, stage.job(world, effect.name), world.server.epoch_s)

    world.refuse = refuse
    stage.add(world, "j")
    world.settle()
    assert len(sent) == 1
