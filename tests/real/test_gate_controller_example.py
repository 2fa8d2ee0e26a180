"""The gate controller of examples/controllers runs beside `headgate up` and beside a real server, as users run it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.processes import Process
from harness.server import JSON_TYPE, Server

SCRIPT = Path(__file__).parents[2] / "examples" / "controllers" / "dependency_ready.py"
pytestmark = pytest.mark.real

PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
OURS, FOREIGN = "example.com/dependency-ready", "example.com/quota"
LIMIT_S = 30.0


class Controller:
    def __init__(self, server: Server, folder: Path) -> None:
        self._command = [sys.executable, str(SCRIPT), "--kubeconfig", str(server.kubeconfig)]
        self._server, self._folder, self._starts = server, folder, 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        self.process = Process(self._command, self._folder / f"controller-{self._starts}.log")
        self.process.wait_until(lambda: "ready\n" in self.process.log.read_text(), LIMIT_S)
        # A real server hears of a webhook a moment after it was registered.
        probe = json.dumps(a_pod("probe", "nothing")).encode()
        path = f"{PODS}?dryRun=All"
        self.process.wait_until(
            lambda: gates(self._server.request("POST", path, JSON_TYPE, probe).json()) == [OURS], LIMIT_S
        )


@pytest.fixture(scope="module", params=["embedded_server", "real_server"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A namespace would not do: the webhook is the whole cluster's, so it is taken away again."""
    found: Server = request.getfixturevalue(request.param)
    yield found
    hook = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/dependency-ready.example.com"
    assert found.request("DELETE", hook).status == 200
    for collection in (PODS, f"{MAPS}?labelSelector=example"):
        assert found.request("DELETE", collection).status == 200


@pytest.fixture
def controller(server: Server, tmp_path: Path) -> Iterator[Controller]:
    running = Controller(server, tmp_path)
    yield running
    running.process.stop()


def create(server: Server, path: str, obj: Any) -> Any:
    answer = server.request("POST", path, JSON_TYPE, json.dumps(obj).encode())
    assert answer.status == 201, answer.body
    return answer.json()


def a_pod(name: str, dependency: str = "", *gates: str) -> dict[str, Any]:
    annotations = {"example.com/depends-on": dependency} if dependency else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": each} for each in gates]},
    }


def a_map(name: str, ready: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"example": ""}}, "data": {"ready": ready}}


def gates(pod: Any) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


def gates_become(server: Server, name: str, wanted: list[str]) -> bool:
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        if gates(server.request("GET", f"{PODS}/{name}").json()) == wanted:
            return True
        time.sleep(0.05)
    return False


def test_a_pod_waits_for_its_dependency_and_foreign_gates_stay(server: Server, controller: Controller) -> None:
    assert gates(create(server, PODS, a_pod("plain"))) == []
    assert gates(create(server, PODS, a_pod("alone", "db"))) == [OURS]
    assert gates(create(server, PODS, a_pod("both", "db", FOREIGN))) == [FOREIGN, OURS]
    assert gates(create(server, PODS, a_pod("other", "cache"))) == [OURS]
    create(server, MAPS, a_map("db", "true"))
    assert gates_become(server, "alone", [])
    assert gates_become(server, "both", [FOREIGN])
    assert gates(server.request("GET", f"{PODS}/other").json()) == [OURS]
    assert gates(create(server, PODS, a_pod("late", "db"))) == [OURS]
    assert gates_become(server, "late", [])


def test_a_controller_that_was_away_catches_up(server: Server, controller: Controller) -> None:
    create(server, MAPS, a_map("slow", "false"))
    assert gates(create(server, PODS, a_pod("patient", "slow", FOREIGN))) == [FOREIGN, OURS]
    controller.process.kill()
    create(server, PODS, a_pod("ungated", "slow"))  # the webhook fails open
    merge = {"Content-Type": "application/merge-patch+json"}
    assert server.request("PATCH", f"{MAPS}/slow", merge, b'{"data": {"ready": "true"}}').status == 200
    assert gates(server.request("GET", f"{PODS}/patient").json()) == [FOREIGN, OURS]
    controller.start()
    assert gates_become(server, "patient", [FOREIGN])
