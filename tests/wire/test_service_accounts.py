"""Pods of a namespace that has only just been created, on a cluster with its controllers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.server import JSON_TYPE

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kube_binaries: Path) -> Iterator[EmbeddedServer]:
    flags = ("--components", "apiserver,controllers")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), kube_binaries / "kubectl", flags, disabled_plugins="")
    yield running
    running.disconnect()
    running.stop()


def send(cluster: EmbeddedServer, path: str, body: Any) -> int:
    return cluster.request("POST", path, JSON_TYPE, json.dumps(body).encode()).status


def test_a_pod_may_follow_its_namespace_at_once(cluster: EmbeddedServer) -> None:
    for number in range(50):
        name = f"new-{number}"
        assert send(cluster, "/api/v1/namespaces", {"metadata": {"name": name}}) == 201
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert send(cluster, f"/api/v1/namespaces/{name}/pods", pod) == 201
        made = cluster.request("GET", f"/api/v1/namespaces/{name}/pods/a").json()
        assert made["spec"]["serviceAccountName"] == "default"


def test_kubectl_runs_a_pod_in_a_namespace_that_it_has_just_created(cluster: EmbeddedServer) -> None:
    assert cluster.kubectl(["create", "namespace", "fresh"]).exit == 0
    ran = cluster.kubectl(["run", "a", "--image", "i", "-n", "fresh"])
    assert (ran.exit, ran.stdout) == (0, "pod/a created\n")
    named = cluster.kubectl(["get", "pod", "a", "-n", "fresh", "-o", "jsonpath={.spec.serviceAccountName}"])
    assert named.stdout == "default"


def test_a_deployment_that_follows_its_namespace_at_once_gets_its_pods(cluster: EmbeddedServer) -> None:
    manifest = (
        '{"apiVersion":"v1","kind":"List","items":['
        '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"app"}},'
        '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"app"},"spec":{"replicas":3,'
        '"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},'
        '"spec":{"containers":[{"name":"c","image":"i"}]}}}}]}'
    )
    assert cluster.kubectl(["apply", "-f", "-"], manifest).exit == 0
    waited = cluster.kubectl(
        ["wait", "-n", "app", "deployment/d", "--for=jsonpath={.status.replicas}=3", "--timeout=30s"]
    )
    assert waited.exit == 0, waited
    events = cluster.kubectl(["get", "events", "-n", "app", "--field-selector", "type=Warning", "-o", "name"])
    assert events.stdout == ""
