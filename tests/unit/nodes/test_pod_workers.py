"""The life of pods on hollow nodes, told as small stories on a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.timestamps import format_time
from headgate.nodes.effects import DeletePod, PatchPodStatus
from headgate.nodes.options import HollowOptions
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod


def a_world(*objects: dict[str, Any], options: HollowOptions | None = None) -> FakeCluster:
    return FakeCluster(options).start().add(a_node(), *objects)


def container(world: FakeCluster, name: str = "p") -> dict[str, Any]:
    status: dict[str, Any] = world.status(name)["containerStatuses"][0]
    return status


def test_a_bound_pod_runs_and_is_ready() -> None:
    world = a_world(a_pod())
    assert world.status() == {
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
    assert world.kinds().count("PatchPodStatus") == 1


def test_a_pod_completes_after_its_annotated_time() -> None:
    world = a_world(a_pod(annotations={"run-for": "30s"})).advance(29)
    assert world.phase() == "Running"
    world.advance(1)
    assert world.phase() == "Succeeded"
    assert world.condition("Ready") == ("False", "PodCompleted")
    assert world.condition("ContainersReady") == ("False", "PodCompleted")
    assert world.condition("Initialized") == ("True", "PodCompleted")
    assert container(world)["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": format_time(T0),
        "finishedAt": format_time(T0 + 30),
        "containerID": "hollow://u2/c",
    }
    assert not container(world)["ready"]


def test_kwoks_own_annotation_is_honoured() -> None:
    pod = a_pod()
    pod["metadata"]["annotations"] = {"pod-complete.stage.kwok.x-k8s.io/delay": "5s"}
    assert a_world(pod).advance(5).phase() == "Succeeded"


def test_a_pod_fails_with_its_annotated_exit_code() -> None:
    world = a_world(a_pod(annotations={"run-for": "1m", "exit-code": "3"})).advance(60)
    assert world.phase() == "Failed"
    assert container(world)["state"]["terminated"]["exitCode"] == 3
    assert container(world)["state"]["terminated"]["reason"] == "Error"
    assert world.condition("Ready") == ("False", "PodFailed")


def test_pods_of_jobs_can_be_given_a_time_for_all() -> None:
    pods = a_pod("j", owner="batch/v1 Job"), a_pod("r", owner="apps/v1 ReplicaSet")
    world = a_world(*pods, options=HollowOptions(job_run_s=10)).advance(10)
    assert (world.phase("j"), world.phase("r")) == ("Succeeded", "Running")


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
    world = a_world(a_pod(owner=owner, restartPolicy=policy, annotations=annotations))
    assert world.phase() == "Running"
    world.advance(1)
    assert world.phase() == phase
    assert container(world)["restartCount"] == 0


def test_a_pod_without_an_owner_runs_until_it_is_deleted() -> None:
    assert a_world(a_pod()).advance(3600).phase() == "Running"


def test_a_failing_pod_with_restart_on_failure_backs_off_like_a_kubelet() -> None:
    world = a_world(a_pod(restartPolicy="OnFailure", annotations={"run-for": "1s", "exit-code": "1"}))
    world.advance(1)
    assert world.phase() == "Running"
    assert container(world)["restartCount"] == 1
    assert container(world)["lastState"]["terminated"]["exitCode"] == 1
    world.advance(1)
    assert container(world)["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=c pod=p_a(u2)",
    }
    assert world.phase() == "Running"
    assert world.condition("Ready") == ("False", "ContainersNotReady")
    world.advance(10)
    assert container(world)["restartCount"] == 2
    assert world.condition("Ready") == ("True", "")
    world.advance(1)
    assert "back-off 20s" in container(world)["state"]["waiting"]["message"]
    world.advance(3600)
    assert "back-off 5m0s" in container(world)["state"]["waiting"]["message"]


def test_a_pod_that_succeeds_ends_under_on_failure_and_starts_again_under_always() -> None:
    once = a_pod("once", restartPolicy="OnFailure", annotations={"run-for": "5s"})
    forever = a_pod("forever", restartPolicy="Always", annotations={"run-for": "5s"})
    world = a_world(once, forever).advance(5)
    assert (world.phase("once"), world.phase("forever")) == ("Succeeded", "Running")
    assert container(world, "forever")["restartCount"] == 1


def test_starting_takes_its_time_and_is_told() -> None:
    init = [{"name": "i", "image": "x"}]
    world = a_world(a_pod(annotations={"start-after": "10s"}, initContainers=init))
    assert world.phase() == "Pending"
    assert container(world)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert world.condition("Initialized") == ("False", "ContainersNotInitialized")
    assert "podIP" not in world.status()
    world.advance(10)
    assert world.phase() == "Running"
    assert world.condition("Initialized") == ("True", "")
    assert container(world)["state"] == {"running": {"startedAt": format_time(T0 + 10)}}


def test_init_containers_are_done_and_sidecars_run() -> None:
    init = [{"name": "i", "image": "x"}, {"name": "s", "image": "y", "restartPolicy": "Always"}]
    world = a_world(a_pod(initContainers=init, annotations={"run-for": "5s"}))
    done, sidecar = world.status()["initContainerStatuses"]
    assert (done["ready"], done["state"]["terminated"]["exitCode"]) == (True, 0)
    assert (sidecar["ready"], sidecar["started"], "running" in sidecar["state"]) == (True, True, True)
    world.advance(5)
    assert world.phase() == "Succeeded"
    assert world.status()["initContainerStatuses"][1]["state"]["terminated"]["reason"] == "Completed"


def test_readiness_gates_are_opened() -> None:
    world = a_world(a_pod(readinessGates=[{"conditionType": "example.com/ok"}]))
    assert world.condition("example.com/ok") == ("True", "")
    assert world.condition("Ready") == ("True", "")


def test_addresses_are_unique_and_come_back() -> None:
    world = a_world(a_pod("p1"), a_pod("p2"), a_pod("h", hostNetwork=True))
    assert (world.status("p1")["podIP"], world.status("p2")["podIP"]) == ("10.1.1.1", "10.1.1.2")
    assert world.status("h")["podIP"] == world.status("h")["hostIP"]
    world.delete_pod("p1").add(a_pod("p3", cpu="0"))
    assert world.status("p3")["podIP"] == "10.1.1.3"


def test_more_pods_than_the_network_of_a_node_holds_still_get_addresses() -> None:
    node = a_node()
    node["spec"]["podCIDR"] = "10.9.0.0/30"
    world = FakeCluster().start().add(node, *(a_pod(f"p{number}", cpu="0") for number in range(4)))
    addresses = [world.status(f"p{number}")["podIP"] for number in range(4)]
    assert addresses == ["10.9.0.1", "10.9.0.2", "100.64.0.1", "100.64.0.2"]


def test_a_pod_that_does_not_fit_is_rejected_in_the_kubelets_words() -> None:
    world = a_world(a_pod("p1", cpu="3500m"), a_pod("p2", cpu="1"))
    assert world.phase("p1") == "Running"
    assert world.status("p2")["phase"] == "Failed"
    assert world.status("p2")["reason"] == "OutOfcpu"
    assert world.status("p2")["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000"
    )
    assert "containerStatuses" not in world.status("p2")
    world.add(a_pod("p3", cpu="500m"))
    assert world.phase("p3") == "Running"


def test_too_many_pods_are_rejected_before_anything_else() -> None:
    world = FakeCluster().start().add(a_node(pods="1"), a_pod("p1"), a_pod("p2", cpu="100"))
    assert world.status("p2")["reason"] == "OutOfpods"
    assert "requested: 1, used: 1, capacity: 1" in world.status("p2")["message"]


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
    world = a_world(a_pod(**spec))
    assert world.status().get("reason") == reason


def test_a_pod_that_ended_or_went_makes_room() -> None:
    world = a_world(a_pod("p1", cpu="4", annotations={"run-for": "10s"})).advance(10)
    world.add(a_pod("p2", cpu="4"))
    assert world.phase("p2") == "Running"
    world.delete_pod("p2").add(a_pod("p3", cpu="4"))
    assert world.phase("p3") == "Running"


def test_deleting_a_pod_stops_it_reports_the_end_and_then_removes_it() -> None:
    world = a_world(a_pod(), options=HollowOptions(stop_s=5))
    world.done.clear()
    world.delete_pod("p")
    assert world.done == []
    world.advance(4.9)
    assert world.phase() == "Running"
    world.advance(0.1)
    assert "p" not in world.pods
    last, gone = world.done
    assert isinstance(last, PatchPodStatus)
    assert last.status["phase"] == "Succeeded"
    assert last.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert gone == DeletePod("a", "p", "u2")


def test_a_pod_that_stops_too_slowly_is_killed_at_the_end_of_its_grace() -> None:
    world = a_world(a_pod(annotations={"stop-after": "1h"}), options=HollowOptions(stop_s=0))
    world.done.clear()
    world.delete_pod("p").advance(29)
    assert world.done == []
    world.advance(1)
    last = world.done[0]
    assert isinstance(last, PatchPodStatus)
    assert last.status["phase"] == "Failed"
    assert last.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_second_delete_with_less_grace_shortens_the_wait() -> None:
    world = a_world(a_pod(annotations={"stop-after": "1h"}))
    world.delete_pod("p", grace_s=600).advance(10).delete_pod("p", grace_s=5).advance(4)
    assert "p" in world.pods
    world.advance(1)
    assert "p" not in world.pods


def test_finalizers_are_not_waited_for() -> None:
    world = a_world(a_pod(finalizers=["batch.kubernetes.io/job-tracking"]))
    world.delete_pod("p")
    assert world.phase() == "Succeeded"
    assert world.pods["p"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert world.kinds().count("DeletePod") == 1
    world.edit(world.pods["p"])
    assert world.kinds().count("DeletePod") == 1


def test_a_pod_that_completes_while_it_stops_keeps_its_own_exit_code() -> None:
    world = a_world(a_pod(annotations={"run-for": "10s", "exit-code": "4", "stop-after": "20s"}))
    world.delete_pod("p").advance(10)
    assert "p" not in world.pods
    last = world.done[-2]
    assert isinstance(last, PatchPodStatus)
    assert last.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


def test_a_deadline_fails_the_pod() -> None:
    world = a_world(a_pod(activeDeadlineSeconds=60)).advance(60)
    assert world.phase() == "Failed"
    assert world.status()["reason"] == "DeadlineExceeded"
    assert world.status()["message"] == "Pod was active on the node longer than the specified deadline"


def test_a_pod_made_again_under_its_name_is_a_new_pod() -> None:
    world = a_world(a_pod(annotations={"run-for": "10s"})).advance(5)
    world.add(a_pod(annotations={"run-for": "10s"}))
    world.advance(9)
    assert world.phase() == "Running"
    world.advance(1)
    assert world.phase() == "Succeeded"


def test_a_new_duration_counts_from_the_start() -> None:
    world = a_world(a_pod()).advance(100)
    world.pods["p"]["metadata"]["annotations"]["headgate.dev/run-for"] = "2m"
    world.edit(world.pods["p"]).advance(20)
    assert world.phase() == "Succeeded"


def test_a_pod_that_somebody_else_ended_is_left_alone() -> None:
    world = a_world(a_pod(cpu="4", annotations={"run-for": "10s"}))
    world.pods["p"]["status"] = {**world.status(), "phase": "Failed", "reason": "Evicted"}
    world.edit(world.pods["p"]).advance(60)
    assert world.status()["reason"] == "Evicted"
    world.add(a_pod("p2", cpu="4"))
    assert world.phase("p2") == "Running"


def test_a_fleet_that_starts_again_carries_on() -> None:
    runs = a_pod("runs", cpu="2", annotations={"run-for": "60s"})
    fails = a_pod("fails", cpu="1", restartPolicy="Always", annotations={"run-for": "1s", "exit-code": "1"})
    world = a_world(runs, fails).advance(30).add(a_pod("late", cpu="2"), quietly=True)
    address = world.status("runs")["podIP"]
    restarts = container(world, "fails")["restartCount"]
    world.restart()
    assert [effect.name for effect in world.done if isinstance(effect, PatchPodStatus)] == ["late"]
    assert world.status("late")["reason"] == "OutOfcpu"  # pods that run already come first, however they are listed
    world.add(a_pod("more", cpu="0"))
    assert world.status("more")["podIP"] != address
    world.advance(30)
    assert world.phase("runs") == "Succeeded"
    world.advance(300)
    assert container(world, "fails")["restartCount"] > restarts


def test_a_write_that_failed_is_made_again_until_it_arrives() -> None:
    world = FakeCluster().start().add(a_node())
    world.broken = lambda effect: isinstance(effect, PatchPodStatus)
    world.add(a_pod())
    assert world.phase() == "Pending"
    world.advance(20)
    assert world.phase() == "Pending"
    world.broken = lambda effect: False
    world.advance(60)
    assert world.phase() == "Running"
    assert world.condition("Ready") == ("True", "")
    assert world.status()["startTime"] == format_time(T0)


def test_a_delete_that_failed_is_made_again() -> None:
    world = a_world(a_pod())
    world.broken = lambda effect: isinstance(effect, DeletePod)
    world.delete_pod("p").advance(10)
    assert "p" in world.pods
    world.broken = lambda effect: False
    world.advance(60)
    assert "p" not in world.pods


def test_an_idle_fleet_sets_no_timers_and_writes_nothing() -> None:
    world = a_world(*(a_pod(f"p{number}", cpu="0") for number in range(20)))
    world.done.clear()
    assert world.hollow.next_deadline_s() is None
    world.advance(86_400)
    assert world.done == []
