"""The roles and bindings that a cluster starts with: all of them, on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from harness.server import Server
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def defaults(server: Server, resource: str) -> dict[str, Any]:
    """What of the default objects is not drawn or counted, by name."""
    answer = server.request("GET", f"{RBAC}/{resource}?labelSelector=kubernetes.io/bootstrapping=rbac-defaults")
    found = {}
    for item in answer.json()["items"]:
        metadata = {field: item["metadata"].get(field) for field in ("namespace", "name", "labels", "annotations")}
        found[f"{metadata['namespace']}/{metadata['name']}"] = {**item, "metadata": metadata}
    return found


@pytest.mark.parametrize("resource", ["clusterroles", "clusterrolebindings", "roles", "rolebindings"])
def test_a_cluster_starts_with_the_same_roles(servers: ServerPair, resource: str) -> None:
    real, ours = servers.on_each(lambda server: defaults(server, resource))
    assert len(real) > 5
    assert sorted(ours) == sorted(real)
    for name, expected in real.items():
        assert ours[name] == expected, name
