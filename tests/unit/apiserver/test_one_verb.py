"""A user with one right: no request, however it is written, does more than that right allows.

Authorization, audit and execution read the same :class:`RequestInfo`. The tests here look at what happens, not at how:
whatever the method and the path, the objects change only in the way of the one verb that was granted.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from embedded import Embedded
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.request.request_info import request_info
from unit.apiserver.custom.definitions import DEFINITIONS, WIDGETS, a_definition, a_widget

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/t/configmaps"
METHODS = ("GET", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "POST", "PUT", "PATCH", "DELETE")
PATHS = (
    CONFIG_MAPS,
    f"{CONFIG_MAPS}/",
    f"{CONFIG_MAPS}//",
    f"{CONFIG_MAPS}/a",
    f"{CONFIG_MAPS}/a/",
    f"{CONFIG_MAPS}//a",
    f"{CONFIG_MAPS}/a/odd",
    f"{CONFIG_MAPS}/odd",
    f"{CONFIG_MAPS}%2Fa",
    f"/{CONFIG_MAPS}/a",
    "/api/v1/configmaps",
    "/api/v1/configmaps/a",
    "/api/v1/namespaces//configmaps",
    "/api/v1/namespaces//configmaps/a",
    "/api/v1/watch/configmaps",
    "/api/v1/watch/namespaces/t/configmaps",
    "/api/v1/watch/namespaces/t/configmaps/",
    "/api/v1/watch/namespaces/t/configmaps/a",
    "/api/v1/watch/namespaces/t/configmaps//a",
    "/api/v1/watch//namespaces/t/configmaps/a",
    "/api/v1/watch/watch/namespaces/t/configmaps/a",
    "/api/v1/watch/namespaces//configmaps/a",
    "/api/v1/watch/namespaces/t/configmaps/a/odd",
    "/api/v1/proxy/namespaces/t/configmaps/a",
)
NAMES = {"a", "b"}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}


def a_server_where_user_may(verb: str) -> Embedded:
    server = Embedded(users={"user": UserInfo("user")}, audit_level="Metadata")
    for name in sorted(NAMES):
        server.post(CONFIG_MAPS, config_map(name))
    resources = ["configmaps", "configmaps/odd", "widgets", "widgets/odd"]
    rule = {"apiGroups": ["", "example.com"], "resources": resources, "verbs": [verb]}
    role = {"metadata": {"name": "one"}, "rules": [rule]}
    assert server.post(f"{RBAC}/clusterroles", role).status == 201
    binding = {
        "metadata": {"name": "one"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "one"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "user"}],
    }
    assert server.post(f"{RBAC}/clusterrolebindings", binding).status == 201
    server.audited.clear()
    return server


def objects(server: Embedded) -> dict[str, str]:
    found = server.get("/api/v1/configmaps").body["items"]
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}


def send(server: Embedded, method: str, path: str) -> int:
    """The status; 200 for a watch."""
    body = b""
    if method in ("POST", "PUT"):
        body = msgspec.json.encode(config_map("new" if method == "POST" else "a"))
    if method == "PATCH":
        body = b'{"metadata":{"labels":{"changed":"yes"}}}'
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = server.send(
        ServerRequest(method, path, "", {"authorization": "Bearer user", "content-type": kind}, body)
    )
    return response.status if isinstance(response, ServerResponse) else 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("name", ["", "/a"])
def test_a_watch_path_accepts_no_write_from_a_user_with_only_the_right_to_watch(method: str, name: str) -> None:
    server = a_server_where_user_may("watch")
    before = objects(server)
    assert send(server, method, f"/api/v1/watch/namespaces/t/configmaps{name}") == 405
    assert objects(server) == before


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["widgets", "namespaces/t/widgets", "namespaces/t/widgets/a"])
def test_a_watch_path_of_a_custom_kind_changes_nothing(method: str, path: str) -> None:
    """There is no route for each method of a custom kind: such a request opens a watch, as on kube-apiserver."""
    server = a_server_where_user_may("watch")
    assert server.post(DEFINITIONS, a_definition()).status == 201
    assert server.post(WIDGETS, a_widget()).status == 201
    before = server.get(WIDGETS).body["items"]
    assert send(server, method, f"/apis/example.com/v1/watch/{path}") == 200
    assert server.get(WIDGETS).body["items"] == before


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"])
def test_a_request_does_no_more_than_the_one_verb_that_its_user_has(verb: str) -> None:
    server = a_server_where_user_may(verb)
    done = set()
    for method, path in product(METHODS, PATHS):
        before = objects(server)
        status = send(server, method, path)
        after = objects(server)
        added, removed = after.keys() - before.keys(), before.keys() - after.keys()
        changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
        step = f"{method} {path} as a user who may {verb}: {status}"
        info = request_info(method, path)
        if status < 400:
            assert info.verb == verb, step
            done.add(verb)
        assert not added or (verb == "create" and added == {"new"}), step
        assert not changed or (verb in ("update", "patch") and changed == {info.name}), step
        assert not removed or verb == "deletecollection" or (verb == "delete" and removed == {info.name}), step
        for name in NAMES - after.keys():
            server.post(CONFIG_MAPS, config_map(name))
        if "new" in after:
            server.delete(f"{CONFIG_MAPS}/new")
    assert done == {verb}


@pytest.mark.parametrize("name", ["", "/a"])
def test_a_delete_with_an_empty_namespace_deletes_nothing(name: str) -> None:
    server = a_server_where_user_may("*")
    server.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    server.post("/api/v1/namespaces/other/configmaps", config_map("c"))
    before = objects(server)
    assert send(server, "DELETE", f"/api/v1/namespaces//configmaps{name}") == 400
    assert objects(server) == before


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", [f"{CONFIG_MAPS}/a", f"{WIDGETS}/a"])
def test_a_subresource_that_the_kind_does_not_have_is_not_taken_for_the_object(method: str, path: str) -> None:
    server = a_server_where_user_may("*")
    assert server.post(DEFINITIONS, a_definition()).status == 201
    assert server.post(WIDGETS, a_widget()).status == 201
    before = objects(server), server.get(WIDGETS).body["items"]
    assert send(server, method, f"{path}/odd") == 404
    assert (objects(server), server.get(WIDGETS).body["items"]) == before


def test_the_audit_log_names_the_verb_that_was_authorized_and_executed() -> None:
    server = a_server_where_user_may("*")
    for method, path in product(METHODS, PATHS):
        server.audited.clear()
        before = objects(server)
        send(server, method, path)
        info = request_info(method, path)
        audited = [each for each in server.audited if each["user"]["username"] == "user"]
        assert [each["verb"] for each in audited] == ([info.verb] if info.is_write else []), f"{method} {path}"
        if objects(server) != before:
            assert info.is_write, f"{method} {path}"
            reference = audited[0]["objectRef"]
            assert (reference["resource"], reference.get("namespace", "")) == (info.resource, info.namespace)
        for name in NAMES - objects(server).keys():
            server.post(CONFIG_MAPS, config_map(name))
        server.delete(f"{CONFIG_MAPS}/new")
