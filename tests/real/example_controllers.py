"""An example of `examples/controllers` beside a server of either kind, as users run it: a process of its own, with the
rights of its own file and no others, behind a proxy that can lose a response."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from harness.faulty_proxy import FaultyProxy
from harness.processes import Process
from harness.real_server import REPOSITORY
from harness.scheduler_process import PATIENCE_S, send, wait_for
from harness.server import JSON_TYPE, Server
from harness.users import bearing

Object = dict[str, Any]

EXAMPLES = REPOSITORY / "examples" / "controllers"
PODS = "/api/v1/namespaces/default/pods"
_APPLY = "application/apply-patch+yaml"
_PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ConfigMap": "configmaps",
    "Pod": "pods",
    "Job": "jobs",
}


class ExampleController:
    """``name`` is that of its files, with dashes, and of its service account. ``readable``: what it lists."""

    def __init__(self, server: Server, folder: Path, name: str, readable: Iterable[str]) -> None:
        self._server, self._folder, self._name = server, folder, name
        self._script = EXAMPLES / f"{name.replace('-', '_')}.py"
        self._rights = documents(f"{name}-rights.yaml")
        for each in self._rights:
            apply(server, each)
        account = f"/api/v1/namespaces/kube-system/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = send(server, "POST", account, body)["status"]["token"]
        # A real server hears of new roles a moment later.
        wait_for(lambda: all(server.request("GET", path, bearing(token)).status == 200 for path in readable))
        self.proxy = FaultyProxy(server, folder)
        config = yaml.safe_load(self.proxy.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        self.proxy.kubeconfig.write_text(yaml.safe_dump(config))
        self._logs: list[Path] = []
        self.start()

    def start(self) -> None:
        self._logs.append(self._folder / f"{self._name}-{len(self._logs)}.log")
        command = [sys.executable, str(self._script), "--kubeconfig", str(self.proxy.kubeconfig)]
        self.process = Process(command, self._logs[-1])
        self.process.wait_until(lambda: "ready\n" in self.log(), PATIENCE_S)

    def log(self) -> str:
        return self._logs[-1].read_text()

    def until(self, what: Any) -> Any:
        return wait_for(what, self.process)

    def lose_response(self, path: str) -> None:
        """The server performs the next patch of this object, and the response does not arrive until `kill`."""
        self.proxy.lose("PATCH", path, hold=True)

    def kill(self) -> None:
        self.process.kill()
        self.proxy.end_faults()

    def patches(self) -> Counter[str]:
        """How often each object was patched, by its name."""
        return Counter(path.rpartition("/")[2] for _, method, path in self.proxy.writes if method == "PATCH")

    def close(self) -> None:
        """Ctrl-C ends it cleanly, and no request was forbidden."""
        self.process.signal(signal.SIGINT)
        code = self.process.wait()
        self.proxy.close()
        for each in reversed(self._rights):
            send(self._server, "DELETE", path_of(each))
        logs = [log.read_text() for log in self._logs]
        assert (code, logs[-1].splitlines()[-1]) == (0, "stopped"), logs[-1]
        assert [line for log in logs for line in log.splitlines() if "forbidden" in line or "Traceback" in line] == []


def documents(name: str) -> list[Object]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def path_of(obj: Object) -> str:
    version, metadata = obj["apiVersion"], obj["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{namespace}/{_PLURALS[obj['kind']]}/{metadata['name']}"


def apply(server: Server, obj: Object) -> Object:
    return send(server, "PATCH", f"{path_of(obj)}?fieldManager=test&force=true", obj, _APPLY)


def gated_pod(name: str, *gates: str, annotations: Object | None = None, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": spec.pop("requests", {})}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"containers": [container], "schedulingGates": [{"name": each} for each in gates], **spec},
    }


def gates(server: Server, pod: str) -> list[str]:
    return [each["name"] for each in send(server, "GET", f"{PODS}/{pod}")["spec"].get("schedulingGates") or ()]


def finish(server: Server, pod: str) -> None:
    send(server, "PATCH", f"{PODS}/{pod}/status", {"status": {"phase": "Succeeded"}}, "application/merge-patch+json")


def delete_pods(server: Server) -> None:
    for each in send(server, "GET", PODS)["items"]:
        body = json.dumps({"gracePeriodSeconds": 0}).encode()
        answer = server.request("DELETE", f"{PODS}/{each['metadata']['name']}", JSON_TYPE, body)
        assert answer.status in (200, 404), answer.body  # a garbage collector may have been faster


def reasons(server: Server, name: str, collection: str = PODS) -> dict[str, str]:
    """The messages of the Events about an object, by reason; not those of an earlier object of its name."""
    uid = send(server, "GET", f"{collection}/{name}")["metadata"]["uid"]
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid={uid}"
    return {each["reason"]: each["message"] for each in send(server, "GET", path)["items"]}


def running(server: Server, folder: Path, name: str, readable: Iterable[str]) -> Iterator[ExampleController]:
    controller = ExampleController(server, folder, name, readable)
    try:
        yield controller
    finally:
        controller.close()
