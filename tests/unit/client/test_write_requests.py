"""Writes as requests."""

from __future__ import annotations

import msgspec

from headgate.client import write_requests
from headgate.http.transport import HTTPRequest
from headgate.kube.api_resources import NODES, PODS

BODY = {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}


def sent(request: HTTPRequest) -> tuple[str, str, str, object]:
    path = f"{request.path}?{request.query}" if request.query else request.path
    return request.method, path, request.headers["content-type"].partition("/")[2], msgspec.json.decode(request.body)


def test_a_patch_names_the_uid_beside_the_metadata_that_it_sets() -> None:
    body = {"metadata": {"labels": {"a": "b"}, "uid": "u"}, "spec": {"x": 1}}
    request = write_requests.patch(PODS, "ns", "p", "u", BODY, "strategic", "status")
    assert sent(request) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status", "strategic-merge-patch+json", body)


def test_a_write_without_a_uid_is_sent_as_it_is() -> None:
    path = "/api/v1/namespaces/ns/pods/p"
    assert sent(write_requests.patch(PODS, "ns", "p", "", BODY)) == ("PATCH", path, "merge-patch+json", BODY)
    assert sent(write_requests.delete(PODS, "ns", "p", "")) == ("DELETE", path, "json", {})


def test_a_delete_adds_the_uid_to_its_options() -> None:
    request = write_requests.delete(PODS, "ns", "p", "u", {"gracePeriodSeconds": 0})
    assert sent(request)[3] == {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}


def test_an_apply_is_forced_for_its_manager() -> None:
    request = write_requests.apply(NODES, "", "n", BODY, "me")
    assert sent(request) == ("PATCH", "/api/v1/nodes/n?fieldManager=me&force=true", "apply-patch+yaml", BODY)


def test_an_update_replaces_the_object_or_its_status() -> None:
    assert sent(write_requests.update(NODES, "", "n", BODY)) == ("PUT", "/api/v1/nodes/n", "json", BODY)
    assert write_requests.update(NODES, "", "n", BODY, "status").path == "/api/v1/nodes/n/status"
