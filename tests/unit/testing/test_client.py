"""The client of tests: which requests it sends, and what it makes of the responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.testing import ClusterClient, RequestRefused
from headgate.testing.client import UnknownKind


def resource(plural: str, kind: str, *, namespaced: bool = True) -> dict[str, Any]:
    scope = "Namespaced" if namespaced else "Cluster"
    return {"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["create", "get", "list"]}


def group(name: str, version: str, *resources: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "versions": [{"version": version, "resources": [*resources]}]}


class FakeServer:
    """Answers discovery, and everything else with one response; it keeps the requests."""

    def __init__(self, status: int = 200, body: Any = None) -> None:
        self.status, self.body = status, body if body is not None else {}
        self.apis = [
            group("batch", "v1", resource("jobs", "Job")),
            group("batch.volcano.sh", "v1alpha1", resource("jobs", "Job")),
        ]
        self.requests: list[HTTPRequest] = []
        self.client = ClusterClient(self.send)

    def send(self, request: HTTPRequest) -> HTTPResponse:
        core = group("", "v1", resource("pods", "Pod"), resource("nodes", "Node", namespaced=False))
        items = {"/api": [core], "/apis": self.apis}.get(request.path)
        if items is not None:
            return HTTPResponse(200, {}, json.dumps({"items": items}).encode())
        self.requests.append(request)
        return HTTPResponse(self.status, {}, json.dumps(self.body).encode())


def test_paths_follow_from_the_kind_and_its_scope() -> None:
    server = FakeServer()
    server.client.get("Pod", "a", "team")
    server.client.get("Node", "n", "team")
    server.client.list("batch/v1/Job", None, label_selector="a=b")
    assert [(each.path, each.query) for each in server.requests] == [
        ("/api/v1/namespaces/team/pods/a", ""),
        ("/api/v1/nodes/n", ""),
        ("/apis/batch/v1/jobs", "labelSelector=a%3Db"),
    ]


def test_an_object_goes_to_its_own_namespace_else_to_the_given_one() -> None:
    server = FakeServer()
    server.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "own"}}, "given")
    server.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, "given")
    assert [each.path.split("/")[4] for each in server.requests] == ["own", "given"]


def test_a_kind_of_several_groups_must_be_named_with_its_version() -> None:
    server = FakeServer()
    with pytest.raises(UnknownKind, match=r"batch/v1/Job, batch\.volcano\.sh/v1alpha1/Job"):
        server.client.get("Job", "a")
    with pytest.raises(UnknownKind, match="no kind Train is served"):
        server.client.get("Train", "a")
    with pytest.raises(UnknownKind, match="does not serve batch/v2/Job"):
        server.client.get("batch/v2/Job", "a")


def test_a_kind_that_is_defined_later_is_found() -> None:
    server = FakeServer()
    server.client.get("Pod", "a")
    server.apis.append(group("example.com", "v1", resource("trains", "Train")))
    server.client.get("Train", "a")
    assert server.requests[-1].path == "/apis/example.com/v1/namespaces/default/trains/a"


def test_a_refusal_has_the_status_the_reason_and_the_message() -> None:
    server = FakeServer(403, {"kind": "Status", "reason": "Forbidden", "message": "no"})
    with pytest.raises(RequestRefused, match="GET /api/v1/namespaces/default/pods/a: 403: no") as refused:
        server.client.get("Pod", "a")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_only_an_object_that_does_not_exist_is_none() -> None:
    assert FakeServer(404, {"kind": "Status", "reason": "NotFound"}).client.find("Pod", "a") is None
    with pytest.raises(RequestRefused):
        FakeServer(403, {"kind": "Status", "reason": "Forbidden"}).client.find("Pod", "a")
