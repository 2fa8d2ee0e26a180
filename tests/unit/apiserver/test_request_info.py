"""The verb, resource and name of a request, from its method, path and query."""

from __future__ import annotations

import pytest

from headgate.apiserver.request.request_info import RequestInfo, request_info


def info_of(request: str) -> RequestInfo:
    method, _, target = request.partition(" ")
    path, _, query = target.partition("?")
    return request_info(method, path, query)


@pytest.mark.parametrize(
    ("request_line", "verb", "group", "namespace", "resource", "name", "subresource"),
    [
        ("GET /api/v1/pods", "list", "", "", "pods", "", ""),
        ("HEAD /api/v1/pods", "list", "", "", "pods", "", ""),
        ("GET /api/v1/pods?watch=true", "watch", "", "", "pods", "", ""),
        ("GET /api/v1/pods?watch=0", "list", "", "", "pods", "", ""),
        ("GET /api/v1/namespaces/t/pods/a", "get", "", "t", "pods", "a", ""),
        ("GET /api/v1/namespaces/t/pods/a?watch=true", "get", "", "t", "pods", "a", ""),
        ("GET /api/v1/namespaces/t/pods?fieldSelector=metadata.name%3Da", "list", "", "t", "pods", "a", ""),
        ("PUT /api/v1/namespaces/t/pods/a/status", "update", "", "t", "pods", "a", "status"),
        ("POST /apis/apps/v1/namespaces/t/deployments", "create", "apps", "t", "deployments", "", ""),
        ("PATCH /apis/apps/v1/namespaces/t/deployments/d", "patch", "apps", "t", "deployments", "d", ""),
        ("DELETE /api/v1/namespaces/t/pods/a", "delete", "", "t", "pods", "a", ""),
        ("DELETE /api/v1/namespaces/t/pods", "deletecollection", "", "t", "pods", "", ""),
        ("DELETE /api/v1/namespaces/t/pods/", "deletecollection", "", "t", "pods", "", ""),
        ("OPTIONS /api/v1/pods", "", "", "", "pods", "", ""),
        ("GET /api/v1/namespaces", "list", "", "", "namespaces", "", ""),
        ("GET /api/v1/namespaces/t", "get", "", "t", "namespaces", "t", ""),
        ("PUT /api/v1/namespaces/t/finalize", "update", "", "t", "namespaces", "t", "finalize"),
        ("GET /api/v1/watch/pods", "watch", "", "", "pods", "", ""),
        ("DELETE /api/v1/watch/namespaces/t/pods/a", "watch", "", "t", "pods", "a", ""),
        ("POST /api/v1/watch/namespaces/t/pods", "watch", "", "t", "pods", "", ""),
        ("GET /api/v1/proxy/namespaces/t/pods/a/x", "proxy", "", "t", "pods", "a", ""),
        ("GET /api/v1/namespaces/t/pods/a/proxy/x/y", "get", "", "t", "pods", "a", "proxy"),
        ("GET /api/v1/namespaces/t/pods//status", "list", "", "t", "pods", "", "status"),
        ("GET //api/v1/namespaces/t%2Fpods/a", "get", "", "t", "pods", "a", ""),
    ],
)
def test_a_request_for_a_resource_has_a_verb_and_an_object(
    request_line: str, verb: str, group: str, namespace: str, resource: str, name: str, subresource: str
) -> None:
    info = info_of(request_line)
    assert info.is_resource_request
    assert (info.verb, info.group, info.namespace) == (verb, group, namespace)
    assert (info.resource, info.name, info.subresource) == (resource, name, subresource)


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/x/y/z"])
def test_a_path_above_the_resources_is_about_no_resource(path: str) -> None:
    info = request_info("POST", path)
    assert (info.is_resource_request, info.verb, info.path) == (False, "post", path)


@pytest.mark.parametrize("path", ["/api/v1/watch", "/api/v1/watch/", "/apis/apps/v1/proxy"])
def test_a_path_that_ends_after_its_verb_is_refused(path: str) -> None:
    assert request_info("GET", path).problem == f"unable to determine kind and namespace from url, {path}"


@pytest.mark.parametrize(
    ("request_line", "long_running"),
    [
        ("GET /api/v1/pods", False),
        ("GET /api/v1/pods?watch=1", True),
        ("GET /api/v1/watch/pods", True),
        ("GET /api/v1/namespaces/t/pods/a/log", True),
        ("POST /api/v1/namespaces/t/pods/a/exec", True),
        ("POST /api/v1/namespaces/t/pods/a/binding", False),
        ("GET /version", False),
    ],
)
def test_streams_are_long_running(request_line: str, long_running: bool) -> None:
    assert info_of(request_line).is_long_running is long_running
