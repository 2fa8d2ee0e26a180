"""The component `gates` beside the real kube-scheduler: Headgate decides when, kube-scheduler decides where.

A gated pod is never unschedulable. Terminating pods keep the gates of the pods that were promised their capacity; a
gang is ungated whole; a controller that is killed promises nothing twice.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.embedded_server import HEADGATE
from harness.real_server import REPOSITORY
from harness.scheduler_process import scheduled_reason, send
from real.gated_cluster import PODS, GatedCluster

pytestmark = pytest.mark.real

THREE_PODS = REPOSITORY / "examples" / "volcano" / "three-pods.yaml"


@pytest.fixture(scope="module")
def cluster(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatedCluster]:
    made = GatedCluster(tmp_path_factory.mktemp("gates-only"), kube_binaries)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def pods_are_deleted(cluster: GatedCluster) -> Iterator[None]:
    yield
    send(cluster.server, "DELETE", PODS, {"gracePeriodSeconds": 0})


def typed(cluster: GatedCluster, *words: str) -> str:
    command = [str(HEADGATE), *words, "--kubeconfig", str(cluster.server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_pods_of_a_queue_with_capacity_for_one_run_one_after_the_other(cluster: GatedCluster) -> None:
    queue, *pods = yaml.safe_load_all(THREE_PODS.read_text())
    for pod in pods:
        del pod["spec"]["schedulerName"]  # default-scheduler
    applied = cluster.server.kubectl(["apply", "-f", "-"], stdin=yaml.safe_dump_all([queue, *pods]))
    assert applied.exit == 0, applied.stderr
    cluster.until_bound("pod-1")
    cluster.settle()
    assert [scheduled_reason(cluster.get(name)) for name in ("pod-2", "pod-3")] == ["SchedulingGated"] * 2
    cluster.delete("pod-1", force=True)
    cluster.until_reason("pod-2", "Unschedulable")  # no node has its label
    cluster.until(lambda: cluster.used("one-cpu") == ("0", "1"))
    cluster.settle()
    assert cluster.is_gated("pod-3")
    cluster.delete("pod-2", force=True)
    cluster.until_bound("pod-3")
    cluster.until(lambda: cluster.used("one-cpu") == ("1", "0"))


def test_a_gate_stays_while_the_pod_before_it_terminates(cluster: GatedCluster) -> None:
    cluster.queue("slow", "2")
    cluster.pod("slow-old", "slow", "2", stop_after="100s")
    cluster.until_bound("slow-old")
    cluster.pod("slow-new", "slow", "2")
    cluster.delete("slow-old")
    cluster.until(lambda: cluster.used("slow") == ("0", "2"))  # promised already
    cluster.settle()
    assert cluster.is_gated("slow-new")
    expected = "queue slow has capacity for 2 cpu when terminating pods have left their nodes"
    conditions = {each["type"]: each for each in cluster.get("slow-new")["status"]["conditions"]}
    cluster.until(
        lambda: any(expected in each.get("message", "") for each in cluster.get("slow-new")["status"]["conditions"])
    )
    assert conditions["PodScheduled"]["reason"] == "SchedulingGated"
    explained = typed(cluster, "explain", "pod", "slow-new", "--gated-scheduler-name", "default-scheduler")
    assert "WaitingForTerminatingPods" in explained
    assert expected in explained
    cluster.end("slow-old")
    cluster.until_bound("slow-new")
    assert "Unschedulable" not in cluster.reasons.said["slow-new"]


def test_a_gang_is_ungated_whole_after_the_pods_before_it_have_terminated(cluster: GatedCluster) -> None:
    cluster.queue("gang", "3")
    cluster.group("team", "gang", 3)
    for name in ("gang-old-1", "gang-old-2"):
        cluster.pod(name, "gang", stop_after="100s")
    cluster.until_bound("gang-old-1", "gang-old-2")
    members = [f"gang-new-{number}" for number in range(3)]
    for name in members[:2]:
        cluster.pod(name, "gang", group="team")
    cluster.settle()
    assert [cluster.is_gated(name) for name in members[:2]] == [True] * 2  # it is not whole
    cluster.pod(members[2], "gang", group="team")
    for name in ("gang-old-1", "gang-old-2"):
        cluster.delete(name)
    cluster.until(lambda: cluster.used("gang") == ("0", "3"))
    cluster.end("gang-old-1")
    cluster.until(lambda: "gang-old-1" not in _names(cluster))
    cluster.settle()
    assert [cluster.is_gated(name) for name in members] == [True] * 3
    cluster.end("gang-old-2")
    cluster.until_bound(*members)


def test_a_killed_controller_promises_nothing_twice(cluster: GatedCluster) -> None:
    cluster.queue("killed", "2")
    names = [f"killed-{number}" for number in range(6)]
    for name in names:
        cluster.pod(name, "killed")
    cluster.gates.kill()
    cluster.start_gates("--no-leader-elect")
    cluster.until_gated()
    cluster.until(lambda: cluster.used("killed") == ("2", "0"))
    cluster.settle()
    assert sum(map(cluster.is_gated, names)) == 4
    cluster.gates.kill()
    running = [name for name in names if not cluster.is_gated(name)]
    cluster.delete(running[0], force=True)
    cluster.start_gates("--no-leader-elect")
    cluster.until_gated()
    cluster.until(lambda: sum(map(cluster.is_gated, [each for each in names if each != running[0]])) == 3)
    cluster.settle()
    assert sum(map(cluster.is_gated, [each for each in names if each != running[0]])) == 3


def test_a_raised_limit_ungates_waiting_pods(cluster: GatedCluster) -> None:
    cluster.queue("raised", "0")
    cluster.pod("raised-1", "raised")
    cluster.settle()
    assert cluster.is_gated("raised-1")
    cluster.limit("raised", "1")
    cluster.until_bound("raised-1")


def test_a_pod_of_another_scheduler_gets_no_gate(cluster: GatedCluster) -> None:
    with pytest.raises(AssertionError, match="the webhook adds the gate"):
        cluster.pod("theirs", "raised", schedulerName="another")


def test_the_second_replica_continues_when_the_leader_is_killed(cluster: GatedCluster) -> None:
    cluster.gates.stop()
    first = cluster.start_gates()
    cluster.until_gated()
    cluster.until(lambda: "elected: holds the Lease kube-system/headgate-gates" in first.log.read_text())
    second = cluster.start_gates()
    cluster.queue("replicas", "1")
    cluster.pod("replicas-1", "replicas")
    cluster.until_bound("replicas-1")
    cluster.pod("replicas-2", "replicas")
    first.kill()
    cluster.delete("replicas-1", force=True)
    cluster.until(lambda: "elected: holds the Lease" in second.log.read_text())
    cluster.until_bound("replicas-2")


def test_switched_off_every_gate_is_removed(cluster: GatedCluster) -> None:
    """The last scenario here: nothing switches it on again."""
    cluster.queue("off", "0")
    names = [f"off-{number}" for number in range(3)]
    for name in names:
        cluster.pod(name, "off")
    cluster.settle()
    assert all(map(cluster.is_gated, names))
    cluster.gates.stop()
    cluster.start_gates("--no-leader-elect", "--feature-gates", "QueueAllocationGate=false")
    cluster.until_bound(*names)


def _names(cluster: GatedCluster) -> list[str]:
    return [each["metadata"]["name"] for each in send(cluster.server, "GET", PODS)["items"]]
