"""Headgate's webhooks as a process beside any API server: `headgate run --components webhooks`, as a user starts it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from harness.embedded_server import HEADGATE
from harness.processes import Process, free_ports
from harness.scheduler_process import PATIENCE_S, Reached
from harness.server import Answer, Server
from harness.users import ALICE, bearing

Object = dict[str, Any]

NAMESPACE = "headgate-system"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/headgate-webhooks"
_KINDS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{_KINDS}/mutatingwebhookconfigurations/headgate"
VALIDATING = f"{_KINDS}/validatingwebhookconfigurations/headgate"
_JSON = {"Content-Type": "application/json"}
_MERGE = {"Content-Type": "application/merge-patch+json"}


class WebhookProcess(Process):
    def __init__(self, server: Reached, log: Path, *flags: str, port: int = 0) -> None:
        self.port = port or free_ports(1)[0]
        super().__init__(
            [
                str(HEADGATE),
                *("run", "--kubeconfig", str(server.kubeconfig), "--components", "webhooks"),
                *("--webhook-url", f"https://127.0.0.1:{self.port}", "--webhook-listen", f"127.0.0.1:{self.port}"),
                *("--log-level", "info", *flags),
            ],
            log,
        )
        self.wait_until(lambda: "webhooks: ready" in log.read_text(), PATIENCE_S)


def prepare(server: Server) -> None:
    """What an administrator does once: the kinds of queues, a namespace for us, and a user who may edit pods."""
    command = [str(HEADGATE), "install-crds", "--kubeconfig", str(server.kubeconfig)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    sent(server, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    grant = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
    }
    sent(server, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", grant)


def sent(server: Server, method: str, path: str, body: Any = None, *, as_alice: bool = False) -> Answer:
    """As the admin of the kubeconfig, who is Headgate here, or as a user who is not."""
    headers = {**(_MERGE if method == "PATCH" else _JSON), **(bearing(ALICE) if as_alice else {})}
    return server.request(method, path, headers, None if body is None else json.dumps(body).encode())
