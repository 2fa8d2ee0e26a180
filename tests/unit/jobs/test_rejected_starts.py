"""Another admission plugin rejects the start of an admitted job or pod: its quota is released, and it is retried."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import Effect, EffectResponse, Patch
from headgate.kube import conditions
from headgate.kube.api_resources import JOBS as JOB
from headgate.kube.api_resources import PODS as POD
from headgate.kube.timestamps import parse_time
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.world import World
from unit.jobs import fixtures as stage
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import PREEMPTION

DENIED = 'admission webhook "policy.example.com" denied the request: not on a Monday'


class Plugin:
    """Refuses the removal of gates and of suspension, for the names that it was told."""

    def __init__(self, world: World, *names: str, status: int = 403) -> None:
        self.names = set(names)
        self.refused = 0
        self._world = world
        self._status = status
        world.refuse = self

    def __call__(self, effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or effect.name not in self.names or effect.subresource:
            return None
        spec = effect.body.get("spec", {})
        lifts = effect.resource == POD and "schedulingGates" in spec
        if not lifts and not (effect.resource == JOB and spec.get("suspend") is False):
            return None
        self.refused += 1
        if self._status == 200:
            live = self._world.server.get(effect.resource.object_path(effect.namespace, effect.name)).body
            return EffectResponse(200, live, self._world.server.epoch_s)
        return EffectResponse(self._status, {"message": DENIED}, self._world.server.epoch_s)


def status_of(world: CrashingWorld, name: str) -> dict[str, Any]:
    found: dict[str, Any] = of_pods.workloads(world)[name]["status"]
    return found


@pytest.mark.parametrize("status", [403, 422, 500, 200])
def test_a_pod_whose_ungating_is_rejected_releases_its_quota_and_reports_why(status: int) -> None:
    world = of_pods.a_world(cpu=1)
    plugin = Plugin(world, "a", status=status)
    of_pods.add(world, "a")
    of_pods.add(world, "b")
    world.settle()
    assert of_pods.started(world) == ["b"], "others get the quota"
    told = status_of(world, "a")
    assert "admission" not in told
    evicted = conditions.find(told["conditions"], "Evicted") or {}
    assert (evicted["status"], evicted["reason"]) == ("True", "StartRefused")
    assert ("the server kept what it had" if status == 200 else DENIED) in evicted["message"]
    assert not conditions.is_true(told["conditions"], "QuotaReserved")
    assert told["schedulingStats"]["evictions"] == [{"reason": "StartRefused", "underlyingCause": "", "count": 1}]
    assert plugin.refused == 1
    assert len(of_pods.messages_of(world, "FailedToStart")) == 1
    assert of_pods.messages_of(world, "EvictedDueToStartRefused") == [evicted["message"]]


def test_the_start_is_retried_with_back_off_and_succeeds_when_the_plugin_allows_it() -> None:
    world = of_pods.a_world(cpu=1)
    plugin = Plugin(world, "a")
    of_pods.add(world, "a")
    world.advance(100)
    assert 5 <= plugin.refused <= 8, "after 1, 2, 4, 8, 16, 32 seconds"
    until_s = parse_time(status_of(world, "a")["requeueState"]["requeueAt"])
    assert isinstance(until_s, float | int)
    assert world.server.epoch_s < until_s <= world.server.epoch_s + 64
    plugin.names.clear()
    world.advance(70)
    assert of_pods.started(world) == ["a"]
    assert of_pods.has(world, "a", "Admitted")
    assert not of_pods.has(world, "a", "Evicted")


def test_an_unreachable_server_does_not_release_quota() -> None:
    world = of_pods.a_world(cpu=1)
    failures = iter(range(3))

    def refuse(effect: Effect) -> EffectResponse | None:
        is_start = isinstance(effect, Patch) and "schedulingGates" in effect.body.get("spec", {})
        if not is_start or next(failures, None) is None:
            return None
        return EffectResponse(500, {"message": "failed calling webhook"}, world.server.epoch_s)

    world.refuse = refuse
    of_pods.add(world, "a")
    world.advance(5)
    assert of_pods.started(world) == ["a"]
    assert of_pods.condition(world, "a", "Evicted") == {}


def test_a_group_of_which_no_pod_may_start_releases_its_quota() -> None:
    world = of_pods.a_world(cpu=2)
    plugin = Plugin(world, "g-0", "g-1")
    of_pods.add_group(world, "g")
    of_pods.add(world, "b")
    world.settle()
    assert of_pods.started(world) == ["b"]
    plugin.names.clear()
    of_pods.end(world, "b", "Succeeded")
    world.advance(5)
    assert of_pods.started(world) == ["b", "g-0", "g-1"]


def test_a_group_with_running_pods_keeps_its_quota_and_retries_the_others() -> None:
    world = of_pods.a_world(cpu=2)
    plugin = Plugin(world, "g-1")
    of_pods.add_group(world, "g")
    world.advance(5)
    assert of_pods.started(world) == ["g-0"]
    assert of_pods.has(world, "g", "Admitted")
    plugin.names.clear()
    world.advance(30)
    assert of_pods.started(world) == ["g-0", "g-1"]


def test_after_a_start_the_back_off_of_a_job_is_reset() -> None:
    world = stage.a_world(cpu=1, **PREEMPTION)
    plugin = Plugin(world, "a")
    stage.add(world, "a", priority="low")
    world.advance(100)
    plugin.names.clear()
    world.advance(70)
    assert stage.running(world) == ["a"]
    plugin.names.add("a")
    plugin.refused = 0
    stage.add(world, "h", priority="high", ends=True)
    world.advance(10)
    assert stage.is_complete(world, "h")
    assert plugin.refused >= 3, "after 1 and 2 seconds, and not after a minute"


def test_after_a_start_the_back_off_of_a_group_is_reset() -> None:
    world = of_pods.a_world(cpu=2, kubelet=of_pods.SlowKubelet, **PREEMPTION)
    plugin = Plugin(world, "g-0", "g-1")
    of_pods.add_group(world, "g", priority="low", grace_s=30)
    world.advance(100)
    plugin.names.clear()
    world.advance(70)
    assert of_pods.started(world) == ["g-0", "g-1"]
    of_pods.add(world, "h", cpu="2", priority="high", ends="Succeeded")
    world.advance(2)
    plugin.names |= {"x", "y"}
    plugin.refused = 0
    for name in ("x", "y"):
        of_pods.add(world, name, group="g", priority="low")
    world.advance(40)
    assert of_pods.pods(world)["h"]["status"]["phase"] == "Succeeded", "30 seconds later, when its victims have left"
    assert plugin.refused >= 2 * 3, "after 1 and 2 seconds, and not after a minute"


@pytest.mark.parametrize("status", [403, 200])
def test_a_job_whose_resume_is_rejected_releases_its_quota_and_reports_why(status: int) -> None:
    world = stage.a_world(cpu=1)
    plugin = Plugin(world, "a", status=status)
    stage.add(world, "a")
    stage.add(world, "b", ends=True)
    world.advance(0.5)
    assert stage.is_complete(world, "b"), "others get the quota"
    assert not stage.has(world, "a", "QuotaReserved")
    assert "FailedToStart" in stage.reasons(world)
    assert "EvictedDueToStartRefused" in stage.reasons(world)
    plugin.names.clear()
    world.advance(5)
    assert stage.running(world) == ["a", "b"]
