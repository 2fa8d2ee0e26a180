"""What stands between a valid object and the store: priority, default tolerations, limit ranges, namespaces' lives.

A real server's admission reads caches; a step that depends on an object made before waits until that is seen.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CLASSES, CORE, PODS, config_map, gated, pod, priority_class
from harness.request_cases import Case, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

NAMESPACES = "/api/v1/namespaces"
CLAIMS = f"{CORE}/persistentvolumeclaims"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"


def namespace(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def quota(**hard: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}


# Without a quota controller; with one: test_http_quota.py.
QUOTA = [
    case(
        "a quota that nobody counted yet",
        post(f"{CORE}/resourcequotas", quota(pods="1")),
        patch(f"{CORE}/resourcequotas/q/status", {"status": {"hard": {"pods": "1", "cpu": "1"}}}),
        post(PODS, pod("p")).until(403),
        post(f"{CORE}/configmaps", config_map("c")),
    ),
    case(
        "what is charged without a controller is not given back",
        post(f"{CORE}/resourcequotas", quota(pods="1")),
        patch(f"{CORE}/resourcequotas/q/status", {"status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}),
        post(PODS, pod("p")).until(403),
        patch(f"{CORE}/resourcequotas/q/status", {"status": {"used": {"pods": "0"}}}),
        post(PODS, pod("p")).until(201),
        get(f"{CORE}/resourcequotas/q"),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
        get(f"{CORE}/resourcequotas/q"),
        post(PODS, pod("p")).until(403),
    ),
]

SECURITY = "pod-security.kubernetes.io"
POD_SECURITY = [
    case(
        "labels of pod security that cannot be read",
        post(NAMESPACES, namespace("{ns}-a", labels={f"{SECURITY}/enforce": "odd", f"{SECURITY}/warn-version": "1.2"})),
        post(NAMESPACES, namespace("{ns}-b", labels={f"{SECURITY}/audit": "", f"{SECURITY}/audit-version": "v1.02"})),
        post(NAMESPACES, namespace("{ns}-c", labels={f"{SECURITY}/warn": "Baseline"})),
        patch(f"{NAMESPACES}/{{ns}}", {"metadata": {"labels": {f"{SECURITY}/enforce": "strict"}}}),
        patch(f"{NAMESPACES}/{{ns}}", {"metadata": {"labels": {f"{SECURITY}/enforce-version": "v2.0"}}}),
        patch(
            f"{NAMESPACES}/{{ns}}",
            {
                "metadata": {
                    "labels": {
                        f"{SECURITY}/enforce": "privileged",
                        f"{SECURITY}/enforce-version": "v1.30",
                        f"{SECURITY}/audit-version": "latest",
                    }
                }
            },
        ),
    ),
]

PRIORITY = [
    case("the built-in classes", get(f"{CLASSES}/system-node-critical"), get(f"{CLASSES}/system-cluster-critical")),
    case(
        "a pod with a class",
        post(CLASSES, priority_class("{ns}", 77, preemptionPolicy="Never")),
        post(PODS, pod("p", priorityClassName="{ns}")).until(201),
        get(f"{PODS}/p"),
    ),
    case(
        "a pod with a class and its own number",
        post(CLASSES, priority_class("{ns}", 77)),
        post(PODS, pod("ok", priorityClassName="{ns}", priority=77)).until(201),
        post(PODS, pod("no", priorityClassName="{ns}", priority=78)),
        post(PODS, pod("policy", priorityClassName="{ns}", preemptionPolicy="Never")),
    ),
    case("a pod with an unknown class", post(PODS, pod("p", priorityClassName="none"))),
    case("a pod with a system class", post(PODS, pod("p", priorityClassName="system-cluster-critical"))),
    case("a pod with a number and no class", post(PODS, pod("p", priority=5)), post(PODS, pod("q", priority=0))),
    case("a pod without a class", post(PODS, pod("p")), get(f"{PODS}/p")),
    case(
        "classes that are refused",
        post(CLASSES, priority_class("system-odd", 1)),
        post(CLASSES, priority_class("{ns}", 1000000001)),
        post(CLASSES, priority_class("{ns}-b", -2147483649)),
        post(CLASSES, priority_class("{ns}-c", 1, preemptionPolicy="Odd")),
        delete(f"{CLASSES}/system-node-critical?dryRun=All"),
    ),
    case(
        "a class may not change its value",
        post(CLASSES, priority_class("{ns}", 7)),
        patch(f"{CLASSES}/{{ns}}", {"value": 8}),
        patch(f"{CLASSES}/{{ns}}", {"preemptionPolicy": "Never"}),
        patch(f"{CLASSES}/{{ns}}", {"description": "ok"}),
    ),
    case(
        "a default class",
        post(CLASSES, priority_class("{ns}", 33, globalDefault=True)),
        post(f"{CLASSES}?dryRun=All", priority_class("{ns}-second", 34, globalDefault=True)).until(403),
        post(PODS, pod("p")),
        delete(f"{CLASSES}/{{ns}}"),
        post(f"{CLASSES}?dryRun=All", priority_class("{ns}-second", 34, globalDefault=True)).until(201),
    ),
]
TOLERATIONS = [
    case("two tolerations are added", post(PODS, pod("p"))),
    case(
        "an own toleration stands",
        post(
            PODS,
            pod(
                "p",
                tolerations=[
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 5,
                    }
                ],
            ),
        ),
    ),
    case("a toleration of everything stands", post(PODS, pod("p", tolerations=[{"operator": "Exists"}]))),
    case(
        "a toleration of another effect does not",
        post(
            PODS,
            pod(
                "p",
                tolerations=[{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"}],
            ),
        ),
    ),
    case(
        "extended resources bring no toleration",
        post(PODS, pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": {"example.com/gpu": 1}}}])),
    ),
]


def limits(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": list(items)}}


def sized(name: str, **resources: Any) -> Any:
    return pod(name, containers=[{"name": "main", "image": "i", "resources": resources}])


def limited(name: str, limit: dict[str, Any], probe: dict[str, Any], *pods: dict[str, Any]) -> Case:
    """`probe` is a pod that the limits refuse: once it is refused, the server has seen them."""
    return case(
        f"limits: {name}",
        post(f"{CORE}/limitranges", limit),
        post(f"{PODS}?dryRun=All", probe).until(403),
        *(post(PODS, each) for each in pods),
    )


REFUSED_LIMITS: dict[str, list[dict[str, Any]]] = {
    "min over max": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
    "twice the same type": [{"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}}],
    "a default of a pod": [{"type": "Pod", "default": {"cpu": "1"}, "max": {"cpu": "2"}}],
    "no type": [{"max": {"cpu": "1"}}],
    "an odd type": [{"type": "Odd", "max": {"cpu": "1"}}],
    "a default over the maximum": [{"type": "Container", "default": {"cpu": "5"}, "max": {"cpu": "2"}}],
    "a ratio below one": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}],
}
HUGE = sized("huge", requests={"cpu": "100", "memory": "1Gi"}, limits={"cpu": "100", "memory": "1Gi"})
LIMITS = [
    limited(
        "defaults",
        limits(
            {
                "type": "Container",
                "default": {"cpu": "2", "memory": "1Gi"},
                "defaultRequest": {"cpu": "1"},
                "max": {"cpu": "4", "memory": "4Gi"},
            }
        ),
        HUGE,
        sized("bare"),
        sized("half", requests={"cpu": "500m"}),
        sized("full", limits={"cpu": "3"}),
        gated("gated", "a"),
    ),
    limited(
        "a maximum alone is a default",
        limits({"type": "Container", "max": {"cpu": "2", "memory": "2Gi"}}),
        HUGE,
        sized("bare"),
        sized("over", limits={"cpu": "3"}),
        sized("request", requests={"cpu": "3"}),
    ),
    limited(
        "a minimum",
        limits({"type": "Container", "min": {"cpu": "100m", "memory": "10Mi"}, "max": {"cpu": "9"}}),
        HUGE,
        sized("bare"),
        sized("under", requests={"cpu": "50m"}, limits={"cpu": "1"}),
        sized("fine", requests={"cpu": "200m", "memory": "10Mi"}, limits={"cpu": "1", "memory": "20Mi"}),
    ),
    limited(
        "a ratio",
        limits({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}, "max": {"cpu": "9"}}),
        HUGE,
        sized("wide", requests={"cpu": "100m"}, limits={"cpu": "1"}),
        sized("close", requests={"cpu": "1"}, limits={"cpu": "2"}),
    ),
    limited(
        "of a whole pod",
        limits({"type": "Pod", "max": {"cpu": "3"}, "min": {"memory": "1Mi"}}),
        HUGE,
        sized("bare"),
        pod(
            "sum",
            containers=[
                {"name": n, "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}} for n in "ab"
            ],
        ),
        sized("fine", limits={"cpu": "2", "memory": "1Gi"}),
    ),
    case(
        "limits: of claims",
        post(
            f"{CORE}/limitranges",
            limits({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}),
        ),
        *(
            post(
                f"{CLAIMS}{tail}",
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": size.lower()},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
                },
            ).until(wanted)
            for size, wanted, tail in (("9Gi", 403, "?dryRun=All"), ("1Mi", 403, ""), ("2Gi", 201, ""))
        ),
    ),
    *(
        case(f"limits that are refused: {name}", post(f"{CORE}/limitranges", limits(*items)).in_any_order())
        for name, items in REFUSED_LIMITS.items()
    ),
]
N = f"{NAMESPACES}/{{ns}}-n"
NAMESPACE_LIVES = [
    case(
        "a namespace is born active",
        post(NAMESPACES, namespace("{ns}-n")),
        get(N),
        patch(N, {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "its name is a label of it",
        post(NAMESPACES, namespace("{ns}-n", labels={"kubernetes.io/metadata.name": "odd"})),
        patch(N, {"metadata": {"labels": {"kubernetes.io/metadata.name": "odd"}}}),
        patch(N, {"metadata": {"labels": None}}),
    ),
    case(
        "a namespace that is going takes nothing new",
        post(NAMESPACES, namespace("{ns}-n")),
        post(f"{N}/configmaps", config_map("old")),
        delete(N),
        post(f"{N}/configmaps", config_map("new")).until(403),
        post(f"{N}/pods", pod("p")),
        patch(f"{N}/configmaps/old", {"data": {"a": "b"}}),
        delete(f"{N}/configmaps/old"),
        get(N),
        delete(N),
        patch(N, {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "namespaces that may not go",
        delete(f"{NAMESPACES}/default"),
        delete(f"{NAMESPACES}/kube-system"),
        delete(f"{NAMESPACES}/kube-public"),
        get(f"{NAMESPACES}/kube-node-lease"),
    ),
    case("a namespace in a dry run", post(f"{NAMESPACES}?dryRun=All", namespace("{ns}-n")), get(N)),
    case(
        "names that no namespace has",
        *(post(NAMESPACES, namespace(name)) for name in ("a.b", "UPPER", "x" * 64, "-a", "1"[:0], "a_b")),
    ),
    case(
        "a namespace with its own finalizers",
        post(NAMESPACES, {**namespace("{ns}-n"), "spec": {"finalizers": ["example.com/f"]}}),
        patch(N, {"spec": {"finalizers": []}}),
        delete(N),
        put(f"{N}/finalize", {**namespace("{ns}-n"), "spec": {"finalizers": []}}),
        get(N),
    ),
    case("no deletion of many namespaces", delete(NAMESPACES), delete(f"{NAMESPACES}?labelSelector=none=here")),
]
OTHERS = [
    case(
        "claims and volumes are protected",
        post(
            CLAIMS,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "c"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
        delete(f"{CLAIMS}/c"),
        get(f"{CLAIMS}/c"),
        patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}}),
    ),
    case(
        "a runtime class shapes its pods",
        post(
            RUNTIMES,
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": "{ns}"},
                "handler": "h",
                "overhead": {"podFixed": {"cpu": "100m"}},
                "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
            },
        ),
        post(PODS, pod("p", runtimeClassName="{ns}")).until(201),
        post(PODS, pod("clash", runtimeClassName="{ns}", nodeSelector={"a": "c"})),
        post(PODS, pod("own", runtimeClassName="{ns}", overhead={"cpu": "1"})),
        post(PODS, pod("none", runtimeClassName="none")),
    ),
    case(
        "a pod is classed by its resources",
        post(PODS, sized("best")),
        post(PODS, sized("burst", requests={"cpu": "1"})),
        post(PODS, sized("sure", requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"})),
    ),
    case(
        "images are always pulled or not",
        *(
            post(PODS, pod(f"p{number}", containers=[{"name": "c", "image": image}]))
            for number, image in enumerate(("a", "a:latest", "a:1", "a@sha256:" + "0" * 64, "r.example:5000/a"))
        ),
    ),
]
CASES = cases_of(POD_SECURITY, QUOTA, PRIORITY, TOLERATIONS, LIMITS, NAMESPACE_LIVES, OTHERS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_admission_decides_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
