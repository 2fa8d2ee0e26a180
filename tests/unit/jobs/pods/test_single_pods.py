"""A single pod in a queue: it is gated, runs when it is admitted, is preempted, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import Delete, Effect, EffectResponse
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates
from unit.jobs.pods.fixtures import (
    SLOW,
    K,
    SlowKubelet,
    a_world,
    add,
    condition,
    controller,
    delete,
    end,
    has,
    is_gated,
    messages_of,
    pods,
    reasons,
    started,
    workloads,
)
from unit.jobs.queue_fixtures import PODS, PREEMPTION, WORKLOADS


def test_a_pod_waits_and_runs_where_its_flavor_is_and_the_next_one_follows() -> None:
    world = a_world(cpu=1)
    add(world, "a")
    assert is_gated(pods(world)["a"])
    world.advance(1)
    add(world, "b", ends="Succeeded")
    world.advance(2)
    assert started(world) == ["a"]
    pod = pods(world)["a"]
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert {"key": "spot", "operator": "Exists"} in pod["spec"]["tolerations"]
    labels = pod["metadata"]["labels"]
    assert (labels[f"{K}/podset"], labels[f"{K}/cluster-queue-name"], labels[f"{K}/local-queue-name"]) == (
        "main",
        "cq",
        "lq",
    )
    made = workloads(world)["a"]
    assert made["metadata"]["name"].startswith("pod-a-")
    assert [(each["name"], each["count"]) for each in made["spec"]["podSets"]] == [("main", 1)]
    assert has(world, "a", "PodsReady")
    assert reasons(world) == ["CreatedWorkload", "Started", "CreatedWorkload"]
    assert messages_of(world, "Started") == ["Admitted by clusterQueue cq"]
    end(world, "a", "Succeeded")
    world.advance(5)
    for name in ("a", "b"):
        assert condition(world, name, "Finished")["reason"] == "Succeeded"
        assert "finalizers" not in pods(world)[name]["metadata"]
    delete(world, "a", "b")
    world.advance(5)
    assert not pods(world)
    assert not workloads(world)


def test_a_workload_that_has_lost_its_finalizer_gets_it_again_while_pods_wait_and_run() -> None:
    world = a_world(cpu=1)
    for name in ("runs", "waits"):
        add(world, name)
        world.advance(2)
    for each in workloads(world).values():
        world.server.patch(f"{WORKLOADS}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
    world.crash()
    world.advance(5)
    assert {name: each["metadata"].get("finalizers") for name, each in workloads(world).items()} == {
        "runs": [f"{K}/resource-in-use"],
        "waits": [f"{K}/resource-in-use"],
    }
    assert started(world) == ["runs"]


def test_an_unmanaged_pod_is_not_changed() -> None:
    world = a_world()
    add(world, "a", gates=())
    world.server.patch(f"{PODS}/a", {"metadata": {"labels": {f"{K}/managed": None}}})
    world.advance(2)
    assert not workloads(world)
    assert started(world) == ["a"]
    assert "finalizers" not in pods(world)["a"]["metadata"], "nobody would take it off later"


def test_a_running_pod_without_a_workload_gets_a_condition_and_is_deleted() -> None:
    world = a_world(kubelet=SlowKubelet)
    add(world, "a", gates=(), nodeName="n")
    world.advance(2)
    pod = pods(world)["a"]
    told = next(each for each in pod["status"]["conditions"] if each["type"] == "TerminationTarget")
    assert (told["status"], told["reason"]) == ("True", "NoMatchingWorkload")
    assert "deletionTimestamp" in pod["metadata"]
    world.advance(70)
    assert not pods(world)


@pytest.mark.parametrize("is_evicted", [True, False])
def test_quota_is_free_while_the_pod_still_terminates(is_evicted: bool) -> None:
    world = a_world(cpu=1, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    add(world, "high", priority="high" if is_evicted else "low")
    world.advance(1)
    if not is_evicted:
        delete(world, "low")
    world.advance(1)
    low = pods(world)["low"]
    assert low["status"]["phase"] == "Running"
    assert "deletionTimestamp" in low["metadata"]
    assert "finalizers" not in low["metadata"], "nobody waits for us"
    assert has(world, "high", "Admitted")
    assert started(world) == [], "no node has capacity yet"
    assert not has(world, "low", "QuotaReserved")
    assert controller(world).terminating_released == 1
    if is_evicted:
        told = next(each for each in low["status"]["conditions"] if each["type"] == "TerminationTarget")
        assert told["reason"] == "WorkloadEvictedDueToPreempted"
        assert "Preempted to accommodate a workload" in told["message"]
    world.advance(70)
    assert list(pods(world)) == ["high"]
    assert started(world) == ["high"]
    assert list(workloads(world)) == ["high"]
    assert controller(world).terminating_released == 0


def test_an_evicted_pod_keeps_its_grace_period() -> None:
    world = a_world(cpu=1, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "low", priority="low", grace_s=45)
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(1)
    assert pods(world)["low"]["metadata"]["deletionGracePeriodSeconds"] == 45
    world.advance(40)
    assert pods(world)["low"]["status"]["phase"] == "Running"


def test_an_evicted_pod_holds_its_quota_until_its_deletion_succeeds() -> None:
    """A decision to evict releases nothing: the pod has to terminate."""
    world = a_world(cpu=1, kubelet=SlowKubelet, **PREEMPTION)

    def refuse(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Delete) and effect.resource.plural == "pods":
            return EffectResponse(429, {"message": "later"}, world.server.epoch_s)
        return None

    world.refuse = refuse
    add(world, "low", priority="low")
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(10)
    assert has(world, "low", "Evicted")
    assert has(world, "low", "QuotaReserved")
    assert not has(world, "high", "QuotaReserved")
    world.refuse = lambda effect: None
    world.advance(60)
    assert has(world, "high", "Admitted")
    assert not has(world, "low", "QuotaReserved")


@pytest.mark.parametrize(
    ("features", "settings"),
    [(SLOW, JobSettings()), (FeatureGates(), JobSettings(quota_release={"pod": "OnTerminal"}))],
)
def test_quota_is_free_when_the_pod_has_ended_with_slow_release(features: FeatureGates, settings: JobSettings) -> None:
    world = a_world(cpu=1, features=features, settings=settings, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(30)
    assert started(world) == []
    assert has(world, "low", "QuotaReserved")
    world.advance(40)
    assert started(world) == ["high"]
    assert controller(world).terminating_released == 0


def test_a_stuck_pod_holds_its_quota_no_longer_than_its_grace_period() -> None:
    """Nobody says that time has passed: it is looked again by itself."""

    class NoKubelet(SlowKubelet):
        def _sync(self, pod: dict[str, Any], now_s: float) -> None:
            if "deletionTimestamp" not in pod["metadata"]:
                super()._sync(pod, now_s)

    world = a_world(cpu=1, features=SLOW, kubelet=NoKubelet, **PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(55)
    assert started(world) == []
    world.advance(10)
    assert pods(world)["low"]["status"]["phase"] == "Running"
    assert started(world) == ["high"]
    assert controller(world).terminating_released == 1


def test_a_deleted_gated_pod_is_removed_at_once_with_its_workload() -> None:
    world = a_world(cpu=1)
    add(world, "a", cpu="2")
    world.advance(1)
    delete(world, "a")
    world.advance(1)
    assert not pods(world)
    assert not workloads(world)


def test_a_deleted_workload_stops_its_pod() -> None:
    world = a_world()
    add(world, "a")
    world.advance(1)
    name = workloads(world)["a"]["metadata"]["name"]
    world.server.delete(f"{WORKLOADS}/{name}")
    world.advance(5)
    assert not pods(world)
    assert not workloads(world)


def test_a_workload_is_updated_from_its_gated_pod() -> None:
    world = a_world(cpu=1)
    add(world, "a", cpu="2", annotations={f"{K}/admission-gated-by": "example.com/a,example.com/b"})
    world.advance(1)
    assert workloads(world)["a"]["metadata"]["annotations"][f"{K}/admission-gated-by"] == "example.com/a,example.com/b"
    change = {"labels": {f"{K}/queue-name": "other"}, "annotations": {f"{K}/admission-gated-by": "example.com/b"}}
    world.server.patch(f"{PODS}/a", {"metadata": change})
    world.advance(1)
    made = workloads(world)["a"]
    assert made["spec"]["queueName"] == "other"
    assert made["metadata"]["annotations"][f"{K}/admission-gated-by"] == "example.com/b"
