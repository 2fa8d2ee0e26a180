"""DELETE of one and of many: options, preconditions, propagation, finalizers, grace."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, config_map, deployment, gated, node, pod
from harness.request_cases import METADATA, TABLE, Case, case, cases_of, delete, get, patch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

ME = f"{CONFIG_MAPS}/me"
MADE = post(CONFIG_MAPS, config_map("me")).named("me")
ZERO = "00000000-0000-0000-0000-000000000000"


def options(**fields: Any) -> dict[str, Any]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}


def held(*finalizers: str) -> dict[str, Any]:
    return {**config_map("me"), "metadata": {"name": "me", "finalizers": list(finalizers)}}


def with_body(name: str, *bodies: Any) -> Case:
    return case(name, MADE, *(step for body in bodies for step in (delete(ME, body), get(ME))))


ONE = [
    with_body("without a body", None),
    with_body("with empty options", {}),
    with_body("with options of another version", {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}),
    with_body("with options of the group", {"kind": "DeleteOptions", "apiVersion": "apps/v1"}),
    with_body(
        "with a body of another kind", {"kind": "ConfigMap", "apiVersion": "v1"}, {"kind": "Odd", "apiVersion": "v1"}
    ),
    with_body("with unknown options", options(odd=1)),
    with_body(
        "with options of a wrong type", options(gracePeriodSeconds="x"), options(preconditions=[]), "[]", "x", "null"
    ),
    with_body("the right uid", options(preconditions={"uid": "${me:/metadata/uid}"})),
    with_body("another uid", options(preconditions={"uid": ZERO})),
    with_body("the right revision", options(preconditions={"resourceVersion": "${me:/metadata/resourceVersion}"})),
    with_body("another revision", options(preconditions={"resourceVersion": "1"})),
    with_body("both wrong", options(preconditions={"uid": ZERO, "resourceVersion": "1"})),
    with_body("empty preconditions", options(preconditions={}), options(preconditions={"uid": ""})),
    with_body("a negative grace", options(gracePeriodSeconds=-1)),
    with_body("a dry run in the body", options(dryRun=["All"])),
    with_body("an unknown dry run in the body", options(dryRun=["Odd"])),
    with_body("in the background", options(propagationPolicy="Background")),
    with_body("in the foreground", options(propagationPolicy="Foreground")),
    with_body("as orphans", options(propagationPolicy="Orphan")),
    with_body("an unknown policy", options(propagationPolicy="Odd")),
    with_body("orphanDependents", options(orphanDependents=True)),
    with_body("no orphanDependents", options(orphanDependents=False)),
    with_body("orphanDependents and a policy", options(orphanDependents=True, propagationPolicy="Orphan")),
    case(
        "options in the query",
        MADE,
        delete(f"{ME}?propagationPolicy=Odd"),
        delete(f"{ME}?gracePeriodSeconds=x"),
        delete(f"{ME}?dryRun=All"),
        get(ME),
        delete(f"{ME}?gracePeriodSeconds=0&propagationPolicy=Background"),
        get(ME),
    ),
    case(
        "options in the query and in the body",
        MADE,
        delete(f"{ME}?propagationPolicy=Foreground", options(propagationPolicy="Background")),
        get(ME),
    ),
    case(
        "options in yaml",
        MADE,
        delete(ME, "kind: DeleteOptions\napiVersion: v1\ndryRun: [All]\n", Content_Type="application/yaml"),
        get(ME),
    ),
    case("ignoring read errors", MADE, delete(f"{ME}?ignoreStoreReadErrorWithClusterBreakingPotential=true"), get(ME)),
    case("twice", MADE, delete(ME), delete(ME)),
    case(
        "as a table and as metadata",
        MADE,
        delete(ME, accept=TABLE),
        post(CONFIG_MAPS, config_map("two")),
        delete(f"{CONFIG_MAPS}/two", accept=METADATA),
    ),
    case(
        "made again under its name",
        MADE,
        delete(ME),
        post(CONFIG_MAPS, config_map("me")),
        delete(ME, options(preconditions={"uid": "${me:/metadata/uid}"})),
    ),
    case(
        "what does not exist",
        delete(f"{CONFIG_MAPS}/none"),
        delete("/api/v1/namespaces/nope/configmaps/none"),
        delete("/api/v1/namespaces/nope"),
    ),
]
FINALIZERS = [
    case(
        "a finalizer holds it",
        post(CONFIG_MAPS, held("example.com/f")),
        delete(ME),
        get(ME),
        delete(ME),
        patch(ME, {"metadata": {"finalizers": None}}),
        get(ME),
    ),
    case(
        "two finalizers go one by one",
        post(CONFIG_MAPS, held("example.com/f", "example.com/g")),
        delete(ME),
        patch(ME, {"metadata": {"finalizers": ["example.com/g"]}}),
        patch(ME, {"metadata": {"finalizers": []}}),
        get(ME),
    ),
    case(
        "the foreground finalizer",
        post(DEPLOYMENTS, deployment("d")),
        delete(f"{DEPLOYMENTS}/d", options(propagationPolicy="Foreground")),
        get(f"{DEPLOYMENTS}/d"),
        patch(f"{DEPLOYMENTS}/d", {"metadata": {"finalizers": None}}),
    ),
    case(
        "the orphan finalizer",
        post(DEPLOYMENTS, deployment("d")),
        delete(f"{DEPLOYMENTS}/d", options(propagationPolicy="Orphan")),
        get(f"{DEPLOYMENTS}/d"),
        delete(f"{DEPLOYMENTS}/d", options(propagationPolicy="Background")),
        get(f"{DEPLOYMENTS}/d"),
    ),
    case(
        "finalizers kept beside a policy",
        post(CONFIG_MAPS, held("example.com/f", "orphan")),
        delete(ME, options(propagationPolicy="Foreground")),
        patch(ME, {"metadata": {"finalizers": None}}),
    ),
    case("a finalizer in a dry run", post(CONFIG_MAPS, held("example.com/f")), delete(f"{ME}?dryRun=All"), get(ME)),
    case(
        "the last finalizer goes in a dry run",
        post(CONFIG_MAPS, held("example.com/f")),
        delete(ME),
        patch(f"{ME}?dryRun=All", {"metadata": {"finalizers": None}}),
        get(ME),
    ),
    case(
        "a node with a finalizer",
        post(NODES, {**node("{ns}"), "metadata": {"name": "{ns}", "finalizers": ["example.com/f"]}}),
        delete(f"{NODES}/{{ns}}"),
        get(f"{NODES}/{{ns}}", TABLE),
        patch(f"{NODES}/{{ns}}", {"metadata": {"finalizers": None}}),
    ),
]
P = f"{PODS}/p"
PLACED = post(PODS, pod("p", nodeName="node-1")).named("p")
GRACE = [
    case("an unplaced pod goes at once", post(PODS, pod("p")), delete(P), get(P)),
    case("a gated pod goes at once", post(PODS, gated("p", "a")), delete(P), get(P)),
    case(
        "a placed pod is given time",
        PLACED,
        delete(P),
        get(P),
        get(P, TABLE),
        delete(P),
        delete(P, options(gracePeriodSeconds=0)),
        get(P),
    ),
    case(
        "a placed pod, less time the second time",
        PLACED,
        delete(P, options(gracePeriodSeconds=20)),
        delete(P, options(gracePeriodSeconds=10)),
        delete(P, options(gracePeriodSeconds=30)),
        delete(f"{P}?gracePeriodSeconds=0"),
    ),
    case("a placed pod by force", PLACED, delete(f"{P}?gracePeriodSeconds=0"), get(P)),
    case(
        "a placed pod and a negative grace",
        PLACED,
        delete(P, options(gracePeriodSeconds=-5)),
        delete(f"{P}?gracePeriodSeconds=0"),
    ),
    case(
        "a finished pod goes at once",
        PLACED,
        patch(f"{P}/status", {"status": {"phase": "Succeeded"}}),
        delete(P),
        get(P),
    ),
    case(
        "a pod with its own grace",
        post(PODS, pod("p", nodeName="n", terminationGracePeriodSeconds=3)),
        delete(P),
        delete(f"{P}?gracePeriodSeconds=0"),
    ),
    case("a pod with no grace", post(PODS, pod("p", nodeName="n", terminationGracePeriodSeconds=0)), delete(P), get(P)),
    case(
        "a placed pod with a finalizer",
        post(PODS, {**pod("p", nodeName="n"), "metadata": {"name": "p", "finalizers": ["example.com/f"]}}),
        delete(P),
        delete(f"{P}?gracePeriodSeconds=0"),
        get(P),
        patch(P, {"metadata": {"finalizers": None}}),
        get(P),
    ),
    case(
        "a gated pod with a finalizer",
        post(PODS, {**gated("p", "a"), "metadata": {"name": "p", "finalizers": ["example.com/f"]}}),
        delete(P),
        get(P, TABLE),
        patch(P, {"spec": {"schedulingGates": None}}),
        patch(P, {"metadata": {"finalizers": None}}),
        get(P),
    ),
    case(
        "a pod that is going can be told so again",
        PLACED,
        delete(P).named("going"),
        patch(P, {"metadata": {"deletionTimestamp": None}}),
        patch(P, {"metadata": {"deletionGracePeriodSeconds": 99}}),
        patch(P, {"metadata": {"labels": {"a": "b"}}}),
        delete(f"{P}?gracePeriodSeconds=0"),
    ),
]
FOUR = [
    post(CONFIG_MAPS, config_map(name, labels={"app": app}))
    for name, app in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"))
]
MANY = [
    case("all of a namespace", *FOUR, delete(CONFIG_MAPS), get(CONFIG_MAPS)),
    case("those with a label", *FOUR, delete(f"{CONFIG_MAPS}?labelSelector=app=x"), get(CONFIG_MAPS)),
    case("those with a field", *FOUR, delete(f"{CONFIG_MAPS}?fieldSelector=metadata.name=c"), get(CONFIG_MAPS)),
    case(
        "a bad selector deletes nothing",
        *FOUR,
        delete(f"{CONFIG_MAPS}?labelSelector=((("),
        delete(f"{CONFIG_MAPS}?fieldSelector=odd=1"),
        get(CONFIG_MAPS),
    ),
    case(
        "many in a dry run",
        *FOUR,
        delete(f"{CONFIG_MAPS}?dryRun=All"),
        delete(CONFIG_MAPS, options(dryRun=["All"])),
        get(CONFIG_MAPS),
    ),
    case(
        "many with options",
        *FOUR,
        delete(f"{CONFIG_MAPS}?labelSelector=app=x", options(propagationPolicy="Foreground")),
        delete(CONFIG_MAPS, options(propagationPolicy="Odd")),
        get(CONFIG_MAPS),
    ),
    case(
        "many with a precondition", *FOUR, delete(CONFIG_MAPS, options(preconditions={"uid": ZERO})), get(CONFIG_MAPS)
    ),
    case("none at all", delete(CONFIG_MAPS), delete(f"{CONFIG_MAPS}?labelSelector=app=none")),
    case("many with a limit", *FOUR, delete(f"{CONFIG_MAPS}?limit=2"), get(CONFIG_MAPS)),
    case(
        "many at a revision",
        *FOUR,
        delete(f"{CONFIG_MAPS}?resourceVersion=0&labelSelector=app=x"),
        get(CONFIG_MAPS),
    ),
    case(
        "many pods, some placed",
        post(PODS, pod("a")),
        post(PODS, pod("b", nodeName="n")),
        post(PODS, gated("c", "g")),
        delete(PODS),
        get(PODS, TABLE),
        delete(f"{PODS}?gracePeriodSeconds=0"),
        get(PODS),
    ),
    case(
        "many across namespaces",
        delete("/api/v1/configmaps?labelSelector=none=here"),
        delete("/api/v1/namespaces?labelSelector=none=here"),
        delete("/api/v1/nodes?labelSelector=none=here"),
    ),
    case("many as a table", *FOUR, delete(CONFIG_MAPS, accept=TABLE), get(CONFIG_MAPS)),
    case(
        "many where one is held",
        post(CONFIG_MAPS, held("example.com/f")),
        *FOUR,
        delete(CONFIG_MAPS),
        get(CONFIG_MAPS),
        patch(ME, {"metadata": {"finalizers": None}}),
    ),
]
CASES = cases_of(ONE, FINALIZERS, GRACE, MANY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_deletions_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
