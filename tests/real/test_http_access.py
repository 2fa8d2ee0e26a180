"""Which users may send requests: no token, a wrong one, and users that an admin impersonates and grants rights to."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, CORE, DEPLOYMENTS, NODES, PODS, config_map, pod
from harness.request_cases import Case, Step, case, cases_of, delete, get, patch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/{{ns}}/roles"
ROLE_BINDINGS = f"{RBAC}/namespaces/{{ns}}/rolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1"
ALICE = {"Impersonate_User": "alice-{ns}"}


def role(**rule: Any) -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": [rule]}


def bound(kind: str = "Role", name: str = "r") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "User", "name": "alice-{ns}", "apiGroup": "rbac.authorization.k8s.io"}],
    }


def granted(sentence: str, rule: dict[str, Any], probe: Step, *steps: Step) -> Case:
    return case(
        sentence,
        post(CONFIG_MAPS, config_map("x")),
        post(ROLES, role(**rule)),
        post(ROLE_BINDINGS, bound()),
        probe,
        *steps,
    )


def review(**attributes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "alice-{ns}", "resourceAttributes": {"namespace": "{ns}", **attributes}},
    }


STRANGERS = [
    case(
        "no token",
        *(
            Step("GET", path, None, {"Authorization": ""})
            for path in (PODS, "/api", "/apis", "/", "/odd", "/openapi/v3")
        ),
    ),
    case(
        "no token where none is needed",
        *(Step("GET", path, None, {"Authorization": ""}) for path in ("/healthz", "/livez", "/readyz", "/version")),
    ),
    case("a wrong token", *(get(path, Authorization="Bearer wrong") for path in (PODS, "/version", "/healthz"))),
    case(
        "an authorization that is no bearer",
        *(get(PODS, Authorization=value) for value in ("Basic YTpi", "Bearer", "bearer x", "Odd")),
    ),
    case("a write without a token", Step("POST", CONFIG_MAPS, config_map("x"), {"Authorization": ""})),
]
FORBIDDEN = [
    case(
        "a user without rights",
        get(PODS, **ALICE),
        get(f"{PODS}/p", **ALICE),
        get("/api/v1/pods", **ALICE),
        get(NODES, **ALICE),
        get(f"{NODES}/n", **ALICE),
        get(f"{DEPLOYMENTS}/d/scale", **ALICE),
        get(f"{CONFIG_MAPS}?watch=true", **ALICE),
        post(CONFIG_MAPS, config_map("x"), **ALICE),
        post(f"{PODS}/p/binding", {}, **ALICE),
        patch(f"{PODS}/p", {}, **ALICE),
        delete(f"{PODS}/p", **ALICE),
        delete(PODS, **ALICE),
        get("/metrics", **ALICE),
        get("/odd", **ALICE),
        get("/apis/odd.example/v1/things", **ALICE),
    ),
    case("what every user may read", *(get(path, **ALICE) for path in ("/version", "/healthz", "/livez"))),
    case(
        "a name that may not be told apart",
        get(f"{PODS}/none", **ALICE),
        get("/api/v1/namespaces/nope/pods/none", **ALICE),
    ),
    case(
        "impersonating a group",
        get(PODS, Impersonate_User="x", Impersonate_Group="system:masters"),
        get(PODS, Impersonate_Group="system:masters"),
    ),
    case(
        "impersonating a service account",
        get(PODS, Impersonate_User="system:serviceaccount:{ns}:robot"),
        get(f"{CORE}/secrets", Impersonate_User="system:serviceaccount:{ns}:robot"),
    ),
    case(
        "impersonating nobody",
        get(PODS, Impersonate_User="system:anonymous"),
        get("/version", Impersonate_User="system:anonymous"),
    ),
]
GRANTED = [
    granted(
        "a right to read one kind",
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        get(f"{CONFIG_MAPS}/x", **ALICE).until(200),
        get(CONFIG_MAPS, **ALICE),
        post(CONFIG_MAPS, config_map("y"), **ALICE),
        get(PODS, **ALICE),
        get("/api/v1/configmaps", **ALICE),
        delete(f"{CONFIG_MAPS}/x", **ALICE),
    ),
    granted(
        "a right to one name",
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["x"]},
        get(f"{CONFIG_MAPS}/x", **ALICE).until(200),
        get(f"{CONFIG_MAPS}/y", **ALICE),
        get(CONFIG_MAPS, **ALICE),
    ),
    granted(
        "a right to everything of a group",
        {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]},
        get(f"{CONFIG_MAPS}/x", **ALICE).until(200),
        post(PODS, pod("p"), **ALICE),
        get(f"{PODS}/p/status", **ALICE),
        get(DEPLOYMENTS, **ALICE),
    ),
    granted(
        "a right to a subresource",
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
        patch(f"{PODS}/p/status", {}, **ALICE).until(404),
        patch(f"{PODS}/p", {}, **ALICE),
    ),
    granted(
        "a right to subresources of a name",
        {"apiGroups": [""], "resources": ["*/status"], "verbs": ["get"]},
        get(f"{PODS}/p/status", **ALICE).until(404),
        get(f"{PODS}/p", **ALICE),
    ),
    case(
        "a cluster's role in a namespace",
        post(ROLE_BINDINGS, bound("ClusterRole", "view")),
        get(PODS, **ALICE),
        get(f"{CORE}/secrets", **ALICE),
    ),
    case(
        "an apply needs the right to patch and to create",
        post(ROLES, role(apiGroups=[""], resources=["configmaps"], verbs=["patch"])),
        post(ROLE_BINDINGS, bound()),
        patch(f"{CONFIG_MAPS}/none", {}, **ALICE).until(404),
        patch(f"{CONFIG_MAPS}/new?fieldManager=m", config_map("new"), "apply", **ALICE),
        get(f"{CONFIG_MAPS}/new"),
    ),
    case(
        "nobody grants more than they have", post(ROLES, role(apiGroups=[""], resources=["pods"], verbs=["*"]), **ALICE)
    ),
]
REVIEWED = [
    case(
        "asking about another user",
        post(f"{REVIEWS}/subjectaccessreviews", review(verb="get", resource="pods")),
        post(
            f"{REVIEWS}/namespaces/{{ns}}/localsubjectaccessreviews",
            {
                **review(verb="get", resource="pods"),
                "kind": "LocalSubjectAccessReview",
                "metadata": {"namespace": "{ns}"},
            },
        ),
    ),
    case(
        "asking about oneself",
        post(
            f"{REVIEWS}/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "{ns}"}},
            },
        ),
        post(
            f"{REVIEWS}/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "{ns}"}},
            },
            **ALICE,
        ),
    ),
    case(
        "asking who one is",
        post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            **ALICE,
        ),
    ),
    case(
        "asking nothing",
        post(
            f"{REVIEWS}/subjectaccessreviews", {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        ).in_any_order(),
        post(
            f"{REVIEWS}/selfsubjectaccessreviews",
            {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"},
        ).in_any_order(),
    ),
]
CASES = cases_of(STRANGERS, FORBIDDEN, GRANTED, REVIEWED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_access_is_decided_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
