"""The gate PodSchedulingReadiness off, on and off again over the same data: nothing that was stored is lost.

Only the embedded server can do this: on a real v1.35 the feature is locked on. What it does when off is what Kubernetes
did before that: the field is dropped from new pods, and kept and honoured as data on the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.objects import binding, gated
from harness.server import JSON_TYPE, Answer

OFF = ("--feature-gates=PodSchedulingReadiness=false,QueueAllocationGate=false",)
ON = ("--feature-gates=PodSchedulingReadiness=true",)
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    running = EmbeddedServer(tmp_path, flags=OFF)
    yield running
    running.disconnect()
    running.stop()


def restart(server: EmbeddedServer, flags: tuple[str, ...]) -> None:
    server.disconnect()
    server.restart(flags)


def create(server: EmbeddedServer, name: str, *gates: str) -> Answer:
    return server.request("POST", PODS, JSON_TYPE, json.dumps(gated(name, *gates)).encode())


def read(server: EmbeddedServer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.request("GET", f"{PODS}/{name}").json()
    return found


def patched(server: EmbeddedServer, name: str, change: dict[str, Any]) -> Answer:
    return server.request("PATCH", f"{PODS}/{name}", MERGE, json.dumps(change).encode())


def bound(server: EmbeddedServer, name: str) -> Answer:
    return server.request("POST", f"{PODS}/{name}/binding", JSON_TYPE, json.dumps(binding(name)).encode())


def gates_of(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def reasons(pod: dict[str, Any]) -> list[str]:
    return [condition.get("reason", "") for condition in pod["status"].get("conditions", [])]


def test_gates_are_dropped_kept_and_dropped_again_over_the_same_data(server: EmbeddedServer) -> None:
    dropped = create(server, "first", "a", "b")
    assert dropped.status == 201
    assert gates_of(dropped.json()) == []
    assert "SchedulingGated" not in reasons(dropped.json())

    restart(server, ON)
    assert gates_of(read(server, "first")) == []
    held = create(server, "second", "a", "b")
    assert gates_of(held.json()) == ["a", "b"]
    assert reasons(held.json()) == ["SchedulingGated"]
    assert bound(server, "second").status == 409

    restart(server, OFF)
    kept = read(server, "second")
    assert gates_of(kept) == ["a", "b"]
    assert kept["metadata"]["uid"] == held.json()["metadata"]["uid"]
    assert kept["metadata"]["resourceVersion"] == held.json()["metadata"]["resourceVersion"]
    assert gates_of(create(server, "third", "a").json()) == []

    restart(server, ON)
    assert gates_of(read(server, "second")) == ["a", "b"]
    assert gates_of(read(server, "third")) == []
    assert bound(server, "second").status == 409


def test_an_old_gated_pod_is_bound_and_changed_while_the_gate_is_off(server: EmbeddedServer) -> None:
    restart(server, ON)
    create(server, "bind", "a")
    create(server, "change", "a", "b")
    restart(server, OFF)

    assert bound(server, "bind").status == 201
    assert read(server, "bind")["spec"]["nodeName"] == "some-node"

    labelled = patched(server, "change", {"metadata": {"labels": {"x": "y"}}})
    assert (labelled.status, gates_of(labelled.json())) == (200, ["a", "b"])
    fewer = patched(server, "change", {"spec": {"schedulingGates": [{"name": "b"}]}})
    assert (fewer.status, gates_of(fewer.json())) == (200, ["b"])
    none = patched(server, "change", {"spec": {"schedulingGates": None}})
    assert (none.status, gates_of(none.json())) == (200, [])


def test_a_gate_cannot_be_added_to_an_old_pod_while_the_gate_is_off(server: EmbeddedServer) -> None:
    create(server, "plain")
    added = patched(server, "plain", {"spec": {"schedulingGates": [{"name": "a"}]}})
    assert gates_of(read(server, "plain")) == []
    assert added.status in (200, 422)


def test_templates_lose_the_field_too_while_the_gate_is_off(server: EmbeddedServer) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": gated("x", "a")["spec"]}
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}, "template": template}
    made = server.request("POST", "/api/v1/namespaces/default/podtemplates", JSON_TYPE, json.dumps(body).encode())
    assert made.status == 201
    assert "schedulingGates" not in made.json()["template"]["spec"]
