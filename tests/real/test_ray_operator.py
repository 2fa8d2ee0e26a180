"""RayClusters in Kueue's queues with KubeRay, beside a real API server.

No pod runs here: there is no kubelet, and no garbage collector. KubeRay creates and deletes the pods, and reports
whether a cluster is suspended.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import HEADGATE
from harness.operators import KubeRay
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import send, wait_for
from harness.server import JSON_TYPE, Server
from headgate.kube import conditions
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue
from unit.jobs.operators import an_object, encoded, kind_of

pytestmark = pytest.mark.real

API = "/apis/kueue.x-k8s.io/v1beta2"
PATH = kind_of("RayCluster").resource.collection_path("default")
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    programs = request.getfixturevalue("operator_binaries")
    real = RealServer(tmp_path / "real", request.getfixturevalue("kube_binaries"))
    processes: list[Process] = []
    try:
        kubeconfig = ("--kubeconfig", str(real.kubeconfig))
        subprocess.run([str(HEADGATE), "install-crds", *kubeconfig], check=True, capture_output=True)
        processes.append(KubeRay(real, programs, tmp_path / "kuberay.log"))
        flags = ("--components", "quota,jobs", "--no-leader-elect", "--job-kinds", "ray.io/raycluster")
        processes.append(Process([str(HEADGATE), "run", *kubeconfig, *flags], tmp_path / "run.log"))
        yield real
    finally:
        for each in reversed(processes):
            each.stop()
        real.disconnect()
        real.stop()


def created(server: Server, path: str, body: dict[str, Any]) -> bool:
    """Kinds may be so new that the server does not serve them yet."""
    return server.request("POST", path, JSON_TYPE, json.dumps(body).encode()).status in (201, 409)


def add_queue(server: Server) -> None:
    preemption = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    for plural, kind, obj in (
        ("resourceflavors", "ResourceFlavor", a_flavor(labels={"disk": "ssd"})),
        ("clusterqueues", "ClusterQueue", a_cluster_queue("cq", {"default": {"cpu": 2}}, **preemption)),
        ("namespaces/default/localqueues", "LocalQueue", a_local_queue(namespace="default")),
        ("workloadpriorityclasses", "WorkloadPriorityClass", {"metadata": {"name": "low"}, "value": 1}),
        ("workloadpriorityclasses", "WorkloadPriorityClass", {"metadata": {"name": "high"}, "value": 100}),
    ):
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **obj}
        wait_for(functools.partial(created, server, f"{API}/{plural}", body))


def add(server: Server, name: str, priority: str) -> dict[str, Any]:
    body = an_object(name, "RayCluster", priority=priority)
    body["spec"]["suspend"] = True
    wait_for(lambda: created(server, PATH, body))
    found: dict[str, Any] = send(server, "GET", f"{PATH}/{name}")
    return found


def is_running(server: Server, name: str) -> bool:
    found: dict[str, Any] = send(server, "GET", f"{PATH}/{name}")
    return found["spec"]["suspend"] is False


def has_written_its_status(server: Server, name: str) -> bool:
    """Until then the status is that of the time before the start (docs/limits.md)."""
    found: dict[str, Any] = send(server, "GET", f"{PATH}/{name}")
    return not conditions.is_true(found["status"].get("conditions"), "RayClusterSuspended")


def workloads(server: Server) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = send(server, "GET", f"{API}/namespaces/default/workloads")["items"]
    return items


def pods_of(server: Server, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = send(server, "GET", PODS)["items"]
    return [each for each in items if each["metadata"]["labels"].get("ray.io/cluster") == name]


def test_ray_clusters_wait_for_quota_are_preempted_and_leave_nothing(server: Server) -> None:
    add_queue(server)
    before = add(server, "low", "low")
    wait_for(lambda: is_running(server, "low"))
    wait_for(lambda: len(pods_of(server, "low")) == 2)
    assert all(each["spec"]["nodeSelector"] == {"disk": "ssd"} for each in pods_of(server, "low"))
    wait_for(lambda: has_written_its_status(server, "low"))
    add(server, "high", "high")
    wait_for(lambda: is_running(server, "high"))
    assert not is_running(server, "low")
    assert pods_of(server, "low") == []
    assert encoded(send(server, "GET", f"{PATH}/low")["spec"]) == encoded(before["spec"])
    send(server, "DELETE", f"{PATH}/high")
    wait_for(lambda: is_running(server, "low"))
    send(server, "DELETE", f"{PATH}/low")
    wait_for(
        lambda: all(not each["metadata"].get("finalizers") for each in workloads(server))
    )  # nothing deletes them here
    assert {each["metadata"]["ownerReferences"][0]["name"] for each in workloads(server)} <= {"low", "high"}
