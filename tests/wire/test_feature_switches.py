"""Every feature gate is switched on, off, on (or the reverse) while pods have promises, with restarts of `headgate up`.

What was bound stays bound, what was promised stays promised, a queue never has more than its capability on nodes, and
nothing waits without end: after each switch, the next pod and the next job get the capacity that becomes free.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.scheduler_process import send, wait_for
from harness.server import JSON_TYPE
from headgate.capacity.names import OPT_IN, QUEUE_NAME, STAMP
from headgate.kube.feature_gates import DEFAULTS, GATES, FeatureGate

Object = dict[str, Any]
COMPONENTS = ("--components", "apiserver,nodes,controllers,scheduler,quota,jobs", "--nodes", "2")
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
ALSO_OFF = {"PodSchedulingReadiness": "QueueAllocationGate=false"}
"""Gates that a switched off gate contradicts."""


def _flags(gate: FeatureGate, enabled: bool) -> tuple[str, ...]:
    values = [f"{gate.name}={str(enabled).lower()}"]
    if not enabled and gate.name in ALSO_OFF:
        values.append(ALSO_OFF[gate.name])
    return (*COMPONENTS, "--feature-gates", ",".join(values))


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_a_feature_that_is_switched_twice_keeps_promises_and_strands_nothing(gate: FeatureGate, tmp_path: Path) -> None:
    default = getattr(DEFAULTS, gate.field)
    server = EmbeddedServer(tmp_path, flags=_flags(gate, default))
    try:
        cluster = _Cluster(server)
        cluster.fill()
        promised = cluster.promise()
        for round_number, enabled in enumerate((not default, default)):
            placed = cluster.placed()
            server.restart(_flags(gate, enabled))
            assert cluster.placed().items() >= placed.items(), "what was bound stays bound"
            cluster.replace_pod(round_number)
            cluster.replace_job()
            assert cluster.promise() == promised
            cluster.lift(round_number)
    finally:
        server.disconnect()
        server.stop()


class _Cluster:
    """A queue and a ClusterQueue for two CPUs each, with one unit more in each than fits, and a pod that was promised
    capacity and fits on no node."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server

    def fill(self) -> None:
        for name in ("small", "wide"):
            queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
            self._post(QUEUES, {**queue, "spec": {"capability": {"cpu": "2"}}})
        quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": "2"}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        for kind, path, more, spec in (
            ("ResourceFlavor", "resourceflavors", {"name": "any"}, {}),
            ("ClusterQueue", "clusterqueues", {"name": "team"}, {"namespaceSelector": {}, "resourceGroups": groups}),
            ("LocalQueue", "namespaces/default/localqueues", {"name": "team"}, {"clusterQueue": "team"}),
        ):
            body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": more, "spec": spec}
            self._post(f"{KUEUE}/{path}", body)
        self._post(PODS, _pod("promised", "wide", nodeSelector={"absent": "true"}))
        self._until(lambda: self._reason("promised") == "Unschedulable")
        for number in range(2):
            self._post(PODS, _pod(f"pod-{number}", "small"))
            self._post(JOBS, _job(f"job-{number}"))
        self._until(lambda: all(f"pod-{number}" in self.placed() for number in range(2)))
        self._until(lambda: {"job-0", "job-1"} <= self._running())
        for number in range(2, 4):
            self._post(PODS, _pod(f"pod-{number}", "small"))
            self._post(JOBS, _job(f"job-{number}"))
        for number in range(2):
            gates = [{"name": "example.com/wait"}]
            self._post(PODS, _pod(f"gated-{number}", "", schedulingGates=gates))

    def promise(self) -> str:
        """The stamp of the pod that was promised capacity and fits on no node."""
        return str(self._pod("promised")["metadata"]["annotations"][STAMP])

    def placed(self) -> dict[str, str]:
        """Pods of the queue gate on nodes: name to node."""
        found = send(self._server, "GET", PODS)["items"]
        of_queue = [each for each in found if each["metadata"]["name"].startswith("pod-")]
        placed = {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in of_queue}
        assert sum(1 for node in placed.values() if node) <= 2, "the queue has two CPUs"
        return {name: node for name, node in placed.items() if node}

    def replace_pod(self, number: int) -> None:
        """The next pod of the queue gets the capacity of one that is deleted."""
        send(self._server, "DELETE", f"{PODS}/pod-{number}", {"gracePeriodSeconds": 0})
        self._until(lambda: f"pod-{number + 2}" in self.placed())

    def replace_job(self) -> None:
        """The next job gets the quota of one that is deleted; jobs of the same second may start in any order."""
        running = self._running()
        send(self._server, "DELETE", f"{JOBS}/{min(running)}", {"propagationPolicy": "Background"})
        self._until(lambda: self._running() - running)

    def lift(self, number: int) -> None:
        """A pod with a gate of another controller runs when that gate is removed, and not before."""
        name = f"gated-{number}"
        assert "nodeName" not in self._pod(name)["spec"]
        body = {"spec": {"schedulingGates": None}}
        send(self._server, "PATCH", f"{PODS}/{name}", body, "application/merge-patch+json")
        self._until(lambda: self._pod(name)["spec"].get("nodeName"))

    def _running(self) -> set[str]:
        found = send(self._server, "GET", JOBS)["items"]
        running = {each["metadata"]["name"] for each in found if not each["spec"].get("suspend")}
        assert len(running) <= 2, "there is quota for two"
        return running

    def _pod(self, name: str) -> Object:
        found: Object = send(self._server, "GET", f"{PODS}/{name}")
        return found

    def _reason(self, name: str) -> str:
        conditions = self._pod(name).get("status", {}).get("conditions") or []
        return next((each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), "")

    def _post(self, path: str, body: Object) -> None:
        answer = self._server.request("POST", path, JSON_TYPE, json.dumps(body).encode())
        assert answer.status == 201, answer.body

    def _until(self, condition: Callable[[], Any]) -> None:
        wait_for(condition)


def _pod(name: str, queue: str, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    metadata: Object = {"name": name}
    if queue:
        metadata["annotations"] = {QUEUE_NAME: queue, OPT_IN: "true"}
    return {"metadata": metadata, "spec": {"schedulerName": "headgate", "containers": [container], **spec}}


def _job(name: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": {"headgate.dev/run-for": "1h"}}, "spec": spec}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "template": template}}
