"""Objects that are too large to be stored, on both servers: the same answer, and the same objects afterwards.

A real server measures custom objects as JSON, as ours does, and built-in ones as protobuf; cases keep a distance from
the limit that is larger than the difference. The size that a refusal names differs by some bytes.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from harness.server import Server
from harness.server_pair import ServerPair
from real.custom_kinds import DEFINITIONS, GROUP, STRING, definition, of, served, version

pytestmark = pytest.mark.real

LIMIT = 1536 * 1024
SENT_LIMIT = 2048 * 1024
MARGIN = 1000
PLACE = f"/apis/{GROUP}/v1/namespaces/default"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
MAPS = "/api/v1/namespaces/default/configmaps"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
LONG = "d" * 10_000
LARGES = definition("larges", "Large", version("v1", of(spec=ANYTHING)))
GROWERS = definition(
    "growers",
    "Grower",
    version("v1", of(spec=of(l={"type": "array", "items": of(a={**STRING, "default": LONG})}))),
)
JSON = "application/json"


@pytest.fixture(scope="module")
def prepared(servers: ServerPair) -> ServerPair:
    def define(server: Server) -> None:
        for wanted in (LARGES, GROWERS):
            answer = server.request("POST", DEFINITIONS, {"Content-Type": JSON}, json.dumps(wanted).encode())
            assert answer.status in (201, 409), answer.body
            served(server, wanted)

    servers.on_each(define)
    return servers


def large(name: str, length: int) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Large", "metadata": {"name": name}, "spec": {"x": "y" * length}}


def grower(name: str, count: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Grower",
        "metadata": {"name": name},
        "spec": {"l": [{} for _ in range(count)]},
    }


def role(name: str, count: int) -> dict[str, Any]:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["n" * 1000] * count}
    return {"metadata": {"name": name}, "rules": [rule]}


def ask(server: Server, method: str, path: str, body: Any = None, kind: str = JSON) -> tuple[int, Any]:
    """The code, and of a refusal all that it says, without the size of the write."""
    sent = None if body is None else json.dumps(body).encode()
    answer = server.request(method, path, {"Content-Type": kind}, sent)
    if answer.status < 300:
        return answer.status, sorted(answer.json().get("metadata", {}).keys() - {"resourceVersion"})
    return answer.status, json.loads(re.sub(rb"\(\d+ vs", b"(N vs", answer.body))


CREATED = {
    "below the limit": (f"{PLACE}/larges", large("below", LIMIT - MARGIN)),
    "too large only with its owners": (f"{PLACE}/larges", large("owners", LIMIT - 330)),
    "above the limit": (f"{PLACE}/larges", large("above", LIMIT)),
    "below what is sent at all": (f"{PLACE}/larges", large("sent", SENT_LIMIT - MARGIN)),
    "above what is sent at all": (f"{PLACE}/larges", large("unsent", SENT_LIMIT)),
    "almost as large as a body": (f"{PLACE}/larges", large("body", 3_000_000)),
    "a rehearsal": (f"{PLACE}/larges?dryRun=All", large("rehearsed", 2_900_000)),
    "defaults that fit": (f"{PLACE}/growers", grower("fits", 150)),
    "defaults that do not fit": (f"{PLACE}/growers", grower("grown", 160)),
    "a role below the limit": (ROLES, role("sizes-below", 1560)),
    "a role above the limit": (ROLES, role("sizes-above", 1580)),
    "a map of many line feeds": (MAPS, {"metadata": {"name": "sizes-lines"}, "data": {"x": "\n" * 1_000_000}}),
    "a map of many quotes": (MAPS, {"metadata": {"name": "sizes-quotes"}, "data": {"x": '"' * 1_000_000}}),
}


@pytest.mark.parametrize("name", CREATED)
def test_creating_a_large_object(prepared: ServerPair, name: str) -> None:
    path, body = CREATED[name]

    def create(server: Server) -> Any:
        made = ask(server, "POST", path, body)
        there = ask(server, "GET", f"{path.partition('?')[0]}/{body['metadata']['name']}")
        ask(server, "DELETE", f"{path.partition('?')[0]}/{body['metadata']['name']}")
        return made, there

    real, ours = prepared.on_each(create)
    assert ours == real


CHANGES: dict[str, tuple[str, Any]] = {
    "a merge patch": ("application/merge-patch+json", {"spec": {"x": "y" * 1_700_000}}),
    "a merge patch beyond what is sent": ("application/merge-patch+json", {"spec": {"x": "y" * 2_500_000}}),
    "a JSON patch": ("application/json-patch+json", [{"op": "add", "path": "/spec/x", "value": "y" * 1_700_000}]),
    "copies of a list": (
        "application/json-patch+json",
        [
            {"op": "add", "path": "/spec/x", "value": ["y" * 500_000]},
            *({"op": "copy", "from": "/spec/x", "path": f"/spec/x{at}"} for at in range(4)),
        ],
    ),
    "too many copies of a list": (
        "application/json-patch+json",
        [
            {"op": "add", "path": "/spec/x", "value": ["y" * 500_000]},
            *({"op": "copy", "from": "/spec/x", "path": f"/spec/x{at}"} for at in range(9)),
        ],
    ),
    "copies of a text": (
        "application/json-patch+json",
        [
            {"op": "add", "path": "/spec/x", "value": "y" * 500_000},
            *({"op": "copy", "from": "/spec/x", "path": f"/spec/x{at}"} for at in range(4)),
        ],
    ),
    "too many copies of a text": (
        "application/json-patch+json",
        [
            {"op": "add", "path": "/spec/x", "value": "y" * 500_000},
            *({"op": "copy", "from": "/spec/x", "path": f"/spec/x{at}"} for at in range(9)),
        ],
    ),
    "apply": ("application/apply-patch+yaml", large("changed", 1_700_000)),
    "apply that is too large with its owners": ("application/apply-patch+yaml", large("changed", LIMIT - 330)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changing_an_object_until_it_is_too_large(prepared: ServerPair, name: str) -> None:
    kind, body = CHANGES[name]
    path = f"{PLACE}/larges/changed"

    def change(server: Server) -> Any:
        made = ask(server, "POST", f"{PLACE}/larges", large("changed", 10))
        changed = ask(server, "PATCH", f"{path}?fieldManager=m{'&force=true' if 'apply' in kind else ''}", body, kind)
        left = len(server.request("GET", path).body) > 10_000
        return made, changed, left, ask(server, "DELETE", path)[0]

    real, ours = prepared.on_each(change)
    assert ours == real


def test_replacing_an_object_by_one_that_is_too_large(prepared: ServerPair) -> None:
    def replace(server: Server) -> Any:
        made = ask(server, "POST", f"{PLACE}/larges", large("replaced", 10))
        present = server.request("GET", f"{PLACE}/larges/replaced").json()
        answers = []
        for length in (LIMIT, LIMIT - 330, LIMIT - MARGIN):
            present = server.request("GET", f"{PLACE}/larges/replaced").json()
            answers.append(ask(server, "PUT", f"{PLACE}/larges/replaced", {**present, "spec": {"x": "y" * length}}))
        ask(server, "DELETE", f"{PLACE}/larges/replaced")
        return made, answers

    real, ours = prepared.on_each(replace)
    assert ours == real


def test_defaults_beyond_what_is_sent_are_refused_by_both(prepared: ServerPair) -> None:
    """How long the object would have been is not found out by ours, which stops where it can no longer be stored."""

    def create(server: Server) -> Any:
        code, said = ask(server, "POST", f"{PLACE}/growers", grower("huge", 1000))
        there = ask(server, "GET", f"{PLACE}/growers/huge")
        return code, {name: value for name, value in said.items() if name != "message"}, there

    real, ours = prepared.on_each(create)
    assert ours == real
