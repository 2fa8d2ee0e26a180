"""Quota is released early and pods start late: an admitted pod keeps its gate while terminating pods use its quota."""

from __future__ import annotations

import msgspec
import pytest

from headgate.controllers.framework.reconcile import Done, ReconcileSteps
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.api.pods_ready import WaitForPodsReady
from headgate.quota.api.quota_reservation import SKEW_S
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.kubelet import Kubelet
from unit.controllers.world import World
from unit.jobs.pods.fixtures import (
    K,
    SlowKubelet,
    a_world,
    add,
    add_group,
    condition,
    delete,
    has,
    is_gated,
    messages_of,
    pods,
    started,
    workloads,
)
from unit.jobs.queue_fixtures import API, PODS, PREEMPTION

WAITS = "WaitingForTerminatingPods"
OFF = FeatureGates(start_after_terminating_pods=False)


class SilentKubelet(Kubelet):
    """A node that does not answer: pods that run never end."""

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        pod = self._pods.get(key)
        if pod is not None and "deletionTimestamp" in pod["metadata"]:
            yield from ()
            return Done()
        return (yield from super().reconcile(key, now_s))


def preempting(kubelet: type[Kubelet] = SlowKubelet, grace_s: int = 60) -> CrashingWorld:
    """A pod of one CPU took the place of another one, which ends in so many seconds."""
    world = a_world(cpu=1, kubelet=kubelet, **PREEMPTION)
    add(world, "low", priority="low", grace_s=grace_s)
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(2)
    assert has(world, "high", "Admitted")
    assert has(world, "high", WAITS)
    assert is_gated(pods(world)["high"])
    return world


def set_quota(world: World, cpu: int) -> None:
    queue: Wire = world.server.get(f"{API}/clusterqueues/cq").body
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = str(cpu)
    assert world.server.put(f"{API}/clusterqueues/cq", queue).status == 200
    world.advance(1)


def test_a_started_pod_carries_its_reservation() -> None:
    world = a_world(cpu=1)
    add(world, "a")
    world.advance(1)
    found = msgspec.json.decode(pods(world)["a"]["metadata"]["annotations"]["headgate.dev/quota-reservation"])
    assert found == {
        "workload": workloads(world)["a"]["metadata"]["uid"],
        "clusterQueue": "cq",
        "localQueue": "lq",
        "flavors": {"cpu": "default"},
        "reservedAt": condition(world, "a", "QuotaReserved")["lastTransitionTime"],
    }


def test_the_condition_and_events_name_the_terminating_pods() -> None:
    world = preempting()
    shown = condition(world, "high", WAITS)
    assert (shown["status"], shown["reason"]) == ("True", "QuotaReleasedEarly")
    assert "1 terminating pod(s)" in shown["message"]
    assert ", such as ns/low (waited for until 20" in shown["message"]
    told = [each for each in world.emitted if each.reason == WAITS]
    assert {each.about["kind"] for each in told} == {"Workload", "Pod"}
    world.advance(70)
    shown = condition(world, "high", WAITS)
    assert (shown["status"], shown["reason"]) == ("False", "TerminatingPodsLeft")
    assert started(world) == ["high"]
    assert len(messages_of(world, "Started")) == 2, "each once"


def test_a_pod_that_fits_beside_the_terminating_ones_starts_at_once() -> None:
    world = a_world(cpu=3, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "old")
    world.advance(2)
    delete(world, "old")
    add(world, "new", cpu="2")
    world.advance(1)
    assert started(world) == ["new"]
    assert not condition(world, "new", WAITS), "nothing is said where nothing is waited for"


def test_a_force_deleted_victim_ends_the_wait() -> None:
    world = preempting(SilentKubelet)
    assert world.server.delete(f"{PODS}/low", {"gracePeriodSeconds": 0}).status == 200
    world.settle()
    assert "low" not in pods(world)
    assert started(world) == ["high"]


def test_a_victim_on_a_silent_node_is_waited_for_until_it_is_overdue() -> None:
    world = preempting(SilentKubelet)
    world.advance(58)
    assert started(world) == []
    world.advance(5)
    assert "low" in pods(world)
    assert started(world) == ["high"]


def test_a_victim_that_ended_and_is_kept_by_a_finalizer_of_others_is_not_waited_for() -> None:
    world = a_world(cpu=1, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "low", priority="low", grace_s=20)
    world.advance(2)
    kept = {"metadata": {"finalizers": [f"{K}/managed", "example.com/kept"]}}
    assert world.server.patch(f"{PODS}/low", kept).status == 200
    add(world, "high", priority="high")
    world.advance(10)
    assert started(world) == []
    world.advance(15)
    assert pods(world)["low"]["status"]["phase"] == "Failed"
    assert started(world) == ["high"]


def test_a_recreated_victim_is_another_pod() -> None:
    world = preempting(SilentKubelet)
    world.server.delete(f"{PODS}/low", {"gracePeriodSeconds": 0})
    add(world, "low", priority="low")
    world.advance(2)
    assert started(world) == ["high"]
    assert is_gated(pods(world)["low"])


def test_a_deleted_preemptor_leaves_its_quota_to_the_next() -> None:
    world = preempting()
    add(world, "next", priority="high")
    world.advance(1)
    assert not has(world, "next", "QuotaReserved")
    delete(world, "high")
    world.advance(2)
    assert has(world, "next", "Admitted")
    assert started(world) == [], "the first victim still ends"
    world.advance(70)
    assert started(world) == ["next"]


def test_a_preemptor_that_is_evicted_while_it_waits_starts_after_its_next_admission() -> None:
    world = preempting()
    stopped = {"spec": {"stopPolicy": "HoldAndDrain"}}
    world.server.patch(f"{API}/clusterqueues/cq", stopped)
    world.advance(2)
    assert not has(world, "high", "QuotaReserved")
    assert not has(world, "high", WAITS)
    assert is_gated(pods(world)["high"])
    world.advance(70)
    assert started(world) == []
    world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"stopPolicy": "None"}})
    world.advance(2)
    assert started(world) == ["high"]


def test_increased_quota_starts_waiting_pods() -> None:
    world = preempting()
    set_quota(world, 2)
    assert "low" in pods(world)
    assert started(world) == ["high"]


def test_decreased_quota_does_not_block_waiting_pods_forever() -> None:
    world = a_world(cpu=2, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "stays", priority="high")
    add(world, "low", priority="low")
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(2)
    assert has(world, "high", WAITS)
    set_quota(world, 1)
    assert started(world) == ["stays"]
    world.advance(70)
    assert started(world) == ["high", "stays"], "no terminating pod is left to wait for"


def test_a_second_preemptor_starts_when_the_second_victim_has_left() -> None:
    world = a_world(cpu=2, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "slow", priority="low", grace_s=300)
    add(world, "quick", priority="low", grace_s=30)
    world.advance(2)
    add(world, "one", priority="high")
    add(world, "two", priority="high")
    world.advance(2)
    assert started(world) == []
    world.advance(40)
    assert started(world) == ["one"], "what one victim left is enough for one"
    world.advance(270)
    assert started(world) == ["one", "two"]


def test_a_gang_starts_whole_when_the_last_of_its_victims_has_left() -> None:
    world = a_world(cpu=2, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "slow", priority="low", grace_s=90)
    add(world, "quick", priority="low", grace_s=30)
    world.advance(2)
    add_group(world, "gang", priority="high")
    world.advance(60)
    assert sorted(pods(world)) == ["gang-0", "gang-1", "slow"]
    assert has(world, "gang", "Admitted")
    assert started(world) == [], "capacity for one of two is not enough"
    world.advance(40)
    assert started(world) == ["gang-0", "gang-1"]


def test_pods_that_begin_to_terminate_later_do_not_prolong_the_wait() -> None:
    """Otherwise a large workload would never start in a queue where small ones come and go."""
    world = a_world(cpu=3, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "victim", priority="low", cpu="2", grace_s=30)
    add(world, "other", priority="high", grace_s=600)
    world.advance(2)
    add(world, "large", priority="high", cpu="2")
    world.advance(20)
    delete(world, "other")
    add(world, "small", priority="high")
    world.advance(30)
    assert started(world) == ["large"]
    assert has(world, "small", WAITS), "it uses what the other one released"


def test_a_large_workload_starts_although_small_ones_took_what_its_first_victim_freed() -> None:
    world = a_world(cpu=3, kubelet=SlowKubelet, **PREEMPTION)
    for name, priority, grace_s in (("quick", "low", 30), ("slow", "low", 60), ("other", "high", 600)):
        add(world, name, priority=priority, grace_s=grace_s)
    world.advance(2)
    add(world, "large", priority="high", cpu="2")
    world.advance(SKEW_S + 5)
    delete(world, "other")
    add(world, "small", priority="high")
    world.advance(30)
    assert started(world) == ["small"]
    world.advance(30)
    assert sorted(pods(world)) == ["large", "other", "small"]
    assert started(world) == ["large", "small"], "the other one began to terminate after the reservation"


def test_a_replacement_waits_for_the_pod_whose_place_it_takes() -> None:
    world = a_world(cpu=2, kubelet=SlowKubelet)
    add_group(world, "g")
    world.advance(2)
    delete(world, "g-0")
    add(world, "new", group="g")
    world.advance(30)
    assert started(world) == ["g-1"]
    assert "ns/g-0" in messages_of(world, WAITS)[0]
    world.advance(40)
    assert started(world) == ["g-1", "new"]


def test_a_replacement_waits_no_longer_than_the_maximum_wait() -> None:
    world = a_world(cpu=2, kubelet=SilentKubelet, settings=JobSettings(max_wait_s=20.0))
    add_group(world, "g", grace_s=3600)
    world.advance(2)
    delete(world, "g-0")
    add(world, "new", group="g")
    world.advance(15)
    assert started(world) == ["g-1"]
    world.advance(15)
    assert started(world) == ["g-1", "new"]


def test_switched_off_a_replacement_takes_the_place_of_a_terminating_pod() -> None:
    world = a_world(cpu=2, features=OFF, kubelet=SlowKubelet)
    add_group(world, "g")
    world.advance(2)
    delete(world, "g-0")
    add(world, "new", group="g")
    world.advance(2)
    assert "g-0" in pods(world)
    assert started(world) == ["g-1", "new"]


@pytest.mark.parametrize("is_new_process", [False, True])
def test_with_the_feature_off_pods_start_with_their_admission(is_new_process: bool) -> None:
    world = preempting() if is_new_process else a_world(cpu=1, features=OFF, kubelet=SlowKubelet, **PREEMPTION)
    world._makers = (lambda: QuotaController(QuotaSettings(starts_after_terminating=False)), *world._makers[1:])
    world.crash()
    if not is_new_process:
        add(world, "low", priority="low")
        world.advance(2)
        add(world, "high", priority="high")
    world.advance(2)
    assert "low" in pods(world)
    assert started(world) == ["high"], "nothing is stranded"


def test_a_new_process_continues_the_wait() -> None:
    world = preempting()
    world.crash()
    world.advance(30)
    assert started(world) == []
    world.crash()
    world.advance(40)
    assert started(world) == ["high"]


def test_the_pods_ready_timeout_begins_when_pods_may_start() -> None:
    world = a_world(cpu=1, kubelet=SlowKubelet, **PREEMPTION)
    ready = QuotaSettings(pods_ready=WaitForPodsReady(timeout_s=20.0))
    world._makers = (lambda: QuotaController(ready), *world._makers[1:])
    world.crash()
    add(world, "low", priority="low")
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(50)
    assert has(world, "high", "Admitted")
    assert not messages_of(world, "EvictedDueToPodsReadyTimeout")
    world.advance(20)
    assert started(world) == ["high"]


def test_a_pod_of_a_namespace_without_the_queue_blocks_no_workload() -> None:
    """The annotation is data of users: a pod counts only where its namespace has a LocalQueue of the ClusterQueue."""
    world = a_world(cpu=1, kubelet=SilentKubelet, **PREEMPTION)
    assert world.server.post("/api/v1/namespaces", {"metadata": {"name": "others"}}).status == 201
    stamp = {"workload": "x", "clusterQueue": "cq", "localQueue": "lq", "flavors": {"cpu": "default"}}
    text = msgspec.json.encode({**stamp, "reservedAt": "2020-01-01T00:00:00Z"}).decode()
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "metadata": {
            "name": "forged",
            "annotations": {"headgate.dev/quota-reservation": text},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True}
            ],
        },
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 3600},
    }
    path = "/api/v1/namespaces/others/pods"
    assert world.server.post(path, pod).status == 201
    world.advance(1)
    world.server.delete(f"{path}/forged")
    add(world, "a")
    world.advance(1)
    assert world.server.get(f"{path}/forged").status == 200
    assert started(world) == ["a"]


def test_a_forged_pod_that_was_never_queued_blocks_no_workload() -> None:
    """The right to create pods is enough to write the annotation and a grace period of ten years."""
    world = a_world(cpu=1, kubelet=SilentKubelet, **PREEMPTION)
    stamp = {"workload": "x", "clusterQueue": "cq", "localQueue": "lq", "flavors": {"cpu": "default"}}
    text = msgspec.json.encode({**stamp, "reservedAt": "2020-01-01T00:00:00Z"}).decode()
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    pod = {
        "metadata": {"name": "forged", "annotations": {"headgate.dev/quota-reservation": text}},
        "spec": {"nodeName": "n", "containers": [container], "terminationGracePeriodSeconds": 315360000},
    }
    assert world.server.post(PODS, pod).status == 201
    world.advance(1)
    world.server.delete(f"{PODS}/forged")
    add(world, "a")
    world.advance(1)
    assert "deletionTimestamp" in pods(world)["forged"]["metadata"]
    assert not is_gated(pods(world)["a"])
