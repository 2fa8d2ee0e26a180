"""Authentication, impersonation and authorization of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedded import TOKEN, Embedded, Reply
from headgate.apiserver.authn.user import UserInfo, split_account
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.http.peer import CertificateSubject

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/t/pods"
MAPS = "/api/v1/namespaces/t/configmaps"


def granted(server: Embedded, rules: list[dict[str, Any]], *subjects: dict[str, Any], namespace: str = "t") -> None:
    place = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/cluster"
    kind = "Role" if namespace else "ClusterRole"
    assert server.post(f"{place}roles", {"metadata": {"name": "r"}, "rules": rules}).status == 201
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "r"}
    body = {"metadata": {"name": "b"}, "roleRef": ref, "subjects": list(subjects)}
    assert server.post(f"{place}rolebindings", body).status == 201


def user(name: str) -> dict[str, Any]:
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}


def group(name: str) -> dict[str, Any]:
    return {**user(name), "kind": "Group"}


READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
PUBLIC = {"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version"], "verbs": ["get"]}


def as_alice(server: Embedded, method: str, path: str, body: Any = None) -> Reply:
    return server.call(method, path, body, impersonate_user="alice")


def test_without_a_credential_only_health_and_version_answer() -> None:
    server = Embedded()
    granted(server, [PUBLIC], group("system:unauthenticated"), namespace="")
    for path in ("/version", "/livez", "/healthz", "/readyz"):
        assert server.call("GET", path, authorization="").status == 200, path
    for path in ("/api", "/apis", "/api/v1/pods", "/openapi/v3", "/", "/nothing", "/healthz/ping", "/version/"):
        assert server.call("GET", path, authorization="").status == 401, path


def test_anonymous_users_get_no_health_checks_without_the_role() -> None:
    refused = Embedded().call("GET", "/healthz", authorization="")
    assert refused.status == 403
    assert refused.body["message"] == 'forbidden: User "system:anonymous" cannot get path "/healthz"'


@pytest.mark.parametrize(
    "header", ["Bearer wrong", f"Bearer {TOKEN}x", f"bearer x{TOKEN}", f"Bearer  {TOKEN}", "Basic x"]
)
def test_a_wrong_credential_is_refused(header: str) -> None:
    assert Embedded().call("GET", PODS, authorization=header).status == 401


@pytest.mark.parametrize(
    "header", [f"bearer {TOKEN}", f"BEARER {TOKEN}", f"  Bearer {TOKEN}  ", f"Bearer {TOKEN} more"]
)
def test_the_scheme_is_read_as_widely_as_by_the_real_server(header: str) -> None:
    assert Embedded().call("GET", PODS, authorization=header).status == 200


def test_a_certificate_names_the_user_and_the_groups() -> None:
    server = Embedded()
    granted(server, [READ_PODS], group("readers"))
    seen = server.send(ServerRequest("GET", PODS, peer=CertificateSubject("carol", ("readers",))))
    assert isinstance(seen, ServerResponse)
    assert seen.status == 200
    other = server.send(ServerRequest("GET", PODS, peer=CertificateSubject("carol", ("writers",))))
    assert isinstance(other, ServerResponse)
    assert other.status == 403
    assert b'User \\"carol\\"' in other.body


def test_a_certificate_goes_before_a_token() -> None:
    server = Embedded()
    response = server.send(
        ServerRequest("GET", PODS, headers={"authorization": f"Bearer {TOKEN}"}, peer=CertificateSubject("carol"))
    )
    assert isinstance(response, ServerResponse)
    assert response.status == 403


def test_a_bad_certificate_does_not_matter_with_a_valid_token() -> None:
    server = Embedded()
    good = ServerRequest("GET", PODS, headers={"authorization": f"Bearer {TOKEN}"}, bad_certificate=True)
    bare = ServerRequest("GET", "/healthz", bad_certificate=True)
    answers = [server.send(each) for each in (good, bare)]
    assert [each.status for each in answers if isinstance(each, ServerResponse)] == [200, 401]


def test_an_impersonated_user_has_only_the_rights_of_the_roles() -> None:
    server = Embedded()
    assert as_alice(server, "GET", PODS).status == 403
    granted(server, [READ_PODS], user("alice"))
    assert as_alice(server, "GET", PODS).status == 200
    assert as_alice(server, "POST", PODS, {}).status == 403
    assert as_alice(server, "GET", "/api/v1/pods").status == 403


def test_a_right_ends_with_its_binding() -> None:
    server = Embedded()
    granted(server, [READ_PODS], user("alice"))
    assert as_alice(server, "GET", PODS).status == 200
    server.delete(f"{RBAC}/namespaces/t/rolebindings/b")
    assert as_alice(server, "GET", PODS).status == 403


def test_a_change_of_a_role_counts_at_once() -> None:
    server = Embedded()
    granted(server, [READ_PODS], user("alice"))
    assert as_alice(server, "GET", MAPS).status == 403
    more = {"rules": [{**READ_PODS, "resources": ["pods", "configmaps"]}]}
    assert server.patch(f"{RBAC}/namespaces/t/roles/r", more).status == 200
    assert as_alice(server, "GET", MAPS).status == 200


def test_a_role_that_is_not_on_disk_grants_nothing() -> None:
    server = Embedded()
    granted(server, [], user("alice"))
    server.disk_error = "no space"
    server.patch(f"{RBAC}/namespaces/t/roles/r", {"rules": [READ_PODS]})
    server.disk_error = None
    assert as_alice(server, "GET", PODS).status == 403


def test_a_binding_without_its_role_is_reported() -> None:
    server = Embedded()
    granted(server, [READ_PODS], user("alice"))
    server.delete(f"{RBAC}/namespaces/t/roles/r")
    refused = as_alice(server, "GET", PODS)
    assert refused.body["message"].endswith(': RBAC: role.rbac.authorization.k8s.io "r" not found')


def test_groups_come_from_their_headers_one_by_one() -> None:
    server = Embedded()
    granted(server, [READ_PODS], group("a,b"))
    headers = {"authorization": f"Bearer {TOKEN}", "impersonate-user": "alice", "impersonate-group": "x"}
    several = ServerRequest("GET", PODS, headers=headers, repeated={"impersonate-group": ("x", "a,b")})
    response = server.send(several)
    assert isinstance(response, ServerResponse)
    assert response.status == 200


def test_impersonation_needs_the_right_to_impersonate() -> None:
    server = Embedded()
    granted(
        server,
        [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["bob"]}],
        user("alice"),
        namespace="",
    )
    peer = CertificateSubject("alice")
    allowed = server.send(ServerRequest("GET", PODS, headers={"impersonate-user": "bob"}, peer=peer))
    refused = server.send(ServerRequest("GET", PODS, headers={"impersonate-user": "eve"}, peer=peer))
    assert isinstance(allowed, ServerResponse)
    assert isinstance(refused, ServerResponse)
    assert b'User \\"bob\\" cannot list resource' in allowed.body
    assert b'User \\"alice\\" cannot impersonate resource \\"users\\"' in refused.body


def test_a_group_alone_cannot_be_impersonated() -> None:
    refused = Embedded().call("GET", PODS, impersonate_group="system:masters")
    assert refused.status == 400
    assert refused.body["message"] == "requested [{Group  system:masters    }] without impersonating a user"


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("system:serviceaccount:ns:name", ("ns", "name")),
        ("system:serviceaccount:ns:na.me", ("ns", "na.me")),
        ("system:serviceaccount:ns", None),
        ("system:serviceaccount:n.s:name", None),
        ("system:serviceaccount:ns:name:more", None),
        ("serviceaccount:ns:name", None),
    ],
)
def test_the_name_of_a_service_account_is_taken_apart(name: str, account: tuple[str, str] | None) -> None:
    assert split_account(name) == account


def test_a_user_is_shown_without_what_is_empty() -> None:
    assert UserInfo("u").info() == {"username": "u"}
    full = UserInfo("u", ("g",), "1", {"k": ("v",)})
    assert full.info() == {"username": "u", "groups": ["g"], "uid": "1", "extra": {"k": ["v"]}}


def test_a_user_cannot_grant_rights_that_it_does_not_have() -> None:
    server = Embedded()
    roles = f"{RBAC}/namespaces/t/roles"
    write = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create"]}
    granted(server, [write, READ_PODS], user("alice"))
    assert as_alice(server, "POST", roles, {"metadata": {"name": "a"}, "rules": [READ_PODS]}).status == 201
    refused = as_alice(server, "POST", roles, {"metadata": {"name": "b"}, "rules": [{**READ_PODS, "verbs": ["*"]}]})
    assert refused.status == 403
    assert refused.body["message"].endswith('\n{APIGroups:[""], Resources:["pods"], Verbs:["*"]}')


def test_to_put_an_object_that_is_not_there_takes_the_right_to_create() -> None:
    server = Embedded()
    granted(server, [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}], user("alice"))
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}}
    query = {"fieldManager": "m"}
    headers = {"content_type": "application/apply-patch+yaml", "impersonate_user": "alice"}
    refused = server.call("PATCH", f"{MAPS}/new", new, query=query, **headers)
    assert refused.status == 403
    assert "cannot create resource" in refused.body["message"]
    assert server.get(f"{MAPS}/new").status == 404


@pytest.mark.parametrize(
    ("name", "given", "groups"),
    [
        ("alice", (), ["system:authenticated"]),
        ("alice", ("a", "b"), ["a", "b", "system:authenticated"]),
        ("alice", ("system:authenticated", "a"), ["system:authenticated", "a"]),
        ("alice", ("system:unauthenticated",), ["system:unauthenticated"]),
        ("system:anonymous", (), ["system:unauthenticated"]),
        ("system:anonymous", ("a",), ["a", "system:unauthenticated"]),
        ("system:anonymous", ("system:unauthenticated", "a"), ["system:unauthenticated", "a"]),
        (
            "system:serviceaccount:t:robot",
            (),
            ["system:serviceaccounts", "system:serviceaccounts:t", "system:authenticated"],
        ),
        ("system:serviceaccount:t:robot", ("a",), ["a", "system:authenticated"]),
    ],
)
def test_groups_of_an_impersonated_user(name: str, given: tuple[str, ...], groups: list[str]) -> None:
    """A service account has its own groups unless others are named; every other user has only those that are named."""
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", "impersonate-user": name}
    if given:
        headers["impersonate-group"] = given[0]
    server = Embedded()
    granted(server, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], user(name), namespace="")
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    response = server.send(
        ServerRequest("POST", path, headers=headers, repeated={"impersonate-group": given}, body=b"{}")
    )
    assert isinstance(response, ServerResponse)
    assert response.status == 201, response.body
    assert json.loads(response.body)["status"]["userInfo"] == {"username": name, "groups": groups}


@pytest.mark.parametrize(
    ("right", "status"),
    [
        ({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "resourceNames": ["more"]}, 201),
        ({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "resourceNames": ["r"]}, 403),
        ({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}, 403),
        ({"apiGroups": ["example.com"], "resources": ["roles"]}, 403),
    ],
)
def test_a_role_with_more_rights_is_bound_only_with_the_right_to_bind_it(right: dict[str, Any], status: int) -> None:
    server = Embedded()
    bindings = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"]}
    granted(server, [bindings, {**right, "verbs": ["bind"]}], user("alice"))
    server.post(f"{RBAC}/namespaces/t/roles", {"metadata": {"name": "more"}, "rules": [READ_PODS]})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "more"}
    body = {"metadata": {"name": "mine"}, "roleRef": ref, "subjects": [user("alice")]}
    assert as_alice(server, "POST", f"{RBAC}/namespaces/t/rolebindings", body).status == status
