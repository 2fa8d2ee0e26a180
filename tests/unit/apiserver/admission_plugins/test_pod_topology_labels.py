"""A pod learns the zone and region of its node; results as a v1.35.8 API server gave them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded, a_pod

PODS = "/api/v1/namespaces/t/pods"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def with_nodes() -> Embedded:
    server = Embedded()
    labels = {ZONE: "z1", REGION: "r1", "topology.kubernetes.io/rack": "k", "x": "y"}
    server.post("/api/v1/nodes", {"metadata": {"name": "labelled", "labels": labels}})
    server.post("/api/v1/nodes", {"metadata": {"name": "bare"}})
    return server


def labelled(name: str = "a", **spec: Any) -> dict[str, Any]:
    pod = a_pod(name, **spec)
    pod["metadata"]["labels"] = {ZONE: "mine", "q": "r"}
    return pod


FROM_NODE = {ZONE: "z1", REGION: "r1", "q": "r", "w": "v"}
OWN = {ZONE: "mine", "q": "r", "w": "v"}


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        ({"kind": "Node", "name": "labelled"}, FROM_NODE),
        ({"apiVersion": "v1", "kind": "Node", "name": "labelled"}, FROM_NODE),
        ({"name": "labelled"}, OWN),
        ({"kind": "Node", "name": "bare"}, OWN),
        ({"kind": "Node", "name": "nowhere"}, OWN),
    ],
)
def test_binding_gives_a_pod_the_topology_of_its_node(target: Any, labels: Any) -> None:
    server = with_nodes()
    server.post(PODS, labelled())
    binding = {"metadata": {"name": "a", "labels": {"w": "v"}}, "target": target}
    assert server.post(f"{PODS}/a/binding", binding).status == 201
    assert server.get(f"{PODS}/a").body["metadata"]["labels"] == labels


def test_the_old_way_to_bind_copies_nothing() -> None:
    server = with_nodes()
    server.post(PODS, labelled())
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "labelled"}}
    assert server.post("/api/v1/namespaces/t/bindings", binding).status == 201
    assert server.get(f"{PODS}/a").body["metadata"]["labels"] == {ZONE: "mine", "q": "r"}


@pytest.mark.parametrize(
    ("node", "labels"),
    [
        ("labelled", {ZONE: "z1", REGION: "r1", "q": "r"}),
        ("bare", {ZONE: "mine", "q": "r"}),
        ("nowhere", {ZONE: "mine", "q": "r"}),
        ("", {ZONE: "mine", "q": "r"}),
    ],
)
def test_a_pod_that_is_born_with_a_node_has_its_topology_from_the_start(node: str, labels: Any) -> None:
    made = with_nodes().post(PODS, labelled(nodeName=node))
    assert (made.status, made.body["metadata"]["labels"]) == (201, labels)
