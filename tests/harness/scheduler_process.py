"""A Headgate scheduler as a process beside any API server: `headgate run`, exactly as a user starts it.

Also the few requests that tests of scheduling need. A test waits for a state, never for a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.server import JSON_TYPE, Answer, Server

Object = dict[str, Any]

PATIENCE_S = 60.0
RETRY_S = 0.1
_NAMESPACE = "/api/v1/namespaces/default"
_PATCHES = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}


class Reached(Protocol):
    """A server, or a wire to one."""

    kubeconfig: Path


class SchedulerProcess(Process):
    def __init__(self, server: Reached, log: Path, *flags: str) -> None:
        command = [str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), *flags]
        super().__init__(command, log)
        self.wait_until(lambda: "schedules pods" in log.read_text(), PATIENCE_S)


def send(server: Server, method: str, path: str, body: Any = None, content: str = "") -> Object:
    """The object that the server answers with."""
    sent = None if body is None else json.dumps(body).encode()
    answer = request(server, method, path, {"Content-Type": content} if content else JSON_TYPE, sent)
    assert answer.status in (200, 201), (method, path, answer.status, answer.body[:500])
    found: Object = answer.json()
    return found


def request(
    server: Server, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Answer:
    """The answer to a request. While a kind is being defined anew, kube-apiserver asks its clients to come again (429):
    the request is sent again then, as every client does it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := server.request(method, path, headers, body)).status == 429 and time.monotonic() < deadline_s:
        time.sleep(RETRY_S)
    return answer


def create_nodes(server: Server, nodes: Iterable[Object]) -> None:
    for node in nodes:
        send(server, "POST", "/api/v1/nodes", node)


def create_priority_class(server: Server, body: Object) -> None:
    """Pods may name it then: the admission plugin of an API server learns of classes by a watch, and refuses pods that
    name others."""
    send(server, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": body["metadata"]["name"]}
    pod = json.dumps({"metadata": {"name": "probe"}, "spec": spec}).encode()
    wait_for(lambda: server.request("POST", f"{_NAMESPACE}/pods?dryRun=All", JSON_TYPE, pod).status == 201)


def create_pod(server: Server, pod: Object) -> Object:
    return send(server, "POST", f"{_NAMESPACE}/pods", pod)


def get_pod(server: Server, name: str) -> Object:
    return send(server, "GET", f"{_NAMESPACE}/pods/{name}")


def patch_pod(server: Server, name: str, body: Any, how: str = "merge") -> Object:
    return send(server, "PATCH", f"{_NAMESPACE}/pods/{name}", body, _PATCHES[how])


def delete_pod(server: Server, name: str) -> None:
    send(server, "DELETE", f"{_NAMESPACE}/pods/{name}", {"gracePeriodSeconds": 0})


def pods(server: Server) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in send(server, "GET", f"{_NAMESPACE}/pods")["items"]}


def events_about(server: Server, name: str) -> list[Object]:
    listed = send(server, "GET", f"{_NAMESPACE}/events?fieldSelector=involvedObject.name={name}")
    return list(listed["items"])


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def scheduled_reason(pod: Object) -> str:
    """The reason of the PodScheduled condition; empty if there is none."""
    conditions = {each["type"]: each for each in pod["status"].get("conditions") or ()}
    return str(conditions.get("PodScheduled", {}).get("reason") or "")


def wait_for(
    what: Callable[[], Any],
    process: Process | None = None,
    limit_s: float = PATIENCE_S,
    state: Callable[[], str] = lambda: "",
) -> Any:
    """The first result that is true. If there is none in time, the error has ``state`` and the end of the process's
    log."""
    deadline_s = time.monotonic() + limit_s
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() >= deadline_s:
            raise AssertionError("\n".join(("it did not happen", process.tail() if process else "", state())))
        time.sleep(0.02)
