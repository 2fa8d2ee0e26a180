"""A start whose outcome is unknown: quota is released only when the job cannot run any more.

``tests/crashes/test_outages.py`` has an outage at every write.
"""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import UNREACHABLE, Effect, EffectResponse, Get, Patch
from headgate.kube.api_resources import JOBS as JOB
from headgate.kube.api_resources import PODS as POD
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.audited import audited, of_quota_and_pods
from unit.jobs.fixtures import a_world, add, has, is_complete, job, reasons, running
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import API

QUEUE = f"{API}/clusterqueues/cq"


def is_start(effect: Effect) -> bool:
    return isinstance(effect, Patch) and effect.resource == JOB and effect.body.get("spec", {}).get("suspend") is False


def is_ungating(effect: Effect) -> bool:
    return isinstance(effect, Patch) and effect.resource == POD and "schedulingGates" in effect.body.get("spec", {})


def drain(world: CrashingWorld) -> None:
    assert world.server.patch(QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}}).status == 200


class Delayed:
    """The first start does not arrive in time: its response is a time-out, and it is performed later. ``later``: the
    response to further starts; None if they are performed."""

    def __init__(self, world: CrashingWorld, later: int | None = None) -> None:
        self.start: Effect | None = None
        self.later = later
        self._world = world
        world.refuse = self

    def __call__(self, effect: Effect) -> EffectResponse | None:
        if not is_start(effect):
            return None
        if self.start is None:
            self.start = effect
            return EffectResponse(UNREACHABLE, {"message": "time-out"}, self._world.server.epoch_s)
        return None if self.later is None else EffectResponse(self.later, {"message": "no"}, self._world.server.epoch_s)

    def arrive(self) -> EffectResponse:
        assert self.start is not None
        start, self._world.refuse = self.start, lambda effect: None
        return self._world.perform(start)


def lose_start(world: CrashingWorld) -> None:
    """The responses to starts are lost, and after the first one jobs and pods cannot be read."""
    is_lost = False

    def loses_response(effect: Effect) -> bool:
        nonlocal is_lost
        is_lost = is_lost or running(world) != [] or is_ungating(effect)
        is_read = isinstance(effect, Get) and effect.resource in (JOB, POD)
        return is_start(effect) or is_ungating(effect) or (is_lost and is_read)

    world.loses_response = loses_response


def readable(world: CrashingWorld) -> None:
    world.loses_response = lambda effect: False


def test_a_started_job_that_the_watch_does_not_show_yet_is_stopped_before_its_quota_is_released() -> None:
    world = audited(a_world())
    lose_start(world)
    add(world, "a")
    world.deliver_all()
    world.silent = (JOB,)
    world.advance(0.5)
    assert running(world) == ["a"]
    drain(world)
    world.advance(2)
    assert has(world, "a", "Evicted")
    assert has(world, "a", "Admitted"), "nothing is released while the job cannot be read"
    readable(world)
    world.advance(5)
    assert running(world) == []
    assert not has(world, "a", "QuotaReserved")
    assert reasons(world).count("Stopped") == 1


def test_a_start_that_arrives_after_the_eviction_has_a_conflict() -> None:
    world = audited(a_world())
    delayed = Delayed(world, later=503)
    add(world, "a")
    world.settle()
    drain(world)
    world.advance(2)
    assert not has(world, "a", "QuotaReserved")
    assert delayed.arrive().conflict
    world.advance(2)
    assert running(world) == []
    assert "Stopped" not in reasons(world), "it never ran"
    assert job(world, "a")["metadata"].get("annotations", {}) == {}


def test_a_start_that_arrives_after_another_one_was_rejected_has_a_conflict() -> None:
    world = audited(a_world())
    delayed = Delayed(world, later=403)
    add(world, "a", ends=True)
    world.advance(0.5)
    assert not has(world, "a", "QuotaReserved")
    assert delayed.arrive().conflict
    world.advance(20)
    assert is_complete(world, "a")


def test_a_start_that_arrives_after_its_repetition_has_a_conflict() -> None:
    world = audited(a_world())
    delayed = Delayed(world)
    add(world, "a")
    world.advance(2)
    assert running(world) == ["a"]
    assert reasons(world).count("Started") == 1
    assert delayed.arrive().conflict


@pytest.mark.parametrize("group", ["", "g"])
def test_a_started_pod_that_the_watch_does_not_show_yet_is_stopped_before_its_quota_is_released(group: str) -> None:
    world = audited(of_pods.a_world(cpu=2), counts=of_quota_and_pods)
    lose_start(world)
    for name in ("a", "b"):
        of_pods.add(world, name, group=group)
    world.deliver_all()
    world.silent = (POD,)
    world.settle()
    assert of_pods.started(world) == ["a", "b"]
    drain(world)
    world.advance(2)
    assert of_pods.has(world, group or "a", "Evicted")
    assert of_pods.has(world, group or "a", "Admitted"), "nothing is released while the pods cannot be read"
    readable(world)
    world.advance(5)
    assert of_pods.started(world) == []
    world.silent = ()
    world.advance(5)
    assert not any(of_pods.has(world, name, "QuotaReserved") for name in of_pods.workloads(world))


def test_a_released_workload_that_the_watch_does_not_show_yet_starts_no_job() -> None:
    """The release of quota after a rejected start is performed, and its response is lost; then the start is allowed."""
    world = audited(a_world())
    delayed = Delayed(world, later=403)
    delayed.start = Patch(JOB, "ns", "a", {})  # every start is rejected
    add(world, "a")

    def loses_response(effect: Effect) -> bool:
        is_released = has(world, "a", "Evicted") and not has(world, "a", "QuotaReserved")
        world.silent = (WORKLOAD,) if is_released else ()
        return isinstance(effect, Patch | Get) and effect.resource == WORKLOAD and is_released

    world.loses_response = loses_response
    world.settle()
    assert world.silent == (WORKLOAD,)
    world.refuse = lambda effect: None
    world.advance(0.5)
    assert running(world) == []
    readable(world)
    world.silent = ()
    world.advance(20)
    assert running(world) == ["a"]
