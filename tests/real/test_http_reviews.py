"""Access reviews: SelfSubjectAccessReview, SubjectAccessReview, SelfSubjectRulesReview and SelfSubjectReview."""

from __future__ import annotations

from typing import Any

import pytest

from harness.request_cases import METADATA, METADATA_LIST, TABLE, Case, case, cases_of, get, post
from harness.server_pair import ServerPair
from harness.users import ALICE, BOB, bearing

pytestmark = pytest.mark.real

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1/namespaces/{{ns}}"
VERSION = "authorization.k8s.io/v1"
ROOT = f"/apis/{VERSION}"
SELF, RULES = f"{ROOT}/selfsubjectaccessreviews", f"{ROOT}/selfsubjectrulesreviews"
OTHERS, LOCAL = f"{ROOT}/subjectaccessreviews", f"{ROOT}/namespaces/{{ns}}/localsubjectaccessreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
AS_ALICE, AS_BOB = bearing(ALICE), bearing(BOB)
GET_PODS = {"namespace": "{ns}", "verb": "get", "resource": "pods"}


ONLY_TABLE = TABLE.partition(",")[0]


def about(resource: dict[str, Any] | None = None, path: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    parts = {"resourceAttributes": resource, "nonResourceAttributes": path, **spec}
    return {"spec": {name: value for name, value in parts.items() if value is not None}}


def local(resource: dict[str, Any] | None = None, namespace: str = "{ns}", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace}, **about(resource, **spec)}


GRANT = (
    post(
        f"{RBAC}/roles",
        {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ),
    post(
        f"{RBAC}/rolebindings",
        {
            "metadata": {"name": "b"},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "apiGroup": GROUP, "name": "alice"},
                {"kind": "Group", "apiGroup": GROUP, "name": "readers"},
                {"kind": "ServiceAccount", "name": "robot", "namespace": "{ns}"},
            ],
        },
    ),
    get("/api/v1/namespaces/{ns}/pods/none", **AS_ALICE).until(404),
)


ONESELF = [
    case("may I, as admin", post(SELF, about(GET_PODS)), post(SELF, about(path={"path": "/x", "verb": "get"}))),
    case(
        "an answer that has no form as a table",
        *(
            post(path, body, accept, **(AS_ALICE if path == WHO else {}))
            for accept in (ONLY_TABLE, TABLE, METADATA, f"{METADATA_LIST},{ONLY_TABLE}")
            for path, body in (
                (SELF, about(GET_PODS)),
                (OTHERS, about(GET_PODS, user="x")),
                (WHO, {}),
                ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
                ("/api/v1/namespaces/{ns}/serviceaccounts/none/token", {"spec": {}}),
                ("/api/v1/namespaces/{ns}/pods/none/eviction", {"metadata": {"name": "none"}}),
                ("/api/v1/namespaces/{ns}/bindings", {"metadata": {"name": "none"}, "target": {"name": "n"}}),
            )
        ),
    ),
    case("may I, without rights", post(SELF, about(GET_PODS), **AS_ALICE), post(SELF, about({}), **AS_ALICE)),
    case(
        "may I, with a right",
        *GRANT,
        post(SELF, about(GET_PODS), **AS_ALICE),
        post(SELF, about(GET_PODS), **AS_BOB),
        post(SELF, about({**GET_PODS, "verb": "*"}), **AS_ALICE),
        post(SELF, about({**GET_PODS, "name": "p", "version": "v9"}), **AS_ALICE),
        post(SELF, about({**GET_PODS, "subresource": "log"}), **AS_ALICE),
        post(SELF, about({**GET_PODS, "namespace": ""}), **AS_ALICE),
        post(SELF, about({**GET_PODS, "group": "apps"}), **AS_ALICE),
    ),
    case(
        "may I, of a path",
        *(post(SELF, about(path={"path": path, "verb": "get"}), **AS_ALICE) for path in ("/api", "/odd", "")),
        post(SELF, about(path={"path": "/api", "verb": "post"}), **AS_ALICE),
        post(SELF, about(path={}), **AS_ALICE),
    ),
    case(
        "may I, said wrongly",
        post(SELF, {}),
        post(SELF, about(GET_PODS, {"path": "/x"})),
        post(SELF, {**about(GET_PODS), "metadata": {"name": "n"}}),
        post(SELF, {**about(GET_PODS), "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}),
        post(SELF, {**about(GET_PODS), "kind": "Pod", "apiVersion": "v1"}),
        post(SELF, {**about(GET_PODS), "status": {"allowed": True, "reason": "x"}}, **AS_ALICE),
        post(f"{SELF}?dryRun=All", about(GET_PODS)),
    ),
    case("a review has no other verbs", get(SELF), get(f"{SELF}/x"), get(OTHERS), get(RULES), get(WHO)),
]
SELECTORS = [
    case(
        f"a {name} selector",
        *(
            post(SELF, about({**GET_PODS, f"{name}Selector": selector}), **AS_ALICE)
            for selector in (
                {},
                {"rawSelector": "a=b"},
                {"rawSelector": "a in b"},
                {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
                {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
                {"requirements": [{"key": "a", "operator": "In", "values": ["b", "c"]}]},
                {"requirements": [{"key": "a", "operator": "In"}]},
                {"requirements": [{"key": "", "operator": "Exists", "values": ["b"]}]},
                {"requirements": [{"key": "a", "operator": "Odd"}, {"key": "a", "operator": "NotIn", "values": ["b"]}]},
                {"requirements": [{"key": "a", "operator": "Odd"}]},
                {"requirements": [{"key": "a", "operator": "Exists"}]},
            )
        ),
    )
    for name in ("field", "label")
]
THEY = [
    case(
        "may they",
        *GRANT,
        post(OTHERS, about(GET_PODS, user="alice")),
        post(OTHERS, about(GET_PODS, user="eve")),
        post(OTHERS, about(GET_PODS, groups=["readers"])),
        post(OTHERS, about(GET_PODS, user="eve", groups=["odd", "readers"], uid="1", extra={"k": ["v"]})),
        post(OTHERS, about(GET_PODS, user="eve", groups=["system:masters"])),
        post(OTHERS, about(GET_PODS, user="system:serviceaccount:{ns}:robot")),
        post(OTHERS, about(path={"path": "/api", "verb": "get"}, user="eve", groups=["system:authenticated"])),
    ),
    case(
        "may they, said wrongly",
        post(OTHERS, about(GET_PODS)),
        post(OTHERS, about(user="x")),
        post(OTHERS, about(GET_PODS, {"path": "/x"}, user="x")),
        post(OTHERS, {**about(GET_PODS, user="x"), "metadata": {"namespace": "{ns}"}}),
        post(OTHERS, about(GET_PODS, user="x", extra={"k": "v"})),
    ),
    case(
        "may they, here",
        *GRANT,
        post(LOCAL, local(GET_PODS, user="alice")),
        post(LOCAL, about(GET_PODS, user="alice")),
        post(LOCAL, local({**GET_PODS, "namespace": ""}, user="alice")),
        post(LOCAL, local({**GET_PODS, "namespace": "other"}, user="alice")),
        post(LOCAL, local(GET_PODS, namespace="other", user="alice")),
        post(LOCAL, local(path={"path": "/x"}, user="alice")),
        post(LOCAL, {"metadata": {"namespace": "{ns}", "name": "n"}, **about(GET_PODS, user="alice")}),
        post(f"{ROOT}/namespaces/absent/localsubjectaccessreviews", local(GET_PODS, namespace="absent", user="alice")),
    ),
    case("may they, asked by somebody without rights", post(OTHERS, about(GET_PODS, user="x"), **AS_ALICE)),
]
WHAT = [
    case(
        "what may I",
        *GRANT,
        post(RULES, {"spec": {"namespace": "{ns}"}}, **AS_ALICE).in_any_order(),
        post(RULES, {"spec": {"namespace": "none"}}, **AS_ALICE),
        post(RULES, {"spec": {"namespace": "{ns}"}}),
        post(RULES, {}),
        post(RULES, {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"namespace": "{ns}"}}),
    ),
    case(
        "who am I",
        *(post(WHO, {}, **headers) for headers in (AS_ALICE, AS_BOB)),
        post(WHO, {"metadata": {"name": "n", "labels": {"a": "b"}}}, **AS_ALICE),
        post(WHO, {"status": {"userInfo": {"username": "root"}}}, **AS_ALICE),
        post(WHO, "nonsense", **AS_ALICE),
    ),
]
CASES = cases_of(ONESELF, SELECTORS, THEY, WHAT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_questions_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
