"""A pod whose spec changes while it runs: its status has the observed generation, and a new deadline counts."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.timestamps import format_time
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod

KUBELETS_OWN = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}
MESSAGE = "Pod was active on the node longer than the specified deadline"


def a_cluster(*objects: dict[str, Any]) -> FakeCluster:
    return FakeCluster().start().add(a_node(), *objects)


def update(cluster: FakeCluster, generation: int, **spec: Any) -> FakeCluster:
    """What a client changes in the spec, with the generation that the server counts."""
    pod = cluster.pods["p"]
    pod["spec"] |= spec
    pod["metadata"]["generation"] = generation
    return cluster.edit(pod)


def seen_generations(cluster: FakeCluster) -> set[int]:
    own = [each for each in cluster.status()["conditions"] if each["type"] in KUBELETS_OWN]
    assert {each["type"] for each in own} == KUBELETS_OWN
    return {cluster.status()["observedGeneration"], *(each["observedGeneration"] for each in own)}


@pytest.mark.parametrize(
    "annotations",
    [{}, {"start-after": "1h"}, {"run-for": "1s", "exit-code": "1"}],
    ids=["running", "starting", "backing off"],
)
def test_the_observed_generation_follows_a_spec_update(annotations: dict[str, str]) -> None:
    cluster = a_cluster(a_pod(restartPolicy="OnFailure", annotations=annotations)).advance(2)
    phase, writes = cluster.phase(), len(cluster.effects_done)
    assert seen_generations(cluster) == {1}
    update(cluster, 2, tolerations=[{"operator": "Exists"}])
    assert seen_generations(cluster) == {2}
    assert cluster.phase() == phase
    assert len(cluster.effects_done) == writes + 1, "one write says it"
    cluster.edit(cluster.pods["p"])
    assert len(cluster.effects_done) == writes + 1, "what was said is not said again"


def test_times_of_conditions_stay_when_only_the_generation_is_new() -> None:
    cluster = a_cluster(a_pod()).advance(60)
    before = {each["type"]: each.get("lastTransitionTime") for each in cluster.status()["conditions"]}
    update(cluster, 2)
    assert {each["type"]: each.get("lastTransitionTime") for each in cluster.status()["conditions"]} == before


def test_a_pod_that_was_created_with_a_node_gets_the_condition_pod_scheduled() -> None:
    pod = a_pod()
    pod["status"] = {"phase": "Pending"}
    cluster = a_cluster(pod).advance(60)
    (scheduled,) = [each for each in cluster.status()["conditions"] if each["type"] == "PodScheduled"]
    assert scheduled == {
        "type": "PodScheduled",
        "status": "True",
        "observedGeneration": 1,
        "lastTransitionTime": format_time(T0),
    }


def test_a_pod_that_stops_slowly_has_seen_its_deletion() -> None:
    cluster = a_cluster(a_pod(annotations={"stop-after": "10s"}))
    cluster.pods["p"]["metadata"] |= {"generation": 2}
    cluster.delete_pod("p")
    assert cluster.phase() == "Running"
    assert seen_generations(cluster) == {2}


def test_a_kubelet_that_starts_again_reports_the_generation_that_it_missed() -> None:
    cluster = a_cluster(a_pod())
    cluster.pods["p"]["metadata"]["generation"] = 3
    cluster.restart()
    assert seen_generations(cluster) == {3}
    cluster.restart()
    assert "PatchPodStatus" not in cluster.kinds()


def test_a_pod_that_is_rejected_has_been_seen() -> None:
    cluster = a_cluster(a_pod(cpu="100"))
    assert cluster.status()["reason"] == "OutOfcpu"
    assert cluster.status()["observedGeneration"] == 1


def test_a_deadline_that_is_set_later_counts_from_the_start_time() -> None:
    cluster = a_cluster(a_pod()).advance(60)
    update(cluster, 2, activeDeadlineSeconds=90)
    cluster.advance(29)
    assert cluster.phase() == "Running"
    cluster.advance(1)
    status = cluster.status()
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "DeadlineExceeded", MESSAGE)


def test_a_deadline_that_is_set_when_it_has_passed_ends_the_pod_at_once() -> None:
    cluster = a_cluster(a_pod()).advance(60)
    update(cluster, 2, activeDeadlineSeconds=5)
    assert (cluster.phase(), cluster.status()["reason"]) == ("Failed", "DeadlineExceeded")
    assert cluster.status()["observedGeneration"] == 2


def test_a_deadline_can_be_shortened() -> None:
    cluster = a_cluster(a_pod(activeDeadlineSeconds=3600)).advance(10)
    update(cluster, 2, activeDeadlineSeconds=30)
    cluster.advance(19)
    assert cluster.phase() == "Running"
    cluster.advance(1)
    assert (cluster.phase(), cluster.status()["reason"]) == ("Failed", "DeadlineExceeded")


@pytest.mark.parametrize(
    "annotations", [{"start-after": "1h"}, {"run-for": "1s", "exit-code": "1"}], ids=["starting", "backing off"]
)
def test_a_deadline_that_is_set_later_ends_pods_that_do_not_run_now(annotations: dict[str, str]) -> None:
    cluster = a_cluster(a_pod(restartPolicy="OnFailure", annotations=annotations)).advance(2)
    update(cluster, 2, activeDeadlineSeconds=4)
    cluster.advance(2)
    status = cluster.status()
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "DeadlineExceeded", MESSAGE)
    assert cluster.condition("Ready") == ("False", "PodFailed")


def test_a_deadline_counts_from_the_start_time_after_the_kubelet_started_again() -> None:
    cluster = a_cluster(a_pod(activeDeadlineSeconds=30)).advance(20)
    cluster.restart()
    cluster.advance(9)
    assert cluster.phase() == "Running"
    cluster.advance(1)
    assert cluster.status()["reason"] == "DeadlineExceeded"
