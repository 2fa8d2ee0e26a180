"""Leases of promises and windows of queues, with `headgate run` on both servers, as a user sees them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.embedded_server import HEADGATE
from harness.scheduler_process import events_about, scheduled_reason, send, wait_for
from harness.server_kinds import SERVER_KINDS
from headgate.capacity.names import LAPSED, LEASE, MAX_PODS_WITHOUT_NODE, STAMP
from headgate.kube.timestamps import format_time, parse_time
from real.queue_cluster import QueueCluster, running_queue_cluster

pytestmark = pytest.mark.real

EVENTS = "/api/v1/namespaces/default/events"
SWITCH = ("--feature-gates", "ReservationLease=true")


@pytest.fixture(scope="module", params=SERVER_KINDS)
def leased(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[QueueCluster]:
    folder = tmp_path_factory.mktemp(f"leases-{request.param}")
    with running_queue_cluster(request.param, folder, kube_binaries, *SWITCH) as cluster:
        yield cluster


@pytest.fixture
def cluster(leased: QueueCluster) -> Iterator[QueueCluster]:
    yield leased
    leased.delete_pods()


def annotations_of(cluster: QueueCluster, name: str) -> dict[str, str]:
    found: dict[str, str] = cluster.get(name)["metadata"]["annotations"]
    return found


def until_failed(cluster: QueueCluster, name: str) -> None:
    """Until the pod was unschedulable. Its Event stays; its condition lasts only as long as its lease."""

    uid = cluster.get(name)["metadata"]["uid"]

    def reasons() -> set[str]:
        events = events_about(cluster.server, name)
        return {each["reason"] for each in events if each["involvedObject"]["uid"] == uid}

    wait_for(lambda: "FailedScheduling" in reasons(), cluster.scheduler)


def test_a_pod_that_fits_no_node_is_hidden_and_the_next_one_runs(cluster: QueueCluster) -> None:
    queue = cluster.queue("1", {LEASE: "2s"})
    cluster.priority_class("soon", 0, **{LEASE: "soon"})
    cluster.pod("stuck", queue, wants="nowhere", priorityClassName="soon")
    until_failed(cluster, "stuck")
    cluster.pod("next", queue)
    cluster.until_bound("next")
    cluster.until_reason("stuck", "WaitingForQueue")
    assert '"count":1' in annotations_of(cluster, "stuck")[LAPSED]
    assert STAMP not in annotations_of(cluster, "stuck")
    told = f"{EVENTS}?fieldSelector=reason=ReservationLapsed,involvedObject.name=stuck"
    wait_for(lambda: send(cluster.server, "GET", told)["items"], cluster.scheduler)
    command = [str(HEADGATE), "explain", "pod", "stuck", "--kubeconfig", str(cluster.server.kubeconfig)]
    explained = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "ReservationLapsed" in explained
    assert "it asks its queue again at" in explained
    assert f"  PriorityClass soon: metadata.annotations[{LEASE}]: 'soon' is neither" in explained


def test_an_event_of_an_autoscaler_holds_a_promise(cluster: QueueCluster) -> None:
    queue, clock = cluster.queue("2"), cluster.queue("2")
    cluster.priority_class("quick", 1, **{LEASE: "6s"})
    pod = cluster.pod("served", queue, wants="nowhere", priorityClassName="quick")
    cluster.until_unschedulable("served")  # the Event has to come before the end of the lease
    send(cluster.server, "POST", EVENTS, _event("served", pod["metadata"]["uid"], pod["metadata"]["creationTimestamp"]))
    stamp = annotations_of(cluster, "served")[STAMP]
    cluster.pod("forgotten", queue, wants="nowhere", priorityClassName="quick")
    until_failed(cluster, "forgotten")
    cluster.pod("clock", clock, wants="nowhere", priorityClassName="quick")
    cluster.until_reason("forgotten", "WaitingForQueue")
    cluster.until_reason("clock", "WaitingForQueue")  # it began after the Event
    assert annotations_of(cluster, "served")[STAMP] == stamp
    assert scheduled_reason(cluster.get("served")) == "Unschedulable"


def _event(name: str, uid: str, created: str) -> dict[str, object]:
    at = parse_time(created)
    assert not isinstance(at, str)
    return {
        "metadata": {"name": f"{name}.scaled", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": name, "uid": uid},
        "reason": "TriggeredScaleUp",
        "message": "pod triggered scale-up",
        "type": "Normal",
        "lastTimestamp": format_time(at),
    }


def test_a_window_lets_one_pod_after_another_look_for_a_node(cluster: QueueCluster) -> None:
    queue = cluster.queue("9", {MAX_PODS_WITHOUT_NODE: "1"})
    cluster.pod("first", queue, wants="window-1")
    cluster.until_unschedulable("first")
    cluster.pod("second", queue, wants="window-2")
    cluster.pod("third", queue, wants="window-3")
    cluster.until_the_next_decision()
    assert cluster.is_gated("second")
    assert cluster.is_gated("third")
    cluster.node("window-1")
    cluster.until_bound("first")
    cluster.until_unschedulable("second")
    assert cluster.is_gated("third")


def test_with_the_feature_gate_off_again_a_lapsed_pod_asks_at_once(cluster: QueueCluster) -> None:
    queue = cluster.queue("1", {LEASE: "2s"})
    cluster.pod("stuck", queue, wants="off")
    cluster.until_reason("stuck", "WaitingForQueue")
    cluster.killed()
    cluster.flags = ()
    cluster.started_again()
    cluster.until_unschedulable("stuck")
    cluster.node("off")
    cluster.until_bound("stuck")
    cluster.scheduler.stop()
    cluster.flags = SWITCH
    cluster.started_again()
