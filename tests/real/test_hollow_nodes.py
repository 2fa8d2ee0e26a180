"""Hollow kubelets on a real API server, with the real scheduler and controller manager around them.

One server of its own: the nodes made here would stand in the way of suites that compare lists. What is waited for is
heard through a watch, never slept for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.processes import Process
from harness.real_server import RealServer
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import HTTPRequest
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.kubelet_runner import HollowKubeletRunner
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import HollowOptions

pytestmark = pytest.mark.real

Object = dict[str, Any]
JOBS = APIResource("batch", "v1", "jobs", namespaced=True)
CONTROLLERS = "job-controller,node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller"
PATIENCE_S = 60


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    folder = tmp_path_factory.mktemp("hollow")
    server = RealServer(folder, kube_binaries)
    kubeconfig = str(server.kubeconfig)
    helpers = [
        Process(
            [
                str(kube_binaries / "kube-controller-manager"),
                *(f"--kubeconfig={kubeconfig}", "--leader-elect=false", f"--controllers={CONTROLLERS}"),
                *("--use-service-account-credentials=false", "--secure-port=0"),
            ],
            folder / "kube-controller-manager.log",
        ),
        Process(
            [
                str(kube_binaries / "kube-scheduler"),
                *(f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"),
            ],
            folder / "kube-scheduler.log",
        ),
    ]
    yield server
    for helper in helpers:
        helper.stop()
    server.stop()


class Cluster:
    """What a test sees of the server: the newest state of what it follows."""

    def __init__(self, transport: HTTPTransport) -> None:
        self._transport = transport
        self._heard = asyncio.Event()
        self.objects: dict[tuple[str, str], Object] = {}

    async def ask(self, method: str, path: str, body: Object) -> Object:
        headers = {"content-type": "application/json"}
        response = await self._transport.request(HTTPRequest(method, path, "", headers, msgspec.json.encode(body)))
        assert response.ok, response.body
        answer: Object = msgspec.json.decode(response.body)
        return answer

    async def follow(self, resource: APIResource) -> None:
        def hear(event: InformerEvent) -> None:
            if isinstance(event, ObjectApplied):
                self.objects[resource.plural, event.object["metadata"]["name"]] = event.object
            elif isinstance(event, ObjectDeleted):
                self.objects.pop((resource.plural, event.name), None)
            self._heard.set()

        path = resource.collection_path()
        await Informer(self._transport, path, hear, jitter=lambda: 0.0, sleep=asyncio.sleep).run()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._heard.clear()
                await self._heard.wait()

    def named(self, resource: APIResource) -> list[Object]:
        return [obj for (plural, _), obj in self.objects.items() if plural == resource.plural]


def play(server: RealServer, hollow: HollowKubelets, scenario: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        access = find_rest_config(str(server.kubeconfig))
        assert isinstance(access, RESTConfig)
        transport = HTTPTransport(access)
        cluster = Cluster(transport)
        work = [HollowKubeletRunner(hollow, transport).run(), *(cluster.follow(each) for each in (NODES, PODS, JOBS))]
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await scenario(cluster)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await transport.close()

    asyncio.run(main())


def ready(node: Object) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and not node["spec"].get("taints")


def a_job(name: str, count: int, **annotations: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    notes = {f"headgate.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    template = {"metadata": {"annotations": notes}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": count, "parallelism": count, "backoffLimit": 0, "template": template},
    }


def job_condition(cluster: Cluster, name: str) -> str:
    conditions = cluster.objects.get(("jobs", name), {}).get("status", {}).get("conditions", [])
    return " ".join(sorted(c["type"] for c in conditions if c["status"] == "True"))


def test_jobs_run_to_their_end_on_hollow_nodes(server: RealServer) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.until(lambda: len(cluster.named(NODES)) == 3 and all(map(ready, cluster.named(NODES))))
        await cluster.ask("POST", JOBS.collection_path("default"), a_job("good", 20, run_for="1s"))
        await cluster.ask("POST", JOBS.collection_path("default"), a_job("bad", 1, run_for="1s", exit_code="3"))
        await cluster.until(lambda: "Complete" in job_condition(cluster, "good"))
        await cluster.until(lambda: "Failed" in job_condition(cluster, "bad"))
        pods = [pod for pod in cluster.named(PODS) if pod["metadata"]["name"].startswith("good-")]
        assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 20
        assert len({pod["status"]["podIP"] for pod in pods}) == 20
        for name in ("good", "bad"):
            body = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
            await cluster.ask("DELETE", JOBS.object_path("default", name), body)

    play(server, HollowKubelets(HollowOptions(controller_manager=True), make_nodes(3, NodeTemplate())), scenario)


def test_a_deleted_pod_ends_gracefully_and_an_overbooked_one_is_rejected(server: RealServer) -> None:
    def pod(name: str, cpu: str) -> Object:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"nodeName": "node-0001", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def phase(cluster: Cluster, name: str) -> str:
        found: str = cluster.objects.get(("pods", name), {}).get("status", {}).get("phase", "")
        return found

    async def scenario(cluster: Cluster) -> None:
        await cluster.ask("POST", PODS.collection_path("default"), pod("first", "20"))
        await cluster.until(lambda: phase(cluster, "first") == "Running")
        await cluster.ask("POST", PODS.collection_path("default"), pod("second", "20"))
        await cluster.until(lambda: phase(cluster, "second") == "Failed")
        assert cluster.objects["pods", "second"]["status"]["reason"] == "OutOfcpu"
        await cluster.ask("DELETE", PODS.object_path("default", "first"), {})
        await cluster.until(lambda: ("pods", "first") not in cluster.objects)
        await cluster.ask("DELETE", PODS.object_path("default", "second"), {})

    play(
        server,
        HollowKubelets(HollowOptions(controller_manager=True, stop_s=1), make_nodes(3, NodeTemplate())),
        scenario,
    )


def test_a_running_pod_is_resized_and_a_resize_without_free_capacity_is_deferred(server: RealServer) -> None:
    def a_pod(name: str, cpu: str) -> Object:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"nodeName": "node-0002", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def allocated(cluster: Cluster, name: str) -> str:
        statuses = cluster.objects.get(("pods", name), {}).get("status", {}).get("containerStatuses") or [{}]
        assert statuses[0].get("resources", {}).get("requests") == statuses[0].get("allocatedResources")
        return str(statuses[0].get("allocatedResources", {}).get("cpu", ""))

    def pending(cluster: Cluster, name: str) -> str:
        status = cluster.objects[PODS.plural, name]["status"]
        found = [each["reason"] for each in status["conditions"] if each["type"] == "PodResizePending"]
        is_seen = status.get("observedGeneration") == cluster.objects[PODS.plural, name]["metadata"]["generation"]
        return (found[0] if found else "none") if is_seen else ""

    async def resize(cluster: Cluster, name: str, cpu: str) -> None:
        body = msgspec.json.decode(msgspec.json.encode(cluster.objects[PODS.plural, name]))
        body["metadata"].pop("resourceVersion")
        body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        await cluster.ask("PUT", PODS.object_path("default", name, "resize"), body)

    async def scenario(cluster: Cluster) -> None:
        for name in ("resized", "neighbour"):
            await cluster.ask("POST", PODS.collection_path("default"), a_pod(name, "2"))
        await cluster.until(lambda: allocated(cluster, "resized") == "2" == allocated(cluster, "neighbour"))
        await resize(cluster, "resized", "3")
        await cluster.until(lambda: allocated(cluster, "resized") == "3")
        await resize(cluster, "resized", "1k")
        await cluster.until(lambda: pending(cluster, "resized") == "Infeasible")
        await resize(cluster, "neighbour", "29")
        await cluster.until(lambda: allocated(cluster, "neighbour") == "29")
        await resize(cluster, "resized", "4")
        await cluster.until(lambda: pending(cluster, "resized") == "Deferred")
        assert allocated(cluster, "resized") == "3"
        await cluster.ask("DELETE", PODS.object_path("default", "neighbour"), {"gracePeriodSeconds": 0})
        await cluster.until(lambda: pending(cluster, "resized") == "none")
        assert allocated(cluster, "resized") == "4"
        await cluster.ask("DELETE", PODS.object_path("default", "resized"), {"gracePeriodSeconds": 0})

    play(
        server,
        HollowKubelets(HollowOptions(controller_manager=True, stop_s=1), make_nodes(3, NodeTemplate())),
        scenario,
    )
