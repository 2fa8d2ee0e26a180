"""Writes into missing or terminating namespaces; responses as of a v1.35.8 API server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from embedded import TOKEN, Embedded, a_pod
from headgate.apiserver.handler import handle
from headgate.apiserver.request.messages import Commit, Moment, ServerRequest

BINDING = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
LEASE = {"metadata": {"name": "a"}, "spec": {}}


def with_terminating() -> Embedded:
    server = Embedded()
    server.post("/api/v1/namespaces", {"metadata": {"name": "going"}})
    server.post("/api/v1/namespaces/going/pods", a_pod("a"))
    server.post("/api/v1/namespaces/going/configmaps", {"metadata": {"name": "old"}})
    assert server.delete("/api/v1/namespaces/going").body["status"]["phase"] == "Terminating"
    return server


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/namespaces/nope/pods", a_pod()),
        (
            "POST",
            "/api/v1/namespaces/nope/events",
            {"metadata": {"name": "x"}, "involvedObject": {"namespace": "nope"}},
        ),
        ("POST", "/api/v1/namespaces/nope/pods/a/binding", BINDING),
        ("POST", "/api/v1/namespaces/nope/bindings", BINDING),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/nope/leases/a", LEASE),
    ],
)
def test_nothing_is_created_in_a_namespace_that_does_not_exist(method: str, path: str, body: Any) -> None:
    refused = Embedded().call(method, path, body)
    assert refused.status == 404
    assert refused.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'namespaces "nope" not found',
        "reason": "NotFound",
        "details": {"name": "nope", "kind": "namespaces"},
        "code": 404,
    }


def test_applying_into_a_missing_namespace_names_the_namespace() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    refused = Embedded().apply("/api/v1/namespaces/nope/configmaps/a", config, "me")
    assert (refused.status, refused.body["message"]) == (404, 'namespaces "nope" not found')


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_changing_what_does_not_exist_names_the_object_and_not_its_missing_namespace(method: str) -> None:
    refused = Embedded().call(method, "/api/v1/namespaces/nope/pods/a", a_pod() if method == "PUT" else None)
    assert (refused.status, refused.body["message"]) == (404, 'pods "a" not found')


@pytest.mark.parametrize(
    ("path", "body", "what", "details"),
    [
        ("/api/v1/namespaces/going/pods", a_pod("b"), 'pods "b"', {"name": "b", "kind": "pods"}),
        (
            "/api/v1/namespaces/going/configmaps",
            {"metadata": {"generateName": "gen-"}},
            'configmaps "gen-"',
            {"name": "gen-", "kind": "configmaps"},
        ),
        ("/api/v1/namespaces/going/configmaps", {}, 'configmaps "Unknown"', {"name": "Unknown", "kind": "configmaps"}),
        (
            "/apis/coordination.k8s.io/v1/namespaces/going/leases",
            LEASE,
            'leases.coordination.k8s.io "a"',
            {"name": "a", "group": "coordination.k8s.io", "kind": "leases"},
        ),
        ("/api/v1/namespaces/going/pods/a/binding", BINDING, 'pods "a"', {"name": "a", "kind": "pods"}),
        ("/api/v1/namespaces/going/bindings", BINDING, 'bindings "a"', {"name": "a", "kind": "bindings"}),
    ],
)
def test_nothing_new_comes_into_a_namespace_that_is_terminating(path: str, body: Any, what: str, details: Any) -> None:
    refused = with_terminating().post(path, body)
    cause = {
        "reason": "NamespaceTerminating",
        "message": "namespace going is being terminated",
        "field": "metadata.namespace",
    }
    text = "unable to create new content in namespace going because it is being terminated"
    assert refused.status == 403
    assert refused.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{what} is forbidden: {text}",
        "reason": "Forbidden",
        "details": {**details, "causes": [cause]},
        "code": 403,
    }


def test_what_is_in_a_terminating_namespace_may_still_change_and_go() -> None:
    server = with_terminating()
    old = {"metadata": {"name": "old"}, "data": {"k": "v"}}
    assert server.put("/api/v1/namespaces/going/configmaps/old", old).status == 200
    assert server.delete("/api/v1/namespaces/going/configmaps/old").status == 200
    assert server.patch("/api/v1/namespaces/going", {"metadata": {"labels": {"a": "b"}}}).status == 200


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_three_namespaces_may_not_be_deleted(name: str) -> None:
    server = Embedded(namespace=name)
    refused = server.delete(f"/api/v1/namespaces/{name}")
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert refused.body["details"] == {"name": name, "kind": "namespaces"}
    assert server.get(f"/api/v1/namespaces/{name}").body["status"]["phase"] == "Active"


def test_the_namespace_of_node_leases_may_be_deleted() -> None:
    assert Embedded(namespace="kube-node-lease").delete("/api/v1/namespaces/kube-node-lease").status == 200


def test_a_namespace_that_is_not_yet_on_disk_takes_writes_already() -> None:
    server = Embedded()
    body = msgspec.json.encode({"metadata": {"name": "fresh"}})
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    moment = Moment(server.epoch_s, lambda: "uid", lambda: "suffix", lambda limit: 0)
    creating = handle(server.api, ServerRequest("POST", "/api/v1/namespaces", "", headers, body), moment)
    assert isinstance(next(creating), Commit)
    assert server.get("/api/v1/namespaces/fresh").status == 404
    assert server.post("/api/v1/namespaces/fresh/configmaps", {"metadata": {"name": "a"}}).status == 201
