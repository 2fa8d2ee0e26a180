"""Every kind, wrong in every way: its rich manifest with one place spoiled, created and updated on both servers.

What one server refuses the other refuses in the same words; what one takes the other makes the same object of. Every
n-th way is tried, in turn from kind to kind; `--spoiled-step 1` tries them all. Nothing is stored (`dryRun`).
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from harness.case_runner import sorted_causes
from harness.compare import Difference, Seen, differences, seen
from harness.invalid_manifests import spoiled
from harness.manifests import KINDS, Kind
from harness.normalise import Normaliser
from harness.server import JSON_TYPE, Server
from harness.server_pair import ServerPair, namespace_of

pytestmark = pytest.mark.real


def ways(kind: Kind, step: int) -> list[tuple[str, dict[str, Any]]]:
    start = KINDS.index(kind) % step
    return list(itertools.islice(spoiled(kind.manifest("rich", kind.rich)), start, None, step))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind} {kind.api_version}")
def test_a_spoiled_manifest_is_answered_the_same(
    servers: ServerPair, kind: Kind, request: pytest.FixtureRequest
) -> None:
    chosen = ways(kind, request.config.getoption("--spoiled-step"))
    name = f"spoiled {kind.kind} {kind.api_version}"
    namespace = namespace_of(name)
    left, right = servers.on_each(lambda server: _run(server, kind, namespace, chosen))
    found: list[Difference] = []
    answers: dict[str, tuple[Seen, Seen]] = {}
    for (verb, way), one, other in zip(itertools.product(("created", "updated"), chosen), left, right, strict=True):
        title = f"{verb}: {way[0]}"
        answers[title] = (one, other)
        found += differences(name, title, one, other)
    servers.judge(found, answers)


def _run(server: Server, kind: Kind, namespace: str, chosen: list[tuple[str, dict[str, Any]]]) -> list[Seen]:
    def filled(value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).replace("{ns}", namespace).encode()

    def ask(method: str, where: str, body: Any) -> Seen:
        answer = server.request(method, f"{where}?dryRun=All".replace("{ns}", namespace), JSON_TYPE, filled(body))
        normal = seen(answer, Normaliser(server.address))
        return Seen(normal.status, normal.headers, sorted_causes(normal.body))

    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    server.request("POST", "/api/v1/namespaces", JSON_TYPE, json.dumps(body).encode())
    created = [ask("POST", kind.collection, manifest) for _, manifest in chosen]
    path = kind.path("rich").replace("{ns}", namespace)
    made = server.request(
        "POST", kind.collection.replace("{ns}", namespace), JSON_TYPE, filled(kind.manifest("rich", kind.rich))
    )
    version = made.json().get("metadata", {}).get("resourceVersion", "")
    updated = [ask("PUT", path, _at(manifest, version)) for _, manifest in chosen]
    server.request("DELETE", f"{path}?gracePeriodSeconds=0")
    return created + updated


def _at(manifest: dict[str, Any], version: str) -> dict[str, Any]:
    """Some kinds may not be updated without a revision; where the metadata is spoiled, it stays so."""
    metadata = manifest.get("metadata")
    return (
        {**manifest, "metadata": {**metadata, "resourceVersion": version}} if isinstance(metadata, dict) else manifest
    )
