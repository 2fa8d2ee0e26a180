"""Starts that may still be performed: quota is kept until they cannot, and it is not kept forever."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import UNREACHABLE, Effect, EffectResponse, Get, Patch
from headgate.controllers.framework.mutation_cache import ObservedVersion
from headgate.jobs.framework.open_starts import OpenStarts
from headgate.kube.api_resources import JOBS as JOB
from headgate.kube.api_resources import PODS as POD
from headgate.kube.decisions import Decision
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.audited import audited, of_quota_and_pods
from unit.jobs.fixtures import a_world, add, has, reasons, running
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import API, PODS

DENIED = 'admission webhook "policy.example.com" denied the request'


def is_ungating(effect: Effect, *names: str) -> bool:
    if not isinstance(effect, Patch) or effect.resource != POD or effect.name not in names:
        return False
    return "schedulingGates" in effect.body.get("spec", {})


def responses(world: CrashingWorld, respond: Any) -> None:
    """``respond``: returns the status and the message of a response in place of the server; None for the server's."""

    def refuse(effect: Effect) -> EffectResponse | None:
        found = respond(effect)
        return None if found is None else EffectResponse(found[0], {"message": found[1]}, world.server.epoch_s)

    world.refuse = refuse


class DelayedPod:
    """The first start of a pod does not arrive in time. All other starts of pods are rejected."""

    def __init__(self, world: CrashingWorld, name: str, *rejected: str) -> None:
        self.start: Effect | None = None
        self._world = world

        def respond(effect: Effect) -> tuple[int, str] | None:
            if self.start is None and is_ungating(effect, name):
                self.start = effect
                return UNREACHABLE, "time-out"
            return (403, DENIED) if is_ungating(effect, name, *rejected) else None

        responses(world, respond)

    def arrive(self) -> EffectResponse:
        assert self.start is not None
        self._world.refuse = lambda effect: None
        return self._world.perform(self.start)


def test_a_group_of_which_a_pod_may_have_been_started_keeps_its_quota() -> None:
    """The start of the first pod is performed, its response and the read are lost; that of the second is rejected."""
    world = audited(of_pods.a_world(cpu=2), counts=of_quota_and_pods)
    responses(world, lambda effect: (403, DENIED) if is_ungating(effect, "g-1") else None)
    world.loses_response = lambda effect: (
        is_ungating(effect, "g-0") or (isinstance(effect, Get) and effect.resource == POD and effect.name == "g-0")
    )
    of_pods.add_group(world, "g")
    world.deliver_all()
    world.silent = (POD,)
    world.advance(2)
    assert of_pods.started(world) == ["g-0"]
    assert of_pods.has(world, "g", "QuotaReserved")
    world.silent, world.loses_response = (), lambda effect: False
    world.advance(2)
    assert of_pods.started(world) == ["g-0"]
    assert of_pods.has(world, "g", "Admitted")


def test_a_group_of_which_a_pod_may_still_be_started_keeps_its_quota() -> None:
    world = audited(of_pods.a_world(cpu=2), counts=of_quota_and_pods)
    delayed = DelayedPod(world, "g-0", "g-1")
    of_pods.add_group(world, "g")
    world.advance(50)
    assert of_pods.has(world, "g", "QuotaReserved")
    assert of_pods.messages_of(world, "FailedToStart") != []
    assert delayed.arrive().ok
    world.advance(100)
    assert of_pods.started(world) == ["g-0", "g-1"]
    assert of_pods.condition(world, "g", "Evicted") == {}


def test_a_group_whose_start_can_no_longer_be_performed_releases_its_quota() -> None:
    world = of_pods.a_world(cpu=2)
    DelayedPod(world, "g-0", "g-1")
    of_pods.add_group(world, "g")
    world.advance(115)
    assert of_pods.has(world, "g", "QuotaReserved")
    world.advance(200)
    assert of_pods.has(world, "g", "Evicted")
    assert not of_pods.has(world, "g", "QuotaReserved")


def test_an_evicted_pod_that_may_still_be_started_keeps_its_quota() -> None:
    world = audited(of_pods.a_world(cpu=1), counts=of_quota_and_pods)
    delayed = DelayedPod(world, "a")
    of_pods.add(world, "a")
    world.settle()
    assert world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"stopPolicy": "HoldAndDrain"}}).status == 200
    world.advance(50)
    assert of_pods.has(world, "a", "Evicted")
    assert of_pods.has(world, "a", "QuotaReserved")
    assert delayed.arrive().ok
    world.advance(5)
    assert of_pods.started(world) == []
    assert not any(of_pods.has(world, name, "QuotaReserved") for name in of_pods.workloads(world))


def test_an_evicted_pod_whose_start_was_never_sent_releases_its_quota_at_once() -> None:
    world = audited(of_pods.a_world(cpu=1), counts=of_quota_and_pods)

    def refuse_connection(effect: Effect) -> EffectResponse | None:
        if not is_ungating(effect, "a"):
            return None
        return EffectResponse(UNREACHABLE, {"message": "connection refused"}, world.server.epoch_s, was_sent=False)

    world.refuse = refuse_connection
    of_pods.add(world, "a")
    world.settle()
    assert of_pods.has(world, "a", "QuotaReserved")
    assert world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"stopPolicy": "HoldAndDrain"}}).status == 200
    world.advance(40)
    assert not any(of_pods.has(world, name, "QuotaReserved") for name in of_pods.workloads(world))


def test_a_late_start_of_a_changed_pod_has_a_conflict() -> None:
    world = of_pods.a_world(cpu=1)
    delayed = DelayedPod(world, "a")
    of_pods.add(world, "a")
    world.settle()
    assert world.server.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}}).status == 200
    assert delayed.arrive().conflict


def test_a_changed_pod_is_started_at_once() -> None:
    """The watch is late: the start has a conflict, and the pod is read."""
    world = of_pods.a_world(cpu=1)
    of_pods.add(world, "a")
    world.deliver_all()
    world.silent = (POD,)
    assert world.server.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}}).status == 200
    world.settle()
    assert of_pods.started(world) == ["a"]


def test_a_job_whose_start_cannot_be_withdrawn_releases_its_quota_later() -> None:
    """The outcome of the first start is unknown; then a webhook denies every update of the job."""
    decisions: list[Decision] = []
    world = audited(a_world(decided=decisions.append))
    outcomes = iter([(500, "etcd is slow")])
    responses(
        world,
        lambda effect: next(outcomes, (403, DENIED)) if isinstance(effect, Patch) and effect.resource == JOB else None,
    )
    add(world, "a")
    world.advance(100)
    assert has(world, "a", "QuotaReserved"), "the first start may still be performed"
    assert "FailedToStart" in reasons(world)
    assert "refused" in [each.verb for each in decisions]
    world.advance(200)
    assert has(world, "a", "Evicted")
    assert not has(world, "a", "QuotaReserved")
    world.refuse = lambda effect: None
    world.advance(70)
    assert running(world) == ["a"]


def test_only_a_read_settles_an_old_start() -> None:
    """The start is performed late; then neither the watch nor a read shows it."""
    world = audited(a_world())
    starts: list[Effect] = []
    is_performed = False

    def respond(effect: Effect) -> tuple[int, str] | None:
        if is_performed and isinstance(effect, Get) and effect.resource == JOB:
            return 503, "no"
        if not isinstance(effect, Patch) or effect.resource != JOB:
            return None
        starts.append(effect)
        return (UNREACHABLE, "time-out") if len(starts) == 1 else (403, DENIED)

    responses(world, respond)
    add(world, "a")
    world.advance(50)
    world.silent = (JOB,)
    world.refuse = lambda effect: None
    assert world.perform(starts[0]).ok
    is_performed = True
    responses(world, respond)
    world.advance(300)
    assert running(world) == ["a"]
    assert has(world, "a", "Admitted")
    world.refuse = lambda effect: None
    world.advance(90)
    assert running(world) == ["a"]
    assert has(world, "a", "Admitted")


@pytest.mark.parametrize(("version", "now_s", "is_open"), [("1", 200, True), ("1", 220.5, False), ("2", 101, False)])
def test_a_start_is_open_until_a_later_version_or_a_late_read(version: str, now_s: float, is_open: bool) -> None:
    starts = OpenStarts()
    starts.add(ObservedVersion("u", "1"), 100)
    obj = {"metadata": {"uid": "u", "resourceVersion": version}}
    starts.settle(obj, now_s)
    assert starts.is_open(obj) is is_open
