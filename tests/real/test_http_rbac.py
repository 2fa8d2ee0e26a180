"""RBAC on both servers: what a role grants, which users a binding names, and that no user grants more than it has."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, config_map
from harness.request_cases import Case, Edited, Step, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair
from harness.users import ALICE, BOB, bearing

pytestmark = pytest.mark.real

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
ROLES = f"{RBAC}/namespaces/{{ns}}/roles"
BINDINGS = f"{RBAC}/namespaces/{{ns}}/rolebindings"
CLUSTER_ROLES = f"{RBAC}/clusterroles"
CLUSTER_BINDINGS = f"{RBAC}/clusterrolebindings"
AS_ALICE, AS_BOB = bearing(ALICE), bearing(BOB)
TO_ALICE = {"kind": "User", "apiGroup": GROUP, "name": "alice"}
GET_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
WRITE_ROLES = {
    "apiGroups": [GROUP],
    "resources": ["roles", "clusterroles"],
    "verbs": ["create", "update", "patch", "get"],
}
WRITE_BINDINGS = {
    "apiGroups": [GROUP],
    "resources": ["rolebindings", "clusterrolebindings"],
    "verbs": ["create", "update", "patch", "get"],
}


def role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, kind: str, ref: str, *subjects: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": ref},
        "subjects": list(subjects or (TO_ALICE,)),
    }


def granted(sentence: str, rules: list[dict[str, Any]], probe: Step, *steps: Step) -> Case:
    """`probe` is repeated until the real server has noticed the role and the binding."""
    return case(sentence, post(ROLES, role("r", *rules)), post(BINDINGS, binding("b", "Role", "r")), probe, *steps)


def cluster_granted(sentence: str, rules: list[dict[str, Any]], probe: Step, *steps: Step) -> Case:
    return case(
        sentence,
        post(CLUSTER_ROLES, role("r-{ns}", *rules)),
        post(CLUSTER_BINDINGS, binding("b-{ns}", "ClusterRole", "r-{ns}")),
        probe,
        *steps,
    )


REFUSED = [
    case(
        "nothing granted",
        *(get(path, **AS_ALICE) for path in (PODS, f"{PODS}/p", f"{PODS}/p/log", f"{PODS}/p/status", "/api/v1/pods")),
        *(
            get(path, **AS_ALICE)
            for path in (NODES, f"{NODES}/n/proxy/x", "/api/v1/namespaces/{ns}", "/api/v1/namespaces")
        ),
        *(
            get(path, **AS_ALICE)
            for path in (f"{DEPLOYMENTS}/d/scale", "/apis/none.example/v1/namespaces/{ns}/odd/x/y/z")
        ),
        *(get(f"{PODS}?{query}", **AS_ALICE) for query in ("watch=1", "watch=false", "fieldSelector=metadata.name=p")),
        get(f"{PODS}?watch=true&fieldSelector=metadata.name%3Dp", **AS_ALICE),
        get("/api/v1/watch/namespaces/{ns}/pods", **AS_ALICE),
        get("/api/v1/watch/namespaces/{ns}/pods/p", **AS_ALICE),
        *(Step(method, f"{PODS}/p", None, AS_ALICE) for method in ("PUT", "PATCH", "DELETE", "POST", "OPTIONS")),
        *(Step(method, PODS, None, AS_ALICE) for method in ("DELETE", "POST")),
        *(get(path, **AS_ALICE) for path in ("/metrics", "/logs/", "/odd", "/debug/pprof", "/openid/v1/jwks")),
    ),
    case(
        "what everybody may read",
        *(get(path, **AS_ALICE) for path in ("/healthz", "/livez", "/readyz", "/version", "/version/")),
        *(Step("POST", path, None, AS_ALICE) for path in ("/healthz", "/version")),
    ),
    case(
        "a refusal in YAML",
        get(PODS, accept="application/yaml", **AS_ALICE),
        get("/odd", "application/yaml", **AS_ALICE),
    ),
    case("a refusal of what cannot be shown", get(PODS, accept="text/html", **AS_ALICE)),
    case("a name with signs in it", get(f"{PODS}/%3Cb%3E%26x", **AS_ALICE), get("/%3Cb%3E%26", **AS_ALICE)),
]
GRANTED = [
    granted(
        "a right to list is none to watch",
        [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        get(CONFIG_MAPS, **AS_ALICE).until(200),
        get(f"{CONFIG_MAPS}?watch=true&timeoutSeconds=1", **AS_ALICE),
        get(f"{CONFIG_MAPS}/x", **AS_ALICE),
    ),
    granted(
        "a right to one name",
        [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"], "resourceNames": ["x"]}],
        get(f"{CONFIG_MAPS}/x", **AS_ALICE).until(404),
        get(f"{CONFIG_MAPS}/y", **AS_ALICE),
        get(CONFIG_MAPS, **AS_ALICE),
        get(f"{CONFIG_MAPS}?fieldSelector=metadata.name=x", **AS_ALICE),
        get(f"{CONFIG_MAPS}?fieldSelector=metadata.name!=x", **AS_ALICE),
        get(f"{CONFIG_MAPS}?fieldSelector=metadata.name==x,metadata.namespace={{ns}}", **AS_ALICE),
        post(CONFIG_MAPS, config_map("x"), **AS_ALICE),
        put(f"{CONFIG_MAPS}/x", config_map("x"), **AS_ALICE),
        delete(CONFIG_MAPS, **AS_ALICE),
        delete(f"{CONFIG_MAPS}?fieldSelector=metadata.name=x", **AS_ALICE),
    ),
    granted(
        "a right to subresources",
        [{"apiGroups": ["apps"], "resources": ["deployments/scale", "*/status"], "verbs": ["get", "patch"]}],
        get(f"{DEPLOYMENTS}/d/scale", **AS_ALICE).until(404),
        get(f"{DEPLOYMENTS}/d/status", **AS_ALICE),
        patch(f"{DEPLOYMENTS}/d/scale", {}, **AS_ALICE),
        get(f"{DEPLOYMENTS}/d", **AS_ALICE),
        put(f"{DEPLOYMENTS}/d/scale", {}, **AS_ALICE),
    ),
    granted(
        "a right to the namespace itself",
        [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}],
        get("/api/v1/namespaces/{ns}", **AS_ALICE).until(200),
        get("/api/v1/namespaces", **AS_ALICE),
        get("/api/v1/namespaces/default", **AS_ALICE),
    ),
    cluster_granted(
        "rights in the whole cluster",
        [GET_MAPS, {"nonResourceURLs": ["/odd/*", "/metrics"], "verbs": ["get"]}],
        get(f"{CONFIG_MAPS}/x", **AS_ALICE).until(404),
        get("/odd/x/y", **AS_ALICE),
        get("/odd", **AS_ALICE),
        delete("/odd/x", **AS_ALICE),
    ),
    case(
        "whom a binding names",
        post(ROLES, role("r", GET_MAPS)),
        post(
            BINDINGS,
            binding(
                "b",
                "Role",
                "r",
                {"kind": "Group", "apiGroup": GROUP, "name": "readers"},
                {"kind": "ServiceAccount", "name": "robot"},
                {"kind": "ServiceAccount", "name": "robot", "namespace": "elsewhere"},
            ),
        ),
        get(f"{CONFIG_MAPS}/x", **AS_BOB).until(404),
        get(f"{CONFIG_MAPS}/x", **AS_ALICE),
        get(f"{CONFIG_MAPS}/x", Impersonate_User="system:serviceaccount:{ns}:robot"),
        get(f"{CONFIG_MAPS}/x", Impersonate_User="system:serviceaccount:elsewhere:robot"),
        get(f"{CONFIG_MAPS}/x", Impersonate_User="system:serviceaccount:third:robot"),
        get(f"{CONFIG_MAPS}/x", Impersonate_User="robot"),
    ),
    *(
        case(
            f"a {kind} that is absent",
            post(BINDINGS, binding("a", kind, "none-{ns}")),
            post(ROLES, role("r", GET_MAPS)),
            # Bindings take effect in the order in which they are created: a user with this right has the other binding,
            # too.
            post(BINDINGS, binding("b", "Role", "r")),
            get(f"{CONFIG_MAPS}/x", **AS_ALICE).until(404),
            get(PODS, **AS_ALICE),
            post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "{ns}"}}, **AS_ALICE),
            post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "{ns}"}}},
                **AS_ALICE,
            ),
        )
        for kind in ("Role", "ClusterRole")
    ),
    granted(
        "to put what is absent takes a right to create",
        [{"apiGroups": [GROUP, ""], "resources": ["roles", "endpoints"], "verbs": ["update"]}, GET_MAPS],
        get(f"{CONFIG_MAPS}/x", **AS_ALICE).until(404),
        put(f"{ROLES}/new", role("new"), **AS_ALICE),
        put("/api/v1/namespaces/{ns}/endpoints/new", {"metadata": {"name": "new"}}, **AS_ALICE),
        put("/api/v1/namespaces/{ns}/endpoints/new", {"metadata": {"name": "Bad_"}}, **AS_ALICE),
    ),
]
ESCALATION = [
    granted(
        "a role with what one has not",
        [WRITE_ROLES, GET_MAPS],
        post(f"{ROLES}?dryRun=All", role("held", GET_MAPS), **AS_ALICE).until(201),
        post(ROLES, role("held", GET_MAPS), **AS_ALICE),
        post(ROLES, role("more", {**GET_MAPS, "verbs": ["get", "delete", "list", "watch"]}), **AS_ALICE),
        post(
            ROLES,
            role("more", {**GET_MAPS, "resources": ["configmaps", "secrets"], "resourceNames": ["a"]}),
            **AS_ALICE,
        ),
        post(ROLES, role("star", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}), **AS_ALICE),
        post(ROLES, role("names", {**GET_MAPS, "resourceNames": ["a", "b"]}), **AS_ALICE),
        post(ROLES, {"metadata": {"generateName": "gen-"}, "rules": [{**GET_MAPS, "verbs": ["*"]}]}, **AS_ALICE),
        post(ROLES, role("bad", {"apiGroups": [""], "verbs": ["*"]}), **AS_ALICE),
        put(f"{ROLES}/held", role("held", GET_MAPS, {**GET_MAPS, "verbs": ["delete"]}), **AS_ALICE),
        patch(f"{ROLES}/held", {"rules": [{**GET_MAPS, "verbs": ["watch"]}]}, **AS_ALICE),
        patch(f"{ROLES}/held", {"metadata": {"labels": {"a": "b"}}}, **AS_ALICE),
        get(f"{ROLES}/held", **AS_ALICE),
    ),
    case(
        "a role of others may lose what holds it back",
        post(
            ROLES,
            role(
                "big",
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            ),
        ),
        patch(f"{ROLES}/big", {"metadata": {"finalizers": ["example.com/x"]}}),
        post(ROLES, role("r", WRITE_ROLES)),
        post(BINDINGS, binding("b", "Role", "r")),
        patch(f"{ROLES}/big", {"metadata": {"finalizers": None}}, **AS_ALICE).until(200),
        patch(f"{ROLES}/big", {"metadata": {"labels": {"a": "b"}}}, **AS_ALICE),
    ),
    granted(
        "the right to escalate",
        [WRITE_ROLES, {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"], "resourceNames": ["mine"]}],
        put(f"{ROLES}/mine", role("mine", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}), **AS_ALICE).until(
            201
        ),
        put(f"{ROLES}/other", role("other", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}), **AS_ALICE),
        post(ROLES, role("mine2", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}), **AS_ALICE),
    ),
    cluster_granted(
        "a role of the whole cluster with what one has not",
        [WRITE_ROLES, GET_MAPS, {"nonResourceURLs": ["/odd/*"], "verbs": ["get"]}],
        post(f"{CLUSTER_ROLES}?dryRun=All", role("held-{ns}", GET_MAPS), **AS_ALICE).until(201),
        post(
            CLUSTER_ROLES,
            role("urls-{ns}", {"nonResourceURLs": ["/odd/x", "/odd*"], "verbs": ["get", "post"]}),
            **AS_ALICE,
        ),
        post(
            CLUSTER_ROLES,
            role("sum-{ns}", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
            **AS_ALICE,
        ),
        post(CLUSTER_ROLES, role("sum-{ns}", GET_MAPS, aggregationRule={"clusterRoleSelectors": []}), **AS_ALICE),
    ),
    granted(
        "a binding to a role that one has not",
        [WRITE_BINDINGS, GET_MAPS],
        post(f"{BINDINGS}?dryRun=All", binding("x", "Role", "r"), **AS_ALICE).until(201),
        post(BINDINGS, binding("held", "Role", "r"), **AS_ALICE),
        post(BINDINGS, binding("big", "ClusterRole", "cluster-admin"), **AS_ALICE),
        post(BINDINGS, binding("none", "ClusterRole", "none"), **AS_ALICE),
        post(BINDINGS, binding("none", "Role", "none"), **AS_ALICE),
        post(BINDINGS, binding("odd", "Odd", "none"), **AS_ALICE),
        post(BINDINGS, {**binding("odd", "Role", "r"), "roleRef": {"kind": "Role", "name": "r"}}, **AS_ALICE),
        patch(f"{BINDINGS}/held", {"subjects": [TO_ALICE, {**TO_ALICE, "name": "eve"}]}, **AS_ALICE),
        put(f"{BINDINGS}/new", binding("new", "ClusterRole", "system:node"), **AS_ALICE),
    ),
    granted(
        "the right to bind",
        [
            WRITE_BINDINGS,
            {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["view"]},
        ],
        post(f"{BINDINGS}?dryRun=All", binding("x", "ClusterRole", "view"), **AS_ALICE).until(201),
        post(BINDINGS, binding("y", "ClusterRole", "system:node"), **AS_ALICE),
        post(CLUSTER_BINDINGS, binding("z-{ns}", "ClusterRole", "view"), **AS_ALICE),
    ),
    case(
        "a role is written by somebody with a broken binding",
        post(BINDINGS, binding("broken", "ClusterRole", "none-{ns}")),
        post(ROLES, role("r", WRITE_ROLES)),
        post(BINDINGS, binding("b", "Role", "r")),
        post(f"{ROLES}?dryRun=All", role("none"), **AS_ALICE).until(201),
        post(ROLES, role("more", GET_MAPS), **AS_ALICE),
    ),
    case(
        "an apply that grants",
        post(ROLES, role("r", WRITE_ROLES)),
        post(BINDINGS, binding("b", "Role", "r")),
        get(f"{ROLES}/none", **AS_ALICE).until(404),
        patch(
            f"{ROLES}/new?fieldManager=m",
            {"apiVersion": f"{GROUP}/v1", "kind": "Role", **role("new", GET_MAPS)},
            "apply",
            **AS_ALICE,
        ),
        post(ROLES, role("seen")).named("seen"),
        put(f"{ROLES}/seen", Edited("seen", {"rules": [GET_MAPS]}), **AS_ALICE),
    ),
]
CASES = cases_of(REFUSED, GRANTED, ESCALATION)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rights_are_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
