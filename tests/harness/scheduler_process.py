"""A Headgate scheduler as a process beside any API server: `headgate run`, exactly as a user starts it.

Also the few requests that tests of scheduling need. A test waits for a state, never for a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.server import JSON_TYPE, Server

Object = dict[str, Any]

PATIENCE_S = 30.0
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
    sent = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": content} if content else JSON_TYPE
    answer = server.request(method, path, headers, sent)
    assert answer.status in (200, 201), (method, path, answer.status, answer.body[:500])
    found: Object = answer.json()
    return found


def create_nodes(server: Server, nodes: Iterable[Object]) -> None:
    for node in nodes:
        send(server, "POST", "/api/v1/nodes", node)


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
    """The first thing that counts as true; if it does not come, ``state`` and the end of the process's log are told."""
    deadline_s = time.monotonic() + limit_s
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() >= deadline_s:
            raise AssertionError("\n".join(("it did not happen", process.tail() if process else "", state())))
        time.sleep(0.02)
