"""The API's half of a namespace's end: policies, finalizers of both kinds, the `finalize` and `status` endpoints.

There are no controllers on either side: what a namespace would wait for, the cases do themselves.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import config_map
from harness.request_cases import METADATA, TABLE, Case, Edited, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

ALL = "/api/v1/namespaces"
N = f"{ALL}/{{ns}}-n"
MAPS = f"{N}/configmaps"


def namespace(*finalizers: str, spec: Any = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "{ns}-n"}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, **({"spec": spec} if spec else {})}


MADE = post(ALL, namespace()).named("n")
FINALIZED = put(f"{N}/finalize", namespace(spec={"finalizers": []}))


def with_options(name: str, *bodies: dict[str, Any], finalizers: tuple[str, ...] = ()) -> Case:
    """Delete again and again, then take everything off."""
    steps = [step for body in bodies for step in (delete(N, body), get(N))]
    last = patch(N, {"metadata": {"finalizers": None}})
    return case(name, post(ALL, namespace(*finalizers)), *steps, FINALIZED, last, get(N))


ENDS = [
    with_options("a namespace without options", {}),
    with_options("a namespace in the background", {"propagationPolicy": "Background"}),
    with_options("a namespace in the foreground", {"propagationPolicy": "Foreground"}),
    with_options("a namespace and its orphans", {"propagationPolicy": "Orphan"}),
    with_options("a namespace with orphanDependents", {"orphanDependents": True}),
    with_options("a namespace without orphanDependents", {"orphanDependents": False}),
    with_options(
        "a namespace in one way and then in another",
        {"propagationPolicy": "Foreground"},
        {},
        {"propagationPolicy": "Orphan"},
    ),
    with_options(
        "a namespace in the background with the orphan finalizer",
        {"propagationPolicy": "Background"},
        finalizers=("orphan",),
    ),
    with_options("a namespace with the foreground finalizer", {}, finalizers=("foregroundDeletion",)),
    with_options("a namespace with no time at all", {"gracePeriodSeconds": 0}),
    with_options("a namespace with some time", {"gracePeriodSeconds": 30}),
    with_options("a namespace in a dry run", {"dryRun": ["All"]}, {}),
    with_options(
        "a namespace with a right uid", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}, {}
    ),
]
STEPS = [
    case(
        "what a namespace that goes refuses",
        MADE,
        post(MAPS, config_map("before")),
        delete(N),
        post(MAPS, config_map("after")),
        patch(f"{MAPS}/before", {"data": {"k": "changed"}}),
        delete(f"{MAPS}/before"),
        get(N, TABLE),
        get(N, METADATA),
        FINALIZED,
        get(N),
        post(MAPS, config_map("late")),
    ),
    case(
        "finalizing before it is deleted",
        MADE,
        FINALIZED,
        get(N),
        delete(N),
        get(N),
        delete(N),
        get(N),
    ),
    case(
        "finalizing what is still held",
        post(ALL, namespace("example.com/f")),
        delete(N),
        FINALIZED,
        get(N),
        delete(N),
        patch(N, {"metadata": {"finalizers": None}}),
        get(N),
    ),
    case(
        "finalizing in wrong ways",
        MADE.named("n"),
        put(f"{N}/finalize", namespace(spec={"finalizers": ["plain"]})),
        put(f"{N}/finalize", namespace(spec={"finalizers": ["example.com/g", "kubernetes"]})),
        put(f"{N}/finalize", {**namespace(), "metadata": {"name": "other"}}),
        put(f"{N}/finalize", Edited("n", {"metadata": {"resourceVersion": "1"}})),
        put(f"{N}/finalize", Edited("n", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Odd"}})),
        get(f"{N}/finalize"),
        patch(f"{N}/finalize", {"spec": {"finalizers": []}}),
        delete(N),
        FINALIZED,
        get(N),
    ),
    case(
        "saying what is left",
        MADE,
        patch(f"{N}/status", {"status": {"phase": "Terminating"}}),
        delete(N).named("n"),
        put(
            f"{N}/status",
            Edited("n", {"status": {"conditions": [{"type": "Odd", "status": "True", "reason": "r", "message": "m"}]}}),
        ),
        patch(f"{N}/status", {"status": {"phase": "Active"}}),
        patch(f"{N}/status", {"spec": {"finalizers": []}}),
        put(f"{N}/finalize", Edited("n", {"spec": {"finalizers": []}})),
        FINALIZED,
        get(N),
    ),
    case(
        "a namespace made again",
        MADE,
        delete(N),
        post(ALL, namespace()),
        FINALIZED,
        post(ALL, namespace()),
        get(MAPS),
        delete(N),
        FINALIZED,
    ),
]
CASES = cases_of(ENDS, STEPS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_namespaces_end_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
