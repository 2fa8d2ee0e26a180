"""``pods/resize`` on `headgate up`: hollow nodes take it over, and the queue of a pod may refuse it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cluster import Cluster
from harness.queues import QUEUES, a_queue
from harness.scheduler_process import wait_for
from headgate.capacity.names import OPT_IN, QUEUE_NAME

PODS = "/api/v1/namespaces/default/pods"


def a_pod(name: str, queue: str = "") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    annotations = {QUEUE_NAME: queue, OPT_IN: "true"} if queue else {}
    scheduler = "volcano" if queue else "default-scheduler"
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }


def get(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.ask("GET", f"{PODS}/{name}")[1]
    return found


def resize(cluster: Cluster, name: str, cpu: str) -> tuple[int, str]:
    pod = get(cluster, name)
    del pod["metadata"]["resourceVersion"]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    status, answer = cluster.ask("PUT", f"{PODS}/{name}/resize", pod)
    return status, str(answer.get("message") or "")


def allocated(cluster: Cluster, name: str) -> str:
    statuses = get(cluster, name)["status"].get("containerStatuses") or [{}]
    return str(statuses[0].get("allocatedResources", {}).get("cpu", ""))


def pending(cluster: Cluster, name: str) -> list[str]:
    conditions = get(cluster, name)["status"]["conditions"]
    return [each["reason"] for each in conditions if each["type"] == "PodResizePending"]


def test_running_pods_are_resized_as_far_as_their_queue_and_their_node_allow(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data", "--nodes", "1", "--node-cpu", "8", "--node-memory", "8Gi") as cluster:
        assert cluster.ask("POST", QUEUES, a_queue("narrow", capability={"cpu": "4"}))[0] == 201
        for pod in (a_pod("queued", "narrow"), a_pod("free")):
            assert cluster.ask("POST", PODS, pod)[0] == 201
        wait_for(lambda: allocated(cluster, "queued") == "1" == allocated(cluster, "free"))

        def use() -> str:
            status = cluster.ask("GET", f"{QUEUES}/narrow")[1].get("status", {})
            return str(status.get("allocated", {}).get("cpu", ""))

        wait_for(lambda: use() == "1")
        status, message = resize(cluster, "queued", "5")
        assert status == 403
        assert "spec.containers: queue narrow has no capacity for 4 cpu: 1 of 4 are in use or promised; " in message
        assert resize(cluster, "queued", "4") == (200, "")
        wait_for(lambda: allocated(cluster, "queued") == "4")
        wait_for(lambda: use() == "4")

        assert resize(cluster, "free", "5") == (200, "")
        wait_for(lambda: pending(cluster, "free") == ["Deferred"])
        assert allocated(cluster, "free") == "1"
        assert resize(cluster, "queued", "3") == (200, "")
        wait_for(lambda: allocated(cluster, "free") == "5")
        wait_for(lambda: pending(cluster, "free") == [])
        assert resize(cluster, "free", "9") == (200, "")
        wait_for(lambda: pending(cluster, "free") == ["Infeasible"])
