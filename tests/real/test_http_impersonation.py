"""Impersonation: which user and groups a request gets, which users may impersonate, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, PODS
from harness.request_cases import Case, Step, case, cases_of, get, post
from harness.server_pair import ServerPair
from harness.users import ALICE, bearing

pytestmark = pytest.mark.real

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
AS_ALICE = bearing(ALICE)


def who(**headers: str) -> Step:
    return post(WHO, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, **headers)


def allowed(sentence: str, rules: list[dict[str, Any]], *steps: Step) -> Case:
    """Alice may impersonate what `rules` say, in the whole cluster."""
    return case(
        sentence,
        post(f"{RBAC}/clusterroles", {"metadata": {"name": "i-{ns}"}, "rules": rules}),
        post(
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": "i-{ns}"},
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "i-{ns}"},
                "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "alice"}],
            },
        ),
        *steps,
    )


def impersonate(resource: str, *names: str, group: str = "") -> dict[str, Any]:
    rule = {"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"]}
    return {**rule, "resourceNames": list(names)} if names else rule


TAKEN = [
    case("a user", who(Impersonate_User="carol"), get(PODS, Impersonate_User="carol")),
    case(
        "groups",
        who(Impersonate_User="carol", Impersonate_Group="g"),
        who(Impersonate_User="carol", Impersonate_Group="system:authenticated"),
        who(Impersonate_User="carol", Impersonate_Group="system:unauthenticated"),
        who(Impersonate_User="carol", Impersonate_Group="a,b"),
        get(CONFIG_MAPS, Impersonate_User="carol", Impersonate_Group="system:masters"),
    ),
    case(
        "a service account",
        who(Impersonate_User="system:serviceaccount:ns:robot"),
        who(Impersonate_User="system:serviceaccount:ns:robot", Impersonate_Group="g"),
        who(Impersonate_User="system:serviceaccount:ns:Robot_"),
        who(Impersonate_User="system:serviceaccount:ns"),
        who(Impersonate_User="system:serviceaccount:a:b:c"),
    ),
    case(
        "nobody",
        get("/version", Impersonate_User="system:anonymous"),
        get("/healthz", Impersonate_User="system:anonymous", Impersonate_Group="g"),
        who(Impersonate_User="system:anonymous"),
        who(Impersonate_User="system:anonymous", Impersonate_Group="system:masters"),
    ),
    case(
        "a uid and more",
        who(Impersonate_User="carol", Impersonate_Uid="123"),
        who(**{"Impersonate-User": "carol", "Impersonate-Extra-Scopes": "view"}),
        who(**{"Impersonate-User": "carol", "Impersonate-Extra-acme.com%2Fproject": "some"}),
        who(**{"Impersonate-User": "carol", "Impersonate-Extra-bad%2": "some"}),
        who(**{"Impersonate-User": "carol", "Impersonate-Extra-": "some"}),
    ),
    case(
        "something without a user",
        get(PODS, Impersonate_Group="g"),
        get(PODS, Impersonate_Uid="123"),
        get(PODS, **{"Impersonate-Extra-Scopes": "view"}),
        get(PODS, Impersonate_User="", Impersonate_Group="g"),
    ),
    case("a header that means nothing", get("/version", Impersonate_User=""), get("/version", Impersonate_Odd="x")),
]
ALLOWED = [
    case(
        "without the right",
        get(PODS, **AS_ALICE, Impersonate_User="bob"),
        get(PODS, **AS_ALICE, Impersonate_User="alice"),
        get(PODS, **AS_ALICE, Impersonate_User="system:serviceaccount:{ns}:robot"),
        get(PODS, **AS_ALICE, Impersonate_User="bob", Impersonate_Group="system:masters"),
        get("/version", **AS_ALICE, Impersonate_User="bob"),
    ),
    allowed(
        "the right to some users",
        [impersonate("users", "bob", "carol")],
        who(**AS_ALICE, Impersonate_User="bob").until(201),
        who(**AS_ALICE, Impersonate_User="carol"),
        who(**AS_ALICE, Impersonate_User="dave"),
        who(**AS_ALICE, Impersonate_User="bob", Impersonate_Group="g"),
        who(**AS_ALICE, Impersonate_User="bob", Impersonate_Uid="1"),
        who(**AS_ALICE, **{"Impersonate-User": "bob", "Impersonate-Extra-Scopes": "view"}),
    ),
    allowed(
        "the right to groups, uids and more",
        [
            impersonate("users"),
            impersonate("groups", "readers"),
            impersonate("uids", "1", group="authentication.k8s.io"),
            impersonate("userextras/scopes", "view", group="authentication.k8s.io"),
        ],
        who(**AS_ALICE, Impersonate_User="bob").until(201),
        who(**AS_ALICE, Impersonate_User="bob", Impersonate_Group="readers"),
        who(**AS_ALICE, Impersonate_User="bob", Impersonate_Group="system:masters"),
        who(**AS_ALICE, Impersonate_User="bob", Impersonate_Uid="1"),
        who(**AS_ALICE, Impersonate_User="bob", Impersonate_Uid="2"),
        who(**AS_ALICE, **{"Impersonate-User": "bob", "Impersonate-Extra-Scopes": "view"}),
        who(**AS_ALICE, **{"Impersonate-User": "bob", "Impersonate-Extra-Scopes": "edit"}),
        who(**AS_ALICE, **{"Impersonate-User": "bob", "Impersonate-Extra-Odd": "view"}),
        who(**AS_ALICE, Impersonate_User="system:serviceaccount:{ns}:robot"),
    ),
    case(
        "the right to service accounts of a namespace",
        post(f"{RBAC}/namespaces/{{ns}}/roles", {"metadata": {"name": "r"}, "rules": [impersonate("serviceaccounts")]}),
        post(
            f"{RBAC}/namespaces/{{ns}}/rolebindings",
            {
                "metadata": {"name": "b"},
                "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "alice"}],
            },
        ),
        who(**AS_ALICE, Impersonate_User="system:serviceaccount:{ns}:robot").until(201),
        who(**AS_ALICE, Impersonate_User="system:serviceaccount:elsewhere:robot"),
    ),
]
CASES = cases_of(TAKEN, ALLOWED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_impersonation_is_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
