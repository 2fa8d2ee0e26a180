"""`headgate up` with pods that terminate slowly: their successors wait for them, and none is unschedulable. `headgate
run` does the same for profiles without queues, if it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters import a_node
from harness.cluster import Cluster
from harness.embedded_server import EmbeddedServer
from harness.queues import API_VERSION, QUEUES, a_group, a_queue
from harness.scheduler_process import (
    SchedulerProcess,
    create_nodes,
    create_pod,
    get_pod,
    is_bound,
    scheduled_reason,
    send,
    wait_for,
)
from headgate.capacity.names import GROUP_NAMES, OPT_IN, QUEUE_NAME

PODS = "/api/v1/namespaces/default/pods"
GROUPS = f"/apis/{API_VERSION}/namespaces/default/podgroups"
STOP_AFTER = "headgate.dev/stop-after"


def made(cluster: Cluster, path: str, body: dict[str, Any]) -> dict[str, Any]:
    status, found = cluster.ask("POST", path, body)
    assert status == 201, found
    answer: dict[str, Any] = found
    return answer


def a_pod(name: str, scheduler: str = "volcano") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 15, "containers": [container]}
    return {"metadata": {"name": name, "annotations": {QUEUE_NAME: "full"}}, "spec": spec}


def get(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.ask("GET", f"{PODS}/{name}")[1]
    return found


@pytest.mark.parametrize("kind", ["gated", "not opted in", "gang", "pod profile"])
def test_the_successor_of_a_pod_that_takes_its_grace_period_is_never_called_unschedulable(
    tmp_path: Path, kind: str
) -> None:
    """Three nodes of 8 CPU, a queue of 24 and three pods of 8 CPU, of which one is deleted."""
    flags = ("--nodes", "3", "--node-cpu", "8", "--node-memory", "8Gi", "--wait-for-terminating")
    with Cluster(tmp_path / "data", *flags) as cluster:
        made(cluster, QUEUES, a_queue("full", capability={"cpu": "24"}))
        for name in ("a", "b", "c"):
            pod = a_pod(name)
            pod["metadata"]["annotations"] |= {OPT_IN: "true", STOP_AFTER: "5s"}
            made(cluster, PODS, pod)
        wait_for(lambda: all(get(cluster, name)["status"].get("phase") == "Running" for name in ("a", "b", "c")))
        fourth = a_pod("fourth", "default-scheduler" if kind == "pod profile" else "volcano")
        if kind in ("gated", "gang"):
            fourth["metadata"]["annotations"][OPT_IN] = "true"
        if kind == "gang":
            made(cluster, GROUPS, a_group("g", queue="full", minMember=1))
            fourth["metadata"]["annotations"][GROUP_NAMES[0]] = "g"
        assert cluster.ask("DELETE", f"{PODS}/b")[0] == 200
        node = get(cluster, "b")["spec"]["nodeName"]
        made(cluster, PODS, fourth)
        said: set[str] = set()

        def is_bound() -> bool:
            pod = get(cluster, "fourth")
            said.add(scheduled_reason(pod))
            return bool(pod["spec"].get("nodeName"))

        wait_for(is_bound)
        assert get(cluster, "fourth")["spec"]["nodeName"] == node
        assert "WaitingForTerminatingPods" in said
        assert "Unschedulable" not in said


def test_headgate_run_waits_for_terminating_pods_in_all_profiles_with_the_flag(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "server")
    flags = ("--scheduler-name", "default-scheduler", "--no-leader-elect", "--wait-for-terminating")
    scheduler = SchedulerProcess(server, tmp_path / "scheduler.log", *flags)
    try:
        create_nodes(server, [a_node("node", cpu="8")])
        create_pod(server, a_pod("first", "default-scheduler"))
        wait_for(lambda: is_bound(get_pod(server, "first")), scheduler)
        send(server, "DELETE", f"{PODS}/first")
        create_pod(server, a_pod("second", "default-scheduler"))
        assert wait_for(lambda: scheduled_reason(get_pod(server, "second")), scheduler) == "WaitingForTerminatingPods"
    finally:
        scheduler.stop()
        server.disconnect()
        server.stop()
