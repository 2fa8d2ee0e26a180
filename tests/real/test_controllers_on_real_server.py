"""`headgate run --components controllers` as the controller manager of a real kube-apiserver that has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.scheduler_process import wait_for
from harness.server import Server
from harness.server_kinds import running_server

pytestmark = pytest.mark.real

Object = dict[str, Any]
KUBECTL_HASH = "68d995574f"
"""What kube-controller-manager v1.35 makes of `kubectl create deployment web --image=nginx`."""


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[Server]:
    with running_server("real", tmp_path / "real", kube_binaries) as real:
        command = [str(HEADGATE), "run", "--components", "controllers", "--kubeconfig", str(real.kubeconfig)]
        controllers = Process(command, tmp_path / "controllers.log")
        try:
            yield real
        finally:
            controllers.stop()


def found(server: Server, path: str) -> Object:
    answer = server.request("GET", path, {}, None)
    return answer.json() if answer.status == 200 else {}


def kubectl(server: Server, line: str) -> str:
    done = server.kubectl(line.split(), None)
    assert done.exit == 0, done.stderr
    return done.stdout


def test_a_deployment_is_rolled_out_scaled_and_collected(server: Server) -> None:
    apps, core = "/apis/apps/v1/namespaces/default", "/api/v1/namespaces/default"

    def status() -> Object:
        counts: Object = found(server, f"{apps}/deployments/web").get("status") or {}
        return counts

    def pods() -> list[Object]:
        return found(server, f"{core}/pods").get("items") or []

    kubectl(server, "create deployment web --image=nginx --replicas=2")
    # No pod becomes ready: no scheduler binds it.
    kubectl(server, 'patch deployment web -p {"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"100%"}}}}')
    wait_for(lambda: status().get("updatedReplicas") == 2 and len(pods()) == 2)
    (made,) = found(server, f"{apps}/replicasets")["items"]
    assert made["metadata"]["name"] == f"web-{KUBECTL_HASH}"
    kubectl(server, "set image deployment/web nginx=nginx:2")
    wait_for(lambda: len(found(server, f"{apps}/replicasets")["items"]) == 2)
    kubectl(server, "rollout undo deployment/web")
    kubectl(server, "scale deployment/web --replicas=1")
    wait_for(lambda: status().get("replicas") == 1 and status().get("updatedReplicas") == 1)
    assert "3" in kubectl(server, "rollout history deployment/web")
    kubectl(server, "delete deployment web")
    wait_for(lambda: not pods() and not found(server, f"{apps}/replicasets")["items"])
