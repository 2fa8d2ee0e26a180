"""The life cycle of pods on hollow nodes, on a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.timestamps import format_time
from headgate.nodes.effects import DeletePod, PatchPodStatus
from headgate.nodes.options import HollowOptions
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod


def a_cluster(*objects: dict[str, Any], options: HollowOptions | None = None) -> FakeCluster:
    return FakeCluster(options).start().add(a_node(), *objects)


def container(cluster: FakeCluster, name: str = "p") -> dict[str, Any]:
    status: dict[str, Any] = cluster.status(name)["containerStatuses"][0]
    return status


def test_a_bound_pod_runs_and_is_ready() -> None:
    cluster = a_cluster(a_pod())
    assert cluster.status() == {
        "phase": "Running",
        "startTime": format_time(T0),
        "observedGeneration": 1,
        "hostIP": "172.16.0.1",
        "hostIPs": [{"ip": "172.16.0.1"}],
        "podIP": "10.1.1.1",
        "podIPs": [{"ip": "10.1.1.1"}],
        "conditions": [
            {"type": "PodScheduled", "status": "True", "observedGeneration": 1},
            *(
                {"type": kind, "status": "True", "observedGeneration": 1, "lastTransitionTime": format_time(T0)}
                for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
            ),
        ],
        "containerStatuses": [
            {
                "name": "c",
                "image": "img",
                "imageID": "img",
                "containerID": "hollow://u2/c",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": format_time(T0)}},
                "lastState": {},
                "resources": {"requests": {"cpu": "1"}},
                "allocatedResources": {"cpu": "1"},
            }
        ],
    }
    assert cluster.kinds().count("PatchPodStatus") == 1


def test_a_pod_completes_after_its_annotated_time() -> None:
    cluster = a_cluster(a_pod(annotations={"run-for": "30s"})).advance(29)
    assert cluster.phase() == "Running"
    cluster.advance(1)
    assert cluster.phase() == "Succeeded"
    assert cluster.condition("Ready") == ("False", "PodCompleted")
    assert cluster.condition("ContainersReady") == ("False", "PodCompleted")
    assert cluster.condition("Initialized") == ("True", "PodCompleted")
    assert container(cluster)["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": format_time(T0),
        "finishedAt": format_time(T0 + 30),
        "containerID": "hollow://u2/c",
    }
    assert not container(cluster)["ready"]


def test_kwoks_own_annotation_is_honoured() -> None:
    pod = a_pod()
    pod["metadata"]["annotations"] = {"pod-complete.stage.kwok.x-k8s.io/delay": "5s"}
    assert a_cluster(pod).advance(5).phase() == "Succeeded"


def test_a_pod_fails_with_its_annotated_exit_code() -> None:
    cluster = a_cluster(a_pod(annotations={"run-for": "1m", "exit-code": "3"})).advance(60)
    assert cluster.phase() == "Failed"
    assert container(cluster)["state"]["terminated"]["exitCode"] == 3
    assert container(cluster)["state"]["terminated"]["reason"] == "Error"
    assert cluster.condition("Ready") == ("False", "PodFailed")


def test_pods_of_jobs_can_be_given_a_time_for_all() -> None:
    pods = a_pod("j", owner="batch/v1 Job"), a_pod("r", owner="apps/v1 ReplicaSet")
    cluster = a_cluster(*pods, options=HollowOptions(job_run_s=10)).advance(10)
    assert (cluster.phase("j"), cluster.phase("r")) == ("Succeeded", "Running")


@pytest.mark.parametrize(
    ("owner", "policy", "annotations", "phase"),
    [
        ("batch/v1 Job", "Never", {}, "Succeeded"),
        ("batch/v1 Job", "OnFailure", {}, "Succeeded"),
        ("batch/v1 Job", "Never", {"exit-code": "2"}, "Failed"),
        ("batch/v1 Job", "Never", {"run-for": "never"}, "Running"),
        ("batch/v1 Job", "Never", {"run-for": "1h"}, "Running"),
        ("batch/v1 Job", "Never", {"run-for": "nonsense"}, "Succeeded"),
        ("batch/v1 Job", "Always", {}, "Running"),
        ("batch.volcano.sh/v1alpha1 Job", "Never", {}, "Running"),
        ("kubeflow.org/v1 PyTorchJob", "OnFailure", {}, "Running"),
        ("apps/v1 ReplicaSet", "Always", {"run-for": "never"}, "Running"),
    ],
)
def test_pods_of_batch_jobs_end_after_a_second_unless_they_say_otherwise(
    owner: str, policy: str, annotations: dict[str, str], phase: str
) -> None:
    cluster = a_cluster(a_pod(owner=owner, restartPolicy=policy, annotations=annotations))
    assert cluster.phase() == "Running"
    cluster.advance(1)
    assert cluster.phase() == phase
    assert container(cluster)["restartCount"] == 0


def test_a_pod_without_an_owner_runs_until_it_is_deleted() -> None:
    assert a_cluster(a_pod()).advance(3600).phase() == "Running"


def test_a_failing_pod_with_restart_on_failure_backs_off_like_a_kubelet() -> None:
    cluster = a_cluster(a_pod(restartPolicy="OnFailure", annotations={"run-for": "1s", "exit-code": "1"}))
    cluster.advance(1)
    assert cluster.phase() == "Running"
    assert container(cluster)["restartCount"] == 1
    assert container(cluster)["lastState"]["terminated"]["exitCode"] == 1
    cluster.advance(1)
    assert container(cluster)["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=c pod=p_a(u2)",
    }
    assert cluster.phase() == "Running"
    assert cluster.condition("Ready") == ("False", "ContainersNotReady")
    cluster.advance(10)
    assert container(cluster)["restartCount"] == 2
    assert cluster.condition("Ready") == ("True", "")
    cluster.advance(1)
    assert "back-off 20s" in container(cluster)["state"]["waiting"]["message"]
    cluster.advance(3600)
    assert "back-off 5m0s" in container(cluster)["state"]["waiting"]["message"]


def test_a_pod_that_succeeds_ends_under_on_failure_and_starts_again_under_always() -> None:
    once = a_pod("once", restartPolicy="OnFailure", annotations={"run-for": "5s"})
    forever = a_pod("forever", restartPolicy="Always", annotations={"run-for": "5s"})
    cluster = a_cluster(once, forever).advance(5)
    assert (cluster.phase("once"), cluster.phase("forever")) == ("Succeeded", "Running")
    assert container(cluster, "forever")["restartCount"] == 1


def test_a_start_takes_its_time_and_is_reported() -> None:
    init = [{"name": "i", "image": "x"}]
    cluster = a_cluster(a_pod(annotations={"start-after": "10s"}, initContainers=init))
    assert cluster.phase() == "Pending"
    assert container(cluster)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert cluster.condition("Initialized") == ("False", "ContainersNotInitialized")
    assert "podIP" not in cluster.status()
    cluster.advance(10)
    assert cluster.phase() == "Running"
    assert cluster.condition("Initialized") == ("True", "")
    assert container(cluster)["state"] == {"running": {"startedAt": format_time(T0 + 10)}}


def test_init_containers_are_done_and_sidecars_run() -> None:
    init = [{"name": "i", "image": "x"}, {"name": "s", "image": "y", "restartPolicy": "Always"}]
    cluster = a_cluster(a_pod(initContainers=init, annotations={"run-for": "5s"}))
    done, sidecar = cluster.status()["initContainerStatuses"]
    assert (done["ready"], done["state"]["terminated"]["exitCode"]) == (True, 0)
    assert (sidecar["ready"], sidecar["started"], "running" in sidecar["state"]) == (True, True, True)
    cluster.advance(5)
    assert cluster.phase() == "Succeeded"
    assert cluster.status()["initContainerStatuses"][1]["state"]["terminated"]["reason"] == "Completed"


def test_readiness_gates_are_opened() -> None:
    cluster = a_cluster(a_pod(readinessGates=[{"conditionType": "example.com/ok"}]))
    assert cluster.condition("example.com/ok") == ("True", "")
    assert cluster.condition("Ready") == ("True", "")


def test_addresses_are_unique_and_come_back() -> None:
    cluster = a_cluster(a_pod("p1"), a_pod("p2"), a_pod("h", hostNetwork=True))
    assert (cluster.status("p1")["podIP"], cluster.status("p2")["podIP"]) == ("10.1.1.1", "10.1.1.2")
    assert cluster.status("h")["podIP"] == cluster.status("h")["hostIP"]
    cluster.delete_pod("p1").add(a_pod("p3", cpu="0"))
    assert cluster.status("p3")["podIP"] == "10.1.1.3"


def test_more_pods_than_the_network_of_a_node_holds_still_get_addresses() -> None:
    node = a_node()
    node["spec"]["podCIDR"] = "10.9.0.0/30"
    cluster = FakeCluster().start().add(node, *(a_pod(f"p{number}", cpu="0") for number in range(4)))
    addresses = [cluster.status(f"p{number}")["podIP"] for number in range(4)]
    assert addresses == ["10.9.0.1", "10.9.0.2", "100.64.0.1", "100.64.0.2"]


def test_a_pod_that_does_not_fit_is_rejected_in_the_kubelets_words() -> None:
    cluster = a_cluster(a_pod("p1", cpu="3500m"), a_pod("p2", cpu="1"))
    assert cluster.phase("p1") == "Running"
    assert cluster.status("p2")["phase"] == "Failed"
    assert cluster.status("p2")["reason"] == "OutOfcpu"
    assert cluster.status("p2")["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000"
    )
    assert "containerStatuses" not in cluster.status("p2")
    cluster.add(a_pod("p3", cpu="500m"))
    assert cluster.phase("p3") == "Running"


def test_too_many_pods_are_rejected_before_anything_else() -> None:
    cluster = FakeCluster().start().add(a_node(pods="1"), a_pod("p1"), a_pod("p2", cpu="100"))
    assert cluster.status("p2")["reason"] == "OutOfpods"
    assert "requested: 1, used: 1, capacity: 1" in cluster.status("p2")["message"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"overhead": {"cpu": "3500m"}}, "OutOfcpu"),
        ({"resources": {"requests": {"memory": "9Gi"}}}, "OutOfmemory"),
        ({"resources": {"requests": {"cpu": "1"}}}, None),
        ({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "5"}}}]}, "OutOfcpu"),
        ({"initContainers": [{"name": "i", "resources": {"requests": {"example.com/gpu": "5"}}}]}, None),
    ],
)
def test_what_a_pod_asks_for_counts_as_a_kubelet_counts(spec: dict[str, Any], reason: str | None) -> None:
    cluster = a_cluster(a_pod(**spec))
    assert cluster.status().get("reason") == reason


def test_a_pod_that_ended_or_was_deleted_frees_its_capacity() -> None:
    cluster = a_cluster(a_pod("p1", cpu="4", annotations={"run-for": "10s"})).advance(10)
    cluster.add(a_pod("p2", cpu="4"))
    assert cluster.phase("p2") == "Running"
    cluster.delete_pod("p2").add(a_pod("p3", cpu="4"))
    assert cluster.phase("p3") == "Running"


def test_deleting_a_pod_stops_it_reports_the_end_and_then_removes_it() -> None:
    cluster = a_cluster(a_pod(), options=HollowOptions(stop_s=5))
    cluster.effects_done.clear()
    cluster.delete_pod("p")
    assert cluster.effects_done == []
    cluster.advance(4.9)
    assert cluster.phase() == "Running"
    cluster.advance(0.1)
    assert "p" not in cluster.pods
    last, gone = cluster.effects_done
    assert isinstance(last, PatchPodStatus)
    assert last.status["phase"] == "Succeeded"
    assert last.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert gone == DeletePod("a", "p", "u2")


def test_a_pod_that_stops_too_slowly_is_killed_at_the_end_of_its_grace() -> None:
    cluster = a_cluster(a_pod(annotations={"stop-after": "1h"}), options=HollowOptions(stop_s=0))
    cluster.effects_done.clear()
    cluster.delete_pod("p").advance(29)
    assert cluster.effects_done == []
    cluster.advance(1)
    last = cluster.effects_done[0]
    assert isinstance(last, PatchPodStatus)
    assert last.status["phase"] == "Failed"
    assert last.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_second_delete_with_less_grace_shortens_the_wait() -> None:
    cluster = a_cluster(a_pod(annotations={"stop-after": "1h"}))
    cluster.delete_pod("p", grace_s=600).advance(10).delete_pod("p", grace_s=5).advance(4)
    assert "p" in cluster.pods
    cluster.advance(1)
    assert "p" not in cluster.pods


def test_finalizers_are_not_waited_for() -> None:
    cluster = a_cluster(a_pod(finalizers=["batch.kubernetes.io/job-tracking"]))
    cluster.delete_pod("p")
    assert cluster.phase() == "Succeeded"
    assert cluster.pods["p"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert cluster.kinds().count("DeletePod") == 1
    cluster.edit(cluster.pods["p"])
    assert cluster.kinds().count("DeletePod") == 1


def test_a_pod_that_completes_while_it_stops_keeps_its_own_exit_code() -> None:
    cluster = a_cluster(a_pod(annotations={"run-for": "10s", "exit-code": "4", "stop-after": "20s"}))
    cluster.delete_pod("p").advance(10)
    assert "p" not in cluster.pods
    last = cluster.effects_done[-2]
    assert isinstance(last, PatchPodStatus)
    assert last.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


def test_a_deadline_fails_the_pod() -> None:
    cluster = a_cluster(a_pod(activeDeadlineSeconds=60)).advance(60)
    assert cluster.phase() == "Failed"
    assert cluster.status()["reason"] == "DeadlineExceeded"
    assert cluster.status()["message"] == "Pod was active on the node longer than the specified deadline"


def test_a_pod_made_again_under_its_name_is_a_new_pod() -> None:
    cluster = a_cluster(a_pod(annotations={"run-for": "10s"})).advance(5)
    cluster.add(a_pod(annotations={"run-for": "10s"}))
    cluster.advance(9)
    assert cluster.phase() == "Running"
    cluster.advance(1)
    assert cluster.phase() == "Succeeded"


def test_a_new_duration_counts_from_the_start() -> None:
    cluster = a_cluster(a_pod()).advance(100)
    cluster.pods["p"]["metadata"]["annotations"]["headgate.dev/run-for"] = "2m"
    cluster.edit(cluster.pods["p"]).advance(20)
    assert cluster.phase() == "Succeeded"


def test_a_pod_that_another_client_ended_is_not_changed() -> None:
    cluster = a_cluster(a_pod(cpu="4", annotations={"run-for": "10s"}))
    cluster.pods["p"]["status"] = {**cluster.status(), "phase": "Failed", "reason": "Evicted"}
    cluster.edit(cluster.pods["p"]).advance(60)
    assert cluster.status()["reason"] == "Evicted"
    cluster.add(a_pod("p2", cpu="4"))
    assert cluster.phase("p2") == "Running"


def test_a_fleet_that_starts_again_carries_on() -> None:
    runs = a_pod("runs", cpu="2", annotations={"run-for": "60s"})
    fails = a_pod("fails", cpu="1", restartPolicy="Always", annotations={"run-for": "1s", "exit-code": "1"})
    cluster = a_cluster(runs, fails).advance(30).add(a_pod("late", cpu="2"), quietly=True)
    address = cluster.status("runs")["podIP"]
    restarts = container(cluster, "fails")["restartCount"]
    cluster.restart()
    assert [effect.name for effect in cluster.effects_done if isinstance(effect, PatchPodStatus)] == ["late"]
    assert cluster.status("late")["reason"] == "OutOfcpu"  # pods that run already come first, however they are listed
    cluster.add(a_pod("more", cpu="0"))
    assert cluster.status("more")["podIP"] != address
    cluster.advance(30)
    assert cluster.phase("runs") == "Succeeded"
    cluster.advance(300)
    assert container(cluster, "fails")["restartCount"] > restarts


def test_a_write_that_failed_is_made_again_until_it_arrives() -> None:
    cluster = FakeCluster().start().add(a_node())
    cluster.broken = lambda effect: isinstance(effect, PatchPodStatus)
    cluster.add(a_pod())
    assert cluster.phase() == "Pending"
    cluster.advance(20)
    assert cluster.phase() == "Pending"
    cluster.broken = lambda effect: False
    cluster.advance(60)
    assert cluster.phase() == "Running"
    assert cluster.condition("Ready") == ("True", "")
    assert cluster.status()["startTime"] == format_time(T0)


def test_a_delete_that_failed_is_made_again() -> None:
    cluster = a_cluster(a_pod())
    cluster.broken = lambda effect: isinstance(effect, DeletePod)
    cluster.delete_pod("p").advance(10)
    assert "p" in cluster.pods
    cluster.broken = lambda effect: False
    cluster.advance(60)
    assert "p" not in cluster.pods


def test_an_idle_fleet_sets_no_timers_and_writes_nothing() -> None:
    cluster = a_cluster(*(a_pod(f"p{number}", cpu="0") for number in range(20)))
    cluster.effects_done.clear()
    assert cluster.kubelets.next_deadline_s() is None
    cluster.advance(86_400)
    assert cluster.effects_done == []
