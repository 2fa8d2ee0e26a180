"""Headgate's webhooks as a process beside any API server: `headgate run --components webhooks`, as a user starts it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from harness.embedded_server import HEADGATE
from harness.processes import Process, free_ports
from harness.scheduler_process import PATIENCE_S, Reached, request
from harness.server import Answer, Server
from harness.users import ALICE, bearing
from headgate.capacity.names import GATE, OPT_IN

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
                *("--log-level", "info", "--shutdown-delay", "0", *flags),
            ],
            log,
        )
        self.wait_until(lambda: "webhooks: ready" in log.read_text(), PATIENCE_S)


def adds_gates(server: Server, scheduler: str = "headgate") -> bool:
    """Whether the API server asks the webhooks about pods: it learns of their configuration by a watch, after they are
    ready, and has asked those of an earlier process until then."""
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
    pod = {"metadata": {"name": "probe", "annotations": {OPT_IN: "true"}}, "spec": spec}
    answer = sent(server, "POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    return answer.status == 201 and {"name": GATE} in answer.json()["spec"].get("schedulingGates", [])


def prepare(server: Server) -> None:
    """The setup by an administrator: the queue kinds, a namespace for Headgate, and a user that may edit pods."""
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
    """Acts as the admin of the kubeconfig, which is a Headgate user here, or as another user."""
    headers = {**(_MERGE if method == "PATCH" else _JSON), **(bearing(ALICE) if as_alice else {})}
    return request(server, method, path, headers, None if body is None else json.dumps(body).encode())
