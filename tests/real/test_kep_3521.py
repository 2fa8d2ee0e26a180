"""KEP-3521's integration tests, each on the embedded server and on the real one; `docs/kep-3521.md` has the table.

The scheduler runs in this process, so that a test can add plugins and read which queue a pod is in. The scheduler
writes over HTTP. A test waits for a state, never for a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.control_plane import Nodes
from harness.embedded_server import EmbeddedServer
from harness.in_process_scheduler import InProcessScheduler
from harness.metrics_page import families, page_of, value
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import (
    SchedulerProcess,
    create_nodes,
    create_pod,
    delete_pod,
    get_pod,
    is_bound,
    patch_pod,
    pods,
    scheduled_reason,
    send,
    wait_for,
)
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.pod_lifecycle import PodState
from real.kep_plugins import FOOS, Admits, FailsFirst, Holds, TurnsAway, WantsFoo

pytestmark = pytest.mark.real

Object = dict[str, Any]
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
STORY = "/api/v1/namespaces/story"
UNGATED = {"spec": {"schedulingGates": None}}
SHORT_BACKOFF: Object = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


class KEPCluster:
    """A server, and on it a scheduler of its own name with one gated pod, which is there from the beginning."""

    def __init__(self, server: EmbeddedServer | RealServer, folder: Path) -> None:
        self.server = server
        send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "story"}})
        self.pod = send(
            server, "POST", f"{STORY}/pods", {**gated("alone", schedulerName="story"), "metadata": {"name": "alone"}}
        )
        self.created_s = time.monotonic()
        self.scheduler = SchedulerProcess(
            server, folder / "story.log", "--scheduler-name", "story", "--no-leader-elect"
        )


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KEPCluster]:
    folder = tmp_path_factory.mktemp(f"kep-{request.param}")
    with running_server(request.param, folder, kube_binaries) as server:
        made = KEPCluster(server, folder)
        yield made
        made.scheduler.stop()


@pytest.fixture
def server(cluster: KEPCluster) -> Iterator[Server]:
    """With one node; what a scenario made is gone when it ends."""
    create_nodes(cluster.server, [a_node("node")])
    yield cluster.server
    for name in pods(cluster.server):
        delete_pod(cluster.server, name)
    for node in send(cluster.server, "GET", "/api/v1/nodes")["items"]:
        send(cluster.server, "DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


def gated(name: str, *gates: str, requests: Object | None = None, **spec: Any) -> Object:
    return a_pod(name, requests, schedulingGates=[{"name": gate} for gate in gates or ("foo",)], **spec)


def bound(server: Server, *names: str) -> None:
    wait_for(lambda: all(is_bound(get_pod(server, name)) for name in names))


# queueing: TestSchedulingGates


def test_regular_pods_are_scheduled(server: Server) -> None:
    with InProcessScheduler(server):
        for name in ("p1", "p2"):
            create_pod(server, a_pod(name))
        bound(server, "p1", "p2")


def test_a_pod_that_carries_a_gate_stays_while_the_other_is_scheduled(server: Server) -> None:
    with InProcessScheduler(server) as scheduler:
        for pod in (gated("p1"), a_pod("p2")):
            create_pod(server, pod)
        bound(server, "p2")
        wait_for(lambda: scheduler.pending() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1})
        assert scheduled_reason(get_pod(server, "p1")) == "SchedulingGated"


def test_of_two_gated_pods_the_one_that_lost_its_gate_is_scheduled(server: Server) -> None:
    with InProcessScheduler(server) as scheduler:
        for pod in (gated("p1", "foo"), gated("p2", "bar"), a_pod("p3")):
            create_pod(server, pod)
        bound(server, "p3")
        wait_for(lambda: scheduler.pending() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 2})
        patch_pod(server, "p2", UNGATED)
        bound(server, "p2")
        assert scheduler.pending()["gated"] == 1
        assert not is_bound(get_pod(server, "p1"))


def test_a_gated_pod_waits_while_a_scheduled_pod_is_deleted_and_is_scheduled_when_its_gate_is_removed(
    server: Server,
) -> None:
    with InProcessScheduler(server) as in_process:
        for pod in (gated("p1"), a_pod("p2")):
            create_pod(server, pod)
        bound(server, "p2")
        delete_pod(server, "p2")
        wait_for(lambda: in_process.ask(lambda scheduler: scheduler.cluster.matrix.pod_count) == 0)
        assert in_process.pending() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
        patch_pod(server, "p1", UNGATED)
        bound(server, "p1")


# plugins: TestPreEnqueuePlugin, and the two ways to enable such a plugin

ENABLED = {
    "by its own point": {
        "preEnqueue": {"enabled": [{"name": "Admits"}]},
        "preFilter": {"enabled": [{"name": "Admits"}]},
    },
    "by multiPoint": {"multiPoint": {"enabled": [{"name": "Admits"}]}},
}


@pytest.mark.parametrize("how", ENABLED)
def test_a_pod_that_a_pre_enqueue_plugin_admits_is_scheduled(server: Server, how: str) -> None:
    plugin = Admits(admits=True)
    with InProcessScheduler(server, known=[plugin], profiles=[{"plugins": ENABLED[how]}]):
        create_pod(server, a_pod("p"))
        bound(server, "p")
    assert plugin.filtered == ["p"]


@pytest.mark.parametrize("how", ENABLED)
def test_a_pod_that_a_pre_enqueue_plugin_holds_never_reaches_pre_filter(server: Server, how: str) -> None:
    plugin = Admits(admits=False)
    with InProcessScheduler(server, known=[plugin], profiles=[{"plugins": ENABLED[how]}]) as scheduler:
        created = create_pod(server, gated("p"))
        assert scheduled_reason(created) == "SchedulingGated"
        wait_for(lambda: scheduler.where(created["metadata"]["uid"]) is PodState.GATED)
        patch_pod(server, "p", UNGATED)
        wait_for(lambda: scheduler.gates(created["metadata"]["uid"]) == ())
        assert scheduler.where(created["metadata"]["uid"]) is PodState.GATED
        assert scheduled_reason(get_pod(server, "p")) == "SchedulingGated"
    assert plugin.filtered == []


# plugins: TestPreEnqueuePluginEventsToRegister


def live_with_holds_alone(server: Server, plugin: Holds) -> InProcessScheduler:
    alone = {"preEnqueue": {"enabled": [{"name": "Holds"}], "disabled": [{"name": "*"}]}}
    return InProcessScheduler(server, known=[plugin], profiles=[{"plugins": alone}])


def test_a_pre_enqueue_plugin_that_named_its_events_is_asked_again_and_its_pod_is_scheduled(server: Server) -> None:
    plugin = Holds(cluster_events.on(cluster_events.POD, cluster_events.UPDATE))
    with live_with_holds_alone(server, plugin) as in_process:
        uid = create_pod(server, gated("held"))["metadata"]["uid"]
        wait_for(lambda: in_process.where(uid) is PodState.GATED)
        create_pod(server, a_pod("pause"))
        bound(server, "pause")
        wait_for(lambda: in_process.ask(lambda scheduler: len(scheduler.bindings)) == 0)
        assert plugin.asked == ["held", "pause"]
        patch_pod(server, "pause", {"metadata": {"annotations": {"foo": "bar"}}})
        wait_for(lambda: plugin.asked == ["held", "pause", "held"])
        assert in_process.where(uid) is PodState.GATED
        patch_pod(server, "held", UNGATED)
        bound(server, "held")


def test_a_pre_enqueue_plugin_that_named_no_events_is_not_asked_again(server: Server) -> None:
    plugin = Holds(())
    with live_with_holds_alone(server, plugin) as scheduler:
        uid = create_pod(server, gated("held"))["metadata"]["uid"]
        wait_for(lambda: scheduler.where(uid) is PodState.GATED)
        create_pod(server, a_pod("pause"))
        bound(server, "pause")
        patch_pod(server, "pause", {"metadata": {"annotations": {"foo": "bar"}}})
        patch_pod(server, "held", UNGATED)
        wait_for(lambda: scheduler.gates(uid) == ())
        assert scheduler.where(uid) is PodState.GATED
    assert plugin.asked == ["held", "pause"]
    assert scheduled_reason(get_pod(server, "held")) == "SchedulingGated"


# queueing: pods that come back


def test_an_idle_scheduler_tries_a_pod_whose_backoff_would_last_a_thousand_seconds(server: Server) -> None:
    with InProcessScheduler(server, podInitialBackoffSeconds=1000, podMaxBackoffSeconds=1000) as scheduler:
        uid = create_pod(server, a_pod("p", nodeSelector={"foo": "bar"}))["metadata"]["uid"]
        wait_for(lambda: scheduled_reason(get_pod(server, "p")) == "Unschedulable")
        assert scheduler.where(uid) is PodState.UNSCHEDULABLE
        create_nodes(server, [a_node("schedulable", labels={"foo": "bar"})])
        bound(server, "p")
    assert get_pod(server, "p")["spec"]["nodeName"] == "schedulable"


def test_a_pod_whose_binding_failed_is_tried_again_without_any_event(server: Server) -> None:
    plugin = FailsFirst()
    binders = {"bind": {"enabled": [{"name": "FailsFirst"}], "disabled": [{"name": "*"}]}}
    with InProcessScheduler(server, known=[plugin], profiles=[{"plugins": binders}], **SHORT_BACKOFF):
        create_pod(server, a_pod("p"))
        bound(server, "p")
    assert plugin.asked == 2


def test_an_event_before_the_rejection_by_permit_causes_a_retry_of_the_pod(server: Server) -> None:
    plugin = TurnsAway()
    with InProcessScheduler(server, plugin, **SHORT_BACKOFF) as in_process:
        create_pod(server, a_pod("p1"))
        wait_for(lambda: plugin.came == ["p1"])
        send(
            server, "PATCH", "/api/v1/nodes/node", {"metadata": {"labels": {"new": ""}}}, "application/merge-patch+json"
        )
        wait_for(
            lambda: in_process.ask(lambda scheduler: "NodeUpdateNodeLabel" in str(list(scheduler.queue.samples())))
        )
        create_pod(server, a_pod("p2"))
        bound(server, "p1", "p2")
    assert plugin.came == ["p1", "p2", "p1"]


def test_a_pod_that_waits_for_a_custom_object_is_tried_when_one_is_created(server: Server) -> None:
    define_foos(server)
    plugin = WantsFoo()
    with InProcessScheduler(server, plugin, **SHORT_BACKOFF) as scheduler:
        uid = create_pod(server, a_pod("p"))["metadata"]["uid"]
        wait_for(lambda: scheduler.where(uid) is PodState.UNSCHEDULABLE)
        assert scheduler.attempts(uid) == 1
        foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "foo1"}}
        send(server, "POST", FOOS.collection_path("default"), foo)
        bound(server, "p")


# What becomes of a pod that changes while it is gated, and of gates that only the server minds


def test_a_pod_that_was_tightened_and_resized_while_gated_is_scheduled_by_what_it_has_become(server: Server) -> None:
    create_nodes(server, [a_node("small", cpu="1", labels={"disk": "fast"}), a_node("large", labels={"disk": "fast"})])
    with InProcessScheduler(server) as scheduler:
        uid = create_pod(server, gated("p", requests={"cpu": "1"}))["metadata"]["uid"]
        wait_for(lambda: scheduler.where(uid) is PodState.GATED)
        patch_pod(server, "p", {"spec": {"nodeSelector": {"disk": "fast"}}})
        resized = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
        path = "/api/v1/namespaces/default/pods/p/resize"
        send(server, "PATCH", path, resized, "application/strategic-merge-patch+json")
        patch_pod(server, "p", UNGATED)
        bound(server, "p")
    assert get_pod(server, "p")["spec"]["nodeName"] == "large"


def test_a_scheduler_that_ignores_gates_tries_a_binding_that_the_server_refuses_once(
    server: Server, tmp_path: Path
) -> None:
    gates = "PodSchedulingReadiness=false,QueueAllocationGate=false"
    off = ("--feature-gates", gates, "--no-leader-elect", "--metrics-listen", "127.0.0.1:0")
    scheduler = SchedulerProcess(server, tmp_path / "off.log", "--scheduler-name", "off", *off)
    try:
        create_pod(server, gated("minded", schedulerName="off"))
        wait_for(lambda: attempts_of(scheduler, "error") == 1, scheduler)
        create_pod(server, a_pod("plain", schedulerName="off"))
        bound(server, "plain")
        assert attempts_of(scheduler, "error") == 1
        assert scheduled_reason(get_pod(server, "minded")) == "SchedulingGated"
        patch_pod(server, "minded", UNGATED)
        bound(server, "minded")
    finally:
        scheduler.stop()


def attempts_of(scheduler: SchedulerProcess, result: str) -> float:
    return value(families(page_of(scheduler)), "scheduler_schedule_attempts_total", result=result)


# e2e: predicates.go, "validates Pods with non-empty schedulingGates are blocked on scheduling"


def test_replicas_wait_for_all_their_gates_and_then_run(server: Server, kube_binaries: Path, tmp_path: Path) -> None:
    flags = ("--controllers=replicaset-controller", "--leader-elect=false", "--secure-port=0")
    manager = [str(kube_binaries / "kube-controller-manager"), f"--kubeconfig={server.kubeconfig}", *flags]
    controllers = Process(manager, tmp_path / "kube-controller-manager.log")
    send(server, "DELETE", "/api/v1/nodes/node")  # no kubelet there runs containers
    nodes = Nodes(server, 1, {"cpu": "4", "memory": "8Gi", "pods": "10"})
    try:
        with InProcessScheduler(server) as scheduler:
            create_replicas(server, 3, "foo", "bar")
            wait_for(lambda: len(pods(server)) == 3, controllers)
            wait_for(lambda: scheduler.pending()["gated"] == 3)
            assert {scheduled_reason(pod) for pod in pods(server).values()} == {"SchedulingGated"}
            for name in pods(server):
                patch_pod(server, name, {"spec": {"schedulingGates": [{"name": "bar"}]}})
            uids = [pod["metadata"]["uid"] for pod in pods(server).values()]
            wait_for(lambda: all(scheduler.gates(uid) == ("bar",) for uid in uids))
            assert scheduler.pending()["gated"] == 3
            assert {scheduled_reason(pod) for pod in pods(server).values()} == {"SchedulingGated"}
            assert [pod["spec"]["schedulingGates"] for pod in pods(server).values()] == [[{"name": "bar"}]] * 3
            for name in pods(server):
                patch_pod(server, name, UNGATED)
            wait_for(lambda: all(pod["status"]["phase"] == "Running" for pod in pods(server).values()))
        send(server, "DELETE", f"{REPLICA_SETS}/web", {"propagationPolicy": "Orphan"})
    finally:
        nodes.stop()
        controllers.stop()


def create_replicas(server: Server, count: int, *gates: str) -> None:
    pod = gated("web", *gates)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    send(server, "POST", REPLICA_SETS, made)


# The scenario of a single pod


def test_a_pod_is_not_scheduled_for_fifteen_seconds_and_within_five_once_its_gate_is_gone(
    cluster: KEPCluster, server: Server
) -> None:
    time.sleep(max(cluster.created_s + 15 - time.monotonic(), 0))
    assert send(server, "GET", f"{STORY}/pods/alone") == cluster.pod, "nobody has touched it"
    (told,) = wait_for(lambda: send(server, "GET", f"{STORY}/events")["items"], cluster.scheduler)
    assert (told["type"], told["reason"]) == ("Normal", "SchedulingGated")
    assert "foo" in told["message"]
    send(server, "PATCH", f"{STORY}/pods/alone", UNGATED, "application/merge-patch+json")
    wait_for(lambda: is_bound(send(server, "GET", f"{STORY}/pods/alone")), cluster.scheduler, 5)
    send(server, "DELETE", f"{STORY}/pods/alone", {"gracePeriodSeconds": 0})


def define_foos(server: Server) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"field": {"type": "string"}}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    send(server, "POST", path, definition)
    wait_for(lambda: server.request("GET", FOOS.collection_path("default")).status == 200)
