"""Tokens of service accounts: asking for them, what they claim, coming in with them, and when they are no good."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, NODES, PODS, pod
from harness.request_cases import Case, case, cases_of, delete, get, post
from harness.server_pair import ServerPair
from harness.users import ALICE, BOB, TOKEN

pytestmark = pytest.mark.real

ACCOUNTS = "/api/v1/namespaces/{ns}/serviceaccounts"
SECRETS = "/api/v1/namespaces/{ns}/secrets"
TOKENS = f"{ACCOUNTS}/robot/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ROBOT = post(ACCOUNTS, {"metadata": {"name": "robot"}})
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def wanted(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def review(token: str, *audiences: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}


def bound(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return wanted(boundObjectRef={"apiVersion": "v1", "kind": kind, "name": name, **more})


def holding(saved: str) -> dict[str, str]:
    """The headers of a client with a token that an earlier step saved."""
    return {"Authorization": f"Bearer ${{{saved}:/status/token}}"}


WITH = holding("made")
OF_ALL = ("of_account", "of_secret", "of_pod", "of_node")
MADE = post(TOKENS, wanted()).named("made")
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-{ns}"}}
RUNNING = pod("p", serviceAccountName="robot", nodeName="node-{ns}")

ASKED = [
    case(
        "a token with nothing said", ROBOT, MADE, post(TOKENS, {}), post(TOKENS, {"metadata": {"labels": {"a": "b"}}})
    ),
    case("a token for audiences", ROBOT, post(TOKENS, wanted(audiences=["a", "b"], expirationSeconds=7200))),
    *(
        case(f"a token for {seconds} seconds", ROBOT, post(TOKENS, wanted(expirationSeconds=seconds)))
        for seconds in (-1, 0, 599, 600, 3607, 4294967296, 4294967297)
    ),
    case("a token of an account that is absent", post(TOKENS, wanted()), post(f"{ACCOUNTS}/Bad_Name/token", wanted())),
    case(
        "a token under another name",
        ROBOT,
        post(TOKENS, {**wanted(), "metadata": {"name": "other"}}),
        post(TOKENS, {**wanted(), "metadata": {"name": "robot", "namespace": "{ns}"}}),
        post(TOKENS, {**wanted(), "metadata": {"namespace": "other"}}),
        post(TOKENS, {**wanted(), "metadata": {"uid": "other"}}),
        post(TOKENS, {**wanted(), "metadata": {"generateName": "x", "annotations": {"a": "b"}}}),
    ),
    case(
        "another kind for a token",
        ROBOT,
        post(TOKENS, {"apiVersion": "v1", "kind": "ConfigMap"}),
        post(TOKENS, "nonsense"),
    ),
    case(
        "a token with fields that are unknown",
        ROBOT,
        post(f"{TOKENS}?fieldValidation=Strict", wanted(odd=1)),
        post(TOKENS, wanted(odd=1)),
    ),
    case(
        "a token in a dry run", ROBOT, post(f"{TOKENS}?dryRun=All", wanted()), post(f"{TOKENS}?dryRun=Some", wanted())
    ),
    case("other verbs on tokens", ROBOT, get(TOKENS), delete(TOKENS)),
]
BOUND = [
    case(
        "a token for a pod",
        ROBOT,
        post(PODS, pod("p", serviceAccountName="robot")).named("pod"),
        post(TOKENS, bound("Pod", "p")).named("made"),
        post(TOKENS, bound("Pod", "p", uid="${pod:/metadata/uid}")),
        post(TOKENS, bound("Pod", "p", uid="other")),
        post(TOKENS, bound("Pod", "absent")),
        post(WHO, {}, **WITH).until(201),
    ),
    case(
        "a token for a pod with a node",
        ROBOT,
        post(NODES, NODE),
        post(PODS, RUNNING),
        post(TOKENS, bound("Pod", "p")).named("made"),
        post(WHO, {}, **WITH).until(201),
        delete(f"{NODES}/node-{{ns}}"),
        post(TOKENS, bound("Pod", "p")),
        post(WHO, {}, **WITH),
    ),
    case(
        "a token that a projected volume would ask for",
        ROBOT,
        post(PODS, pod("p", serviceAccountName="robot")),
        post(TOKENS, {**bound("Pod", "p"), "spec": {**bound("Pod", "p")["spec"], "expirationSeconds": 3607}}),
        post(
            TOKENS,
            {**bound("Pod", "p"), "spec": {**bound("Pod", "p")["spec"], "expirationSeconds": 3607, "audiences": ["x"]}},
        ),
    ),
    case("a token for a pod of another account", ROBOT, post(PODS, pod("p")), post(TOKENS, bound("Pod", "p"))),
    case(
        "a token for a secret",
        ROBOT,
        post(SECRETS, {"metadata": {"name": "s"}}),
        post(TOKENS, bound("Secret", "s")).named("made"),
        post(WHO, {}, **WITH).until(201),
    ),
    case(
        "a token for a node",
        ROBOT,
        post(NODES, NODE),
        post(TOKENS, bound("Node", "node-{ns}")).named("made"),
        post(WHO, {}, **WITH).until(201),
    ),
    case(
        "a token for something else",
        ROBOT,
        post(TOKENS, bound("ConfigMap", "c")),
        post(TOKENS, wanted(boundObjectRef={"apiVersion": "apps/v1", "kind": "Pod", "name": "p"})),
        post(TOKENS, wanted(boundObjectRef={})),
        post(TOKENS, wanted(boundObjectRef={"kind": "Pod", "name": "p", "apiVersion": "a/b/c"})),
    ),
]
USED = [
    case("who one is with a token", ROBOT, MADE, post(WHO, {}, **WITH).until(201), get(CONFIG_MAPS, **WITH)),
    case(
        "a token with something after it", ROBOT, MADE, get(CONFIG_MAPS, Authorization="Bearer ${made:/status/token}x")
    ),
    case(
        "a token with its signature cut",
        ROBOT,
        MADE,
        get(CONFIG_MAPS, Authorization="Bearer eyJ9.${made:/status/token}"),
    ),
    case(
        "a token whose object is gone",
        ROBOT,
        post(ACCOUNTS, {"metadata": {"name": "other"}}),
        post(SECRETS, {"metadata": {"name": "s"}}),
        post(PODS, pod("p", serviceAccountName="robot")),
        post(NODES, NODE),
        post(f"{ACCOUNTS}/other/token", wanted()).named("of_account"),
        *(
            post(TOKENS, bound(kind, name)).named(f"of_{kind.lower()}")
            for kind, name in (("Secret", "s"), ("Pod", "p"), ("Node", "node-{ns}"))
        ),
        *(post(WHO, {}, **holding(each)).until(201) for each in OF_ALL),
        delete(f"{ACCOUNTS}/other"),
        delete(f"{SECRETS}/s"),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
        delete(f"{NODES}/node-{{ns}}"),
        # A real server goes on believing a token for ten seconds.
        *(get(CONFIG_MAPS, **holding(each)).until(401) for each in OF_ALL),
        *(post(REVIEWS, review(f"${{{each}:/status/token}}")) for each in OF_ALL),
        post(ACCOUNTS, {"metadata": {"name": "other"}}),
        post(SECRETS, {"metadata": {"name": "s"}}),
        *(post(REVIEWS, review(f"${{{each}:/status/token}}")) for each in ("of_account", "of_secret")),
    ),
    case(
        "a token for another audience",
        ROBOT,
        post(TOKENS, wanted(audiences=["elsewhere"])).named("made"),
        get(CONFIG_MAPS, **WITH),
        post(REVIEWS, review("${made:/status/token}")),
        post(REVIEWS, review("${made:/status/token}", "elsewhere", "third")),
    ),
    case(
        "a right of an account",
        ROBOT,
        MADE,
        post(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
            {
                "metadata": {"name": "b"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
                "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
            },
        ),
        get(PODS, **WITH).until(200),
        get("/api/v1/pods", **WITH),
    ),
]
REVIEWED = [
    case("a review of a good token", ROBOT, MADE, post(REVIEWS, review("${made:/status/token}"))),
    case(
        "a review for audiences",
        ROBOT,
        MADE,
        post(REVIEWS, review("${made:/status/token}", "x")),
        post(REVIEWS, review("${made:/status/token}", "x", "https://kubernetes.default.svc")),
    ),
    case(
        "a review of tokens given out beforehand",
        *(post(REVIEWS, review(token)) for token in (TOKEN, ALICE, BOB)),
        post(REVIEWS, review(BOB, "x")),
        post(REVIEWS, review(BOB, "https://kubernetes.default.svc", "y")),
    ),
    case(
        "a review of nonsense",
        *(post(REVIEWS, review(token)) for token in ("", "x", "a.b.c", f"{TOKEN} x", "eyJhbGciOiJub25lIn0.e30.")),
        post(REVIEWS, {}),
        post(REVIEWS, {**review("x"), "metadata": {"name": "n"}}),
    ),
    case("a review by somebody without rights", post(REVIEWS, review("x"), Authorization=f"Bearer {ALICE}")),
]
CASES = cases_of(ASKED, BOUND, USED, REVIEWED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tokens_are_given_and_taken_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
