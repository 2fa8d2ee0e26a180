"""The quota of a group (KEP-6143) is released when the last pod terminates; gated groups."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.cli.wiring.controllers import template_hash
from headgate.controllers.deployments.controller import DeploymentController
from headgate.controllers.replica_sets.controller import ReplicaSetController
from headgate.jobs.pods.pod_controller import ManagedPodController
from headgate.kube.feature_gates import FeatureGates
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.pods.fixtures import (
    HELD_BY,
    SLOW,
    K,
    SlowKubelet,
    a_pod,
    a_world,
    add,
    add_group,
    condition,
    controller,
    delete,
    has,
    is_gated,
    messages_of,
    pods,
    reasons,
    started,
    workloads,
)
from unit.jobs.queue_fixtures import PODS, PREEMPTION, WORKLOADS, create

GATING = FeatureGates(scheduling_gated_by=True)


def evicted(features: FeatureGates | None = None) -> CrashingWorld:
    """A group of two is preempted for a pod, and takes a minute to end."""
    world = a_world(cpu=2, features=features, kubelet=SlowKubelet, **PREEMPTION)
    add_group(world, "low", priority="low")
    world.advance(2)
    add(world, "high", cpu="2", priority="high")
    world.advance(1)
    return world


def test_the_preemptor_is_admitted_while_the_victims_terminate() -> None:
    world = evicted()
    assert [each["status"]["phase"] for name, each in pods(world).items() if name != "high"] == ["Running"] * 2
    assert not has(world, "low", "QuotaReserved")
    assert "admission" not in workloads(world)["low"]["status"]
    assert condition(world, "low", "QuotaReserved")["reason"] == "PendingEvaluation"
    assert condition(world, "low", "Requeued")["status"] == "True"
    assert has(world, "low", "WaitingForReplacementPods")
    assert condition(world, "low", "WaitingForReplacementPods")["reason"] == "Preempted"
    assert has(world, "high", "Admitted")
    assert has(world, "high", "WaitingForTerminatingPods")
    assert started(world) == [], "no node has capacity yet"
    assert controller(world).terminating_released == 2
    world.advance(70)
    assert started(world) == ["high"]
    assert sorted(pods(world)) == ["high"], "nobody waits for a replacement to come"
    assert controller(world).terminating_released == 0


def test_with_slow_release_the_preemptor_waits_for_the_last_victim() -> None:
    world = evicted(SLOW)
    world.advance(55)
    assert has(world, "low", "QuotaReserved")
    assert started(world) == []
    world.advance(10)
    assert started(world) == ["high"]


def test_a_group_of_which_one_still_runs_holds_its_quota() -> None:
    world = a_world(cpu=2, kubelet=SlowKubelet)
    add_group(world, "g")
    add(world, "next")
    world.advance(2)
    delete(world, "g-0")
    world.advance(2)
    assert has(world, "g", "QuotaReserved")
    assert started(world) == ["g-1"]
    delete(world, "g-1")
    world.settle()
    assert not has(world, "g", "QuotaReserved")
    assert has(world, "g", "WaitingForReplacementPods")
    assert has(world, "next", "Admitted")
    assert started(world) == []
    world.advance(70)
    assert started(world) == ["next"]


def test_a_victim_is_requeued_only_when_enough_live_replacements_exist() -> None:
    """Upstream admits it again while its pods are dying, and then it holds quota that nobody uses."""
    world = evicted()
    delete(world, "high")
    world.advance(2)
    assert not has(world, "low", "QuotaReserved"), "those that terminate are absent"
    add(world, "x", group="low", priority="low")
    world.advance(2)
    assert not has(world, "low", "QuotaReserved"), "one of two"
    add(world, "y", group="low", priority="low")
    world.advance(2)
    assert has(world, "low", "Admitted")
    assert "deletionTimestamp" in pods(world)["low-0"]["metadata"], "the old ones still terminate"
    assert started(world) == []
    world.advance(70)
    assert started(world) == ["x", "y"]
    assert "ExcessPodDeleted" not in reasons(world)
    assert not has(world, "low", "WaitingForReplacementPods")


def test_with_slow_release_a_replacement_starts_when_its_predecessor_has_ended() -> None:
    world = a_world(cpu=2, features=SLOW, kubelet=SlowKubelet)
    add_group(world, "g")
    world.advance(2)
    delete(world, "g-0")
    add(world, "x", group="g")
    world.advance(30)
    assert started(world) == ["g-1"]
    world.advance(40)
    assert started(world) == ["g-1", "x"]


def test_many_preemptors_do_not_wait_for_each_others_victims() -> None:
    world = a_world(cpu=10, kubelet=SlowKubelet, **PREEMPTION)
    for number in range(10):
        add(world, f"low-{number}", priority="low")
    world.advance(2)
    for number in range(10):
        add(world, f"high-{number}", priority="high")
    world.advance(5)
    high = [f"high-{number}" for number in range(10)]
    assert all(has(world, name, "Admitted") for name in high)
    world.advance(70)
    assert [name for name in started(world) if name.startswith("high")] == high


# -- held back from above -------------------------------------------------------------------------------------------


def test_a_gated_pod_has_no_workload_keeps_its_gate_and_can_be_deleted() -> None:
    world = a_world(features=GATING)
    add(world, "a", annotations={HELD_BY: "example.com/mygate"})
    add(world, "b", annotations={HELD_BY: "example.com/mygate"})
    world.advance(20)
    assert not workloads(world)
    assert all(is_gated(each) for each in pods(world).values())
    assert (
        messages_of(world, "SchedulingGated")
        == ["No Workload is created while pods are gated by: example.com/mygate"] * 2
    )
    delete(world, "b")
    world.advance(1)
    assert list(pods(world)) == ["a"]
    world.server.patch(f"{PODS}/a", {"metadata": {"annotations": {HELD_BY: None}}})
    world.settle()
    assert started(world) == ["a"]


def test_a_group_is_held_until_no_pod_is_gated() -> None:
    world = a_world(features=GATING)
    add(world, "a", group="g", annotations={HELD_BY: "example.com/one"})
    add(world, "b", group="g", annotations={HELD_BY: "example.com/two"})
    world.advance(1)
    assert messages_of(world, "SchedulingGated")[-1].endswith("example.com/one, example.com/two")
    for name in ("a", "b"):
        assert not workloads(world)
        world.server.patch(f"{PODS}/{name}", {"metadata": {"annotations": {HELD_BY: None}}})
        world.advance(1)
    assert started(world) == ["a", "b"]


def test_with_the_feature_off_the_annotation_has_no_effect() -> None:
    world = a_world()
    add(world, "a", annotations={HELD_BY: "not a domain"})
    world.advance(1)
    assert started(world) == ["a"]


def test_enabling_gates_later_affects_pending_groups_and_not_admitted_ones() -> None:
    features = [FeatureGates()]
    world = a_world(cpu=1)
    world._makers = (*world._makers[:1], lambda: ManagedPodController(features[0]), *world._makers[2:])
    for name in ("a", "b"):
        add(world, name, annotations={HELD_BY: "example.com/g"})
        world.advance(1)
    assert started(world) == ["a"]
    features[0] = GATING
    world.crash()
    world.advance(5)
    assert started(world) == ["a"]
    assert list(workloads(world)) == ["a"]
    assert sorted(pods(world)) == ["a", "b"]


def test_pods_of_a_gated_deployment_wait_for_its_gate() -> None:
    numbers = iter(range(1000))
    world = a_world(
        features=GATING,
        others=(
            lambda: ReplicaSetController(lambda: f"{next(numbers):05d}"),
            lambda: DeploymentController(template_hash()),
        ),
    )
    pod = a_pod("ignored", annotations={f"{K}/pod-suspending-parent": "deployment"})
    labels = {**pod["metadata"]["labels"], "app": "web"}
    template = {"metadata": {"labels": labels, "annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    template["spec"] |= {"restartPolicy": "Always"}
    deployment: dict[str, Any] = {
        "metadata": {"name": "web", "annotations": {HELD_BY: "example.com/g"}, "labels": {f"{K}/queue-name": "lq"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    path = "/apis/apps/v1/namespaces/ns/deployments"
    create(world.server, path, deployment)
    world.advance(2)
    assert len(pods(world)) == 2
    assert not workloads(world)
    assert all(HELD_BY not in each["metadata"].get("annotations", {}) for each in pods(world).values())
    world.server.patch(f"{path}/web", {"metadata": {"annotations": {HELD_BY: None}}})
    world.advance(1)
    assert len(started(world)) == 2


@pytest.mark.parametrize("gone", ["example.com/a", "example.com/b"])
def test_an_admission_gate_of_one_pod_gates_the_group(gone: str) -> None:
    world = a_world()
    key = f"{K}/admission-gated-by"
    add(world, "x", group="g", annotations={key: "example.com/b"})
    add(world, "y", group="g", annotations={key: "example.com/a,example.com/b"})
    world.advance(1)
    assert workloads(world)["g"]["metadata"]["annotations"][key] == "example.com/a,example.com/b"
    assert started(world) == []
    left = "example.com/a" if gone.endswith("b") else "example.com/b"
    for name in ("x", "y"):
        world.server.patch(f"{PODS}/{name}", {"metadata": {"annotations": {key: left}}})
    world.advance(1)
    assert workloads(world)["g"]["metadata"]["annotations"][key] == left
    for name in ("x", "y"):
        world.server.patch(f"{PODS}/{name}", {"metadata": {"annotations": {key: None}}})
    world.advance(1)
    assert started(world) == ["x", "y"]
    assert world.server.get(f"{WORKLOADS}/g").body["metadata"]["annotations"] == {f"{K}/is-group-workload": "true"}
