"""A Deployment and a StatefulSet in a queue of Kueue, by kubectl: pods wait, run within quota, and are preempted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.scheduler_process import wait_for

pytestmark = pytest.mark.real

COMPONENTS = "apiserver,nodes,controllers,scheduler,quota,jobs"
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: "2"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: default}
spec: {clusterQueue: cq}
"""
OWNER = """
apiVersion: apps/v1
kind: KIND
metadata:
  name: NAME
  labels: {kueue.x-k8s.io/queue-name: lq}
  annotations: ANNOTATIONS
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: c, image: registry.example/web:1, resources: {requests: {cpu: "1"}}}]}
"""


def manifest(kind: str, name: str, replicas: int, annotations: str = "{}") -> str:
    words = {"KIND": kind, "NAME": name, "REPLICAS": str(replicas), "ANNOTATIONS": annotations}
    text = OWNER
    for word, value in words.items():
        text = text.replace(word, value)
    return text


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[EmbeddedServer]:
    flags = ("--components", COMPONENTS, "--nodes", "2", "--feature-gates", "SchedulingGatedBy=true")
    running = EmbeddedServer(tmp_path / "up", kube_binaries / "kubectl", flags)
    kubectl(running, "apply", "-f", "-", stdin=QUEUE)
    yield running
    running.disconnect()
    running.stop()


def kubectl(server: EmbeddedServer, *words: str, stdin: str | None = None) -> str:
    done = server.kubectl(list(words), stdin)
    assert done.exit == 0, done
    return done.stdout


def items(server: EmbeddedServer, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl(server, "get", kind, "-o", "json"))["items"]
    return found


def standing(server: EmbeddedServer, app: str) -> tuple[int, int]:
    """How many of its pods run, and how many wait behind their gate."""
    pods = [each for each in items(server, "pods") if each["metadata"]["labels"].get("app") == app]
    gated = [each for each in pods if each["spec"].get("schedulingGates")]
    return len([each for each in pods if (each.get("status") or {}).get("phase") == "Running"]), len(gated)


def test_the_pods_of_a_deployment_and_of_a_stateful_set_share_a_queue(server: EmbeddedServer) -> None:
    kubectl(server, "apply", "-f", "-", stdin=manifest("Deployment", "web", 3))
    wait_for(lambda: standing(server, "web") == (2, 1))
    kubectl(server, "apply", "-f", "-", stdin=manifest("StatefulSet", "db", 2))
    wait_for(lambda: any(each["metadata"]["name"].startswith("statefulset-db-") for each in items(server, "workloads")))
    assert standing(server, "db")[0] == 0
    refused = server.kubectl(["scale", "statefulset", "db", "--replicas", "3"])
    assert "spec.replicas: Invalid value: 3: field is immutable" in refused.stderr
    kubectl(server, "delete", "deployment", "web")
    wait_for(lambda: standing(server, "db") == (2, 0))
    kubectl(server, "delete", "statefulset", "db")
    wait_for(lambda: items(server, "pods") == items(server, "workloads") == [])


def test_a_held_deployment_has_pods_and_no_workloads_until_its_gate_is_removed(server: EmbeddedServer) -> None:
    gate = "kueue.x-k8s.io/scheduling-gated-by"
    kubectl(server, "apply", "-f", "-", stdin=manifest("Deployment", "web", 2, f'{{{gate}: "example.com/gate"}}'))
    wait_for(lambda: standing(server, "web") == (0, 2))
    kubectl(server, "apply", "-f", "-", stdin=manifest("Deployment", "other", 1))
    wait_for(lambda: standing(server, "other") == (1, 0))  # by then the first one would have had its turn, too
    assert [each["metadata"]["name"].startswith("pod-other-") for each in items(server, "workloads")] == [True]
    refused = server.kubectl(["annotate", "deployment", "other", f"{gate}=example.com/late"])
    assert "cannot be added after creation" in refused.stderr
    kubectl(server, "delete", "deployment", "other")
    kubectl(server, "annotate", "deployment", "web", f"{gate}-")
    wait_for(lambda: standing(server, "web") == (2, 0))
