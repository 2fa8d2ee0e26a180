"""Pods in Kueue's queues that run without an admission after an uninstallation: the next installation leaves them."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.jobs.explanation import explain_missing_pod_workload
from headgate.jobs.framework.release_mark import is_released
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.pods.fixtures import K, a_world, add, add_group, delete, end, is_gated, pods, started
from unit.jobs.queue_fixtures import PODS, PREEMPTION, WORKLOADS
from unit.jobs.uninstallation import uninstall


def _one_runs_one_waits(**world_options: Any) -> CrashingWorld:
    world = a_world(cpu=1, **world_options)
    for name in ("a", "b"):
        add(world, name, priority="low")
        world.advance(2)
    assert started(world) == ["a"]
    return world


def _reasons(world: CrashingWorld) -> list[str]:
    return [each.reason for each in world.emitted if each.component == "kueue-job-controller"]


@pytest.mark.parametrize("deletes_data", [False, True])
def test_running_pods_are_not_deleted_by_the_next_installation(deletes_data: bool) -> None:
    world = _one_runs_one_waits()
    lines = uninstall(world, deletes_data=deletes_data)
    assert "pod/ns/b marked: a later installation does not stop it" in lines
    assert f"pod/ns/b lost gate {K}/admission" in lines
    assert lines.index("pod/ns/b marked: a later installation does not stop it") < lines.index(
        f"pod/ns/b lost gate {K}/admission"
    ), "a pod without the mark would be deleted"
    world.emitted.clear()
    world.advance(60)
    assert started(world) == ["a", "b"]
    assert "RunsWithoutAdmission" in _reasons(world)
    assert is_released(pods(world)["a"]) == deletes_data, "its Workload is admitted unless it is deleted"
    for name in ("a", "b"):
        end(world, name, "Succeeded")
    world.advance(5)
    delete(world, "a", "b")
    world.advance(5)
    assert not pods(world), "nothing delays their deletion"


@pytest.mark.parametrize("deletes_data", [False, True])
def test_a_running_group_is_not_deleted_by_the_next_installation(deletes_data: bool) -> None:
    world = a_world(cpu=1)
    add_group(world, "g", 2)
    world.advance(2)
    assert started(world) == []
    uninstall(world, deletes_data=deletes_data)
    world.advance(60)
    assert started(world) == ["g-0", "g-1"]


def test_a_released_pod_gets_quota_when_there_is_some_and_can_be_preempted_from_then_on() -> None:
    world = _one_runs_one_waits(**PREEMPTION)
    uninstall(world)
    world.advance(5)
    delete(world, "a")
    world.advance(70)
    assert not is_released(pods(world)["b"])
    add(world, "high", priority="high")
    world.advance(5)
    assert started(world) == ["high"]


def test_pods_that_still_wait_are_queued_again() -> None:
    world = _one_runs_one_waits()
    uninstall(world, lifts_gates=False)
    assert is_released(pods(world)["b"])
    world.advance(5)
    assert is_gated(pods(world)["b"])
    assert not is_released(pods(world)["b"])
    delete(world, "a")
    world.advance(70)
    assert started(world) == ["b"]


def test_a_pod_whose_gate_a_user_lifts_while_headgate_is_not_installed_is_not_deleted() -> None:
    world = _one_runs_one_waits()
    uninstall(world, lifts_gates=False)
    world.server.patch(f"{PODS}/b", {"spec": {"schedulingGates": None}})
    world.advance(60)
    assert started(world) == ["a", "b"]


def test_a_pod_whose_gate_a_user_lifts_while_headgate_is_installed_is_deleted() -> None:
    world = _one_runs_one_waits()
    world.server.patch(f"{PODS}/b", {"spec": {"schedulingGates": None}})
    world.advance(60)
    assert "b" not in started(world)


def test_a_pod_of_a_template_that_no_webhook_saw_is_not_deleted() -> None:
    """The template of a Deployment has the label of managed pods, and no webhook gates its pods while there is none."""
    world = a_world(cpu=1)
    add(world, "a", gates=(), nodeName="n")
    world.server.patch(f"{PODS}/a", {"metadata": {"finalizers": None}})
    world.advance(60)
    assert started(world) == ["a"]
    (event,) = [each for each in world.emitted if each.reason == "RunsWithoutAdmission"]
    assert "no webhook was registered when it was created" in event.message
    assert not world.server.get(WORKLOADS).body["items"]
    explained = explain_missing_pod_workload(pods(world)["a"], None, 1)
    assert (explained.state, explained.summary) == ("released", event.message.partition(";")[0])


def test_a_new_pod_of_a_released_group_gets_quota_while_the_others_run() -> None:
    """The Workload is gone. A new one is created for the whole group, and counts the released pods, too."""
    world = a_world(cpu=2)
    add_group(world, "g", 2)
    world.advance(2)
    uninstall(world, deletes_data=True)
    world.advance(5)
    uids = {name: pod["metadata"]["uid"] for name, pod in pods(world).items()}
    end(world, "g-0", "Failed")
    add(world, "g-2", group="g", total=2)
    world.advance(5)
    assert started(world) == ["g-0", "g-1", "g-2"]
    assert pods(world)["g-1"]["metadata"]["uid"] == uids["g-1"], "it has not been replaced"
    (workload,) = world.server.get(WORKLOADS).body["items"]
    assert [each["count"] for each in workload["spec"]["podSets"]] == [2]
    assert not is_released(pods(world)["g-1"]), "it uses quota from now on"
    add(world, "other")
    world.advance(5)
    assert is_gated(pods(world)["other"]), "the group uses the whole queue"


@pytest.mark.parametrize("deletes_data", [False, True])
def test_a_replaced_pod_of_a_serving_group_gets_quota_while_the_other_replica_runs(deletes_data: bool) -> None:
    """As after `kubectl rollout restart` of a StatefulSet, which replaces one replica after the other."""
    serving = {f"{K}/pod-group-serving": "true", f"{K}/pod-group-fast-admission": "true"}
    world = a_world(cpu=2)
    add_group(world, "web", 2, annotations=serving)
    world.advance(2)
    assert started(world) == ["web-0", "web-1"]
    uninstall(world, deletes_data=deletes_data)
    world.advance(5)
    for name in ("web-1", "web-0"):
        delete(world, name)
        world.advance(70)
        add(world, name, group="web", total=2, annotations=serving)
        world.advance(5)
        assert started(world) == ["web-0", "web-1"]
    (workload,) = world.server.get(WORKLOADS).body["items"]
    (pod_set,) = workload["spec"]["podSets"]
    assert pod_set["count"] == 2
    assert "nodeSelector" not in pod_set["template"]["spec"], (
        "that of a running pod has the node selector of its flavor"
    )


def test_the_last_pod_of_a_group_that_was_incomplete_at_the_release_gets_quota() -> None:
    world = a_world(cpu=2)
    add(world, "g-0", group="g", total=2)
    world.advance(2)
    uninstall(world)
    world.advance(5)
    assert started(world) == ["g-0"]
    add(world, "g-1", group="g", total=2)
    world.advance(5)
    assert started(world) == ["g-0", "g-1"]


def test_released_pods_run_on_while_a_new_pod_of_their_group_waits_for_quota() -> None:
    world = a_world(cpu=1)
    add_group(world, "g", 2)
    world.advance(2)
    uninstall(world, deletes_data=True)
    world.advance(5)
    end(world, "g-0", "Failed")
    world.advance(5)
    add(world, "g-2", group="g", total=2)
    add(world, "g-3", group="g", total=2)
    world.advance(120)
    assert "g-1" in started(world)
    assert is_gated(pods(world)["g-2"]), "the group does not fit"
    assert "g-3" not in pods(world), "the group has a pod too many, and the one that waits is deleted"
    (workload,) = world.server.get(WORKLOADS).body["items"]
    world.server.delete(f"{WORKLOADS}/{workload['metadata']['name']}")
    world.advance(120)
    assert "g-1" in started(world), "neither the deletion of the Workload nor its eviction stops a released pod"
    assert is_gated(pods(world)["g-2"])
