"""Subresources that pods alone have: binding, eviction, resize, ephemeral containers."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CORE, PODS, binding, gated, pod
from harness.request_cases import TABLE, Case, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

P = f"{PODS}/p"
POD = post(PODS, pod("p")).named("p")


def eviction(name: str = "p", **rest: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "{ns}"}, **rest}


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


BINDING = [
    case(
        "binding a pod",
        POD,
        post(f"{P}/binding", binding("p")),
        get(P),
        get(P, TABLE),
        post(f"{P}/binding", binding("p")),
        post(f"{P}/binding", binding("p", "other")),
    ),
    case(
        "binding by the older path",
        POD,
        post(f"{CORE}/bindings", binding("p")),
        get(P),
        post(f"{CORE}/bindings", binding("p")),
        post(f"{CORE}/bindings", binding("none")),
    ),
    case(
        "binding with annotations and labels",
        POD,
        post(
            f"{P}/binding", binding("p", annotations={"a": "b"}, labels={"c": "d", "topology.kubernetes.io/zone": "z"})
        ),
        get(P),
    ),
    case(
        "binding to nothing",
        POD,
        post(f"{P}/binding", {**binding("p"), "target": {}}),
        post(f"{P}/binding", {**binding("p"), "target": None}),
        post(f"{P}/binding", binding("p", "")),
        post(f"{P}/binding", {**binding("p"), "target": {"kind": "Pod", "name": "x"}}),
        get(P),
    ),
    case(
        "binding under another name",
        POD,
        post(f"{P}/binding", binding("q")),
        post(f"{P}/binding", binding("")),
        post(f"{CORE}/bindings", binding("")),
    ),
    case("binding what is not there", post(f"{PODS}/none/binding", binding("none"))),
    case(
        "binding with preconditions",
        POD,
        post(f"{P}/binding", binding("p", uid="00000000-0000-0000-0000-000000000000")),
        post(f"{P}/binding", binding("p", resourceVersion="1")),
        post(f"{P}/binding", binding("p", uid="${p:/metadata/uid}")),
        get(P),
    ),
    case("binding in a dry run", POD, post(f"{P}/binding?dryRun=All", binding("p")), get(P)),
    case(
        "binding what is going",
        post(PODS, {**pod("p"), "metadata": {"name": "p", "finalizers": ["example.com/f"]}}),
        delete(P),
        post(f"{P}/binding", binding("p")),
        patch(P, {"metadata": {"finalizers": None}}),
    ),
    case(
        "binding clears the nomination",
        POD,
        patch(f"{P}/status", {"status": {"nominatedNodeName": "n"}}),
        post(f"{P}/binding", binding("p")),
        get(P),
    ),
    case(
        "binding with another namespace",
        POD,
        post(f"{P}/binding", binding("p", namespace="other")),
        post(f"{P}/binding", binding("p", namespace="{ns}")),
        get(P),
    ),
    case(
        "binding with wrong bodies",
        POD,
        post(f"{P}/binding", pod("p")),
        post(f"{P}/binding", {}),
        post(f"{P}/binding", "x"),
        get(f"{P}/binding"),
        put(f"{P}/binding", binding("p")),
        get(f"{CORE}/bindings"),
    ),
    case("binding with a bad node name", POD, post(f"{P}/binding", binding("p", "Bad_Node")), get(P)),
]
EVICTION = [
    case("evicting a pod", POD, post(f"{P}/eviction", eviction()), get(P)),
    case(
        "evicting a placed pod",
        post(PODS, pod("p", nodeName="n")),
        post(f"{P}/eviction", eviction(deleteOptions={"gracePeriodSeconds": 7})),
        get(P),
        post(f"{P}/eviction", eviction(deleteOptions={"gracePeriodSeconds": 0})),
        get(P),
    ),
    case(
        "evicting in a dry run",
        POD,
        post(f"{P}/eviction?dryRun=All", eviction()),
        get(P),
        post(f"{P}/eviction", eviction(deleteOptions={"dryRun": ["All"]})),
        get(P),
    ),
    case("evicting what is not there", post(f"{PODS}/none/eviction", eviction("none"))),
    case(
        "evicting under another name",
        POD,
        post(f"{P}/eviction", eviction("q")),
        post(f"{P}/eviction", {**eviction(), "apiVersion": "policy/v1beta1"}),
        post(f"{P}/eviction", {}),
        get(f"{P}/eviction"),
    ),
    case(
        "a budget without a status holds",
        post("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", budget(minAvailable=1)),
        post(PODS, pod("p", {"app": "a"}, nodeName="n")),
        patch(f"{P}/status", {"status": {"phase": "Running"}}),
        post(f"{P}/eviction", eviction()),
        get(P),
    ),
    case(
        "a budget with room lets one go",
        post("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", budget(minAvailable=1)),
        post(PODS, pod("p", {"app": "a"}, nodeName="n")),
        patch(f"{P}/status", {"status": {"phase": "Running"}}),
        patch(
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets/b/status",
            {
                "status": {
                    "disruptionsAllowed": 1,
                    "currentHealthy": 2,
                    "desiredHealthy": 1,
                    "expectedPods": 2,
                    "observedGeneration": 1,
                }
            },
        ),
        post(f"{P}/eviction", eviction()),
        get("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets/b"),
    ),
    case(
        "a pending pod goes in spite of a budget",
        post("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", budget(minAvailable=1)),
        post(PODS, pod("p", {"app": "a"})),
        post(f"{P}/eviction", eviction()),
        get(P),
    ),
    case(
        "evicting with preconditions",
        POD,
        post(
            f"{P}/eviction", eviction(deleteOptions={"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
        ),
        get(P),
    ),
]


def sized(cpu: str, memory: str = "64Mi", **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"name": "main", "image": "registry.example/app:1", "resources": resources, **more}


RESIZE = [
    case(
        "resizing a pod",
        post(PODS, pod("p", containers=[sized("1")])).named("p"),
        patch(f"{P}/resize", {"spec": {"containers": [sized("2")]}}),
        patch(
            f"{P}/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}},
            "strategic",
        ),
        get(f"{P}/resize"),
        get(P),
    ),
    case(
        "resizing a gated pod",
        post(PODS, gated("p", "a", containers=[sized("1")])),
        patch(
            f"{P}/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}},
            "strategic",
        ),
        get(P),
    ),
    case(
        "resizing changes nothing else",
        post(PODS, pod("p", containers=[sized("1")])),
        patch(f"{P}/resize", {"spec": {"containers": [sized("2", image="other")]}}),
        patch(f"{P}/resize", {"spec": {"priority": 3}}),
        patch(f"{P}/resize", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "a resize may not change the class",
        post(PODS, pod("p", containers=[sized("1")])),
        patch(
            f"{P}/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}]}},
            "strategic",
        ),
        patch(
            f"{P}/resize",
            {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": None, "memory": None}}}]}},
            "strategic",
        ),
        patch(
            f"{P}/resize",
            {
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
                        }
                    ]
                }
            },
            "strategic",
        ).in_any_order(),
    ),
    case(
        "a resize through the pod itself",
        post(PODS, pod("p", containers=[sized("1")])),
        patch(P, {"spec": {"containers": [sized("2")]}}),
    ),
    case("resizing what is not there", patch(f"{PODS}/none/resize", {"spec": {}})),
]
EPHEMERAL = [
    case(
        "ephemeral containers",
        POD,
        get(f"{P}/ephemeralcontainers"),
        patch(
            f"{P}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "i"}]}},
            "strategic",
        ),
        get(P),
    ),
]
CASES = cases_of(BINDING, EVICTION, RESIZE, EPHEMERAL)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_subresources_of_pods_answer_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
