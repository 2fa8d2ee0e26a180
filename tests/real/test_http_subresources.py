"""Subresources: status, scale, binding, eviction, resize, token, finalize, and those that need a node."""

from __future__ import annotations

from typing import Any

import pytest

from harness.both import Both
from harness.objects import APPS, CORE, DEPLOYMENTS, JOBS, PODS, binding, deployment, gated, job, pod
from harness.scenario import TABLE, Case, Edited, case, cases_of, delete, get, patch, post, put

pytestmark = pytest.mark.real

P = f"{PODS}/p"
POD = post(PODS, pod("p")).named("p")
D = f"{DEPLOYMENTS}/d"
DEPLOYMENT = post(DEPLOYMENTS, deployment("d", replicas=2)).named("d")


def scale(name: str = "d", replicas: Any = 4, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, "namespace": "{ns}", **metadata},
        "spec": {"replicas": replicas},
    }


def eviction(name: str = "p", **rest: Any) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "{ns}"}, **rest}


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


STATUS = [
    case(
        "the status of a pod",
        POD,
        get(f"{P}/status"),
        patch(f"{P}/status", {"status": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}}),
        get(P),
        get(P, TABLE),
    ),
    case(
        "a status update leaves the spec alone",
        POD,
        put(
            f"{P}/status",
            Edited(
                "p",
                {
                    "spec": {"priority": 5, "nodeName": "x"},
                    "status": {"phase": "Running"},
                    "metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]},
                },
            ),
        ),
        get(P),
    ),
    case(
        "an update leaves the status alone",
        POD,
        put(P, Edited("p", {"status": {"phase": "Running"}})),
        patch(P, {"status": {"phase": "Running"}}),
    ),
    case(
        "a status with a wrong phase",
        POD,
        patch(f"{P}/status", {"status": {"phase": "Odd"}}),
        patch(f"{P}/status", {"status": {"podIP": "not an ip"}}),
        patch(f"{P}/status", {"status": {"conditions": [{"type": "A"}]}}),
        patch(f"{P}/status", {"status": {"nominatedNodeName": "Bad_Node"}}),
    ),
    case(
        "a status that overwrites the gated condition",
        post(PODS, gated("p", "a")),
        patch(
            f"{P}/status",
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}},
        ),
        get(P, TABLE),
        patch(f"{P}/status", {"status": {"conditions": None}}),
        get(P, TABLE),
    ),
    case(
        "a status that was stale",
        POD,
        patch(P, {"metadata": {"labels": {"a": "b"}}}),
        put(f"{P}/status", Edited("p", {"status": {"phase": "Running"}})),
    ),
    case(
        "the status of what is not there",
        get(f"{PODS}/none/status"),
        patch(f"{PODS}/none/status", {"status": {}}),
        put(f"{PODS}/none/status", pod("none")),
    ),
    case("a status posted or deleted", POD, post(f"{P}/status", pod("p")), delete(f"{P}/status")),
    case(
        "the status of a deployment",
        DEPLOYMENT,
        patch(f"{D}/status", {"status": {"replicas": 2, "conditions": [{"type": "Available", "status": "True"}]}}),
        patch(f"{D}/status", {"status": {"replicas": -1}}),
        patch(f"{D}/status", {"status": {"readyReplicas": 9}}).in_any_order(),
        get(D, TABLE),
    ),
    case(
        "the status of a job",
        post(JOBS, job("j")),
        patch(f"{JOBS}/j/status", {"status": {"active": 1, "startTime": "2020-01-01T00:00:00Z"}}),
        patch(f"{JOBS}/j/status", {"status": {"active": -1}}).in_any_order(),
        patch(f"{JOBS}/j/status", {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}).in_any_order(),
        get(f"{JOBS}/j", TABLE),
    ),
    case(
        "a finished job",
        post(JOBS, job("j", suspend=True)),
        patch(
            f"{JOBS}/j/status",
            {
                "status": {
                    "startTime": "2020-01-01T00:00:00Z",
                    "completionTime": "2020-01-01T00:01:00Z",
                    "succeeded": 1,
                    "conditions": [
                        {"type": "SuccessCriteriaMet", "status": "True"},
                        {"type": "Complete", "status": "True"},
                    ],
                }
            },
        ).in_any_order(),
        get(f"{JOBS}/j", TABLE),
    ),
]
SCALE = [
    case(
        "reading and writing a scale",
        DEPLOYMENT,
        get(f"{D}/scale"),
        put(f"{D}/scale", scale()),
        get(f"{D}/scale"),
        get(D),
        patch(f"{D}/scale", {"spec": {"replicas": 1}}),
        get(f"{D}/scale", TABLE),
    ),
    case(
        "a scale at a revision",
        DEPLOYMENT,
        put(f"{D}/scale", scale(resourceVersion="${d:/metadata/resourceVersion}")),
        put(f"{D}/scale", scale(resourceVersion="${d:/metadata/resourceVersion}", replicas=9)),
        put(f"{D}/scale", scale(uid="00000000-0000-0000-0000-000000000000")),
    ),
    case(
        "a bad scale",
        DEPLOYMENT,
        put(f"{D}/scale", scale(replicas=-1)),
        put(f"{D}/scale", scale(replicas="x")),
        put(f"{D}/scale", scale("other")),
        put(f"{D}/scale", {}),
        put(f"{D}/scale", deployment("d")),
        put(f"{D}/scale", scale(replicas=None)),
    ),
    case("a scale in a dry run", DEPLOYMENT, put(f"{D}/scale?dryRun=All", scale(replicas=7)), get(f"{D}/scale")),
    case(
        "a scale by other patches",
        DEPLOYMENT,
        patch(f"{D}/scale", [{"op": "replace", "path": "/spec/replicas", "value": 6}], "json"),
        patch(f"{D}/scale", {"spec": {"replicas": 5}}, "strategic"),
        get(D),
    ),
    case(
        "the scale of what is not there",
        get(f"{DEPLOYMENTS}/none/scale"),
        put(f"{DEPLOYMENTS}/none/scale", scale("none")),
        patch(f"{DEPLOYMENTS}/none/scale", {"spec": {"replicas": 1}}),
    ),
    case(
        "the scale of what has none", POD, get(f"{P}/scale"), get(f"{JOBS}/j/scale"), get(f"{APPS}/daemonsets/d/scale")
    ),
    *(
        case(
            f"the scale of {resource}",
            post(
                f"{APPS}/{resource}",
                {
                    "apiVersion": "apps/v1",
                    "kind": kind,
                    "metadata": {"name": "d"},
                    "spec": {
                        "selector": {"matchLabels": {"app": "a"}},
                        "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod("x")["spec"]},
                        **more,
                    },
                },
            ),
            get(f"{APPS}/{resource}/d/scale"),
            put(f"{APPS}/{resource}/d/scale", scale()),
            get(f"{APPS}/{resource}/d"),
        )
        for resource, kind, more in (
            ("replicasets", "ReplicaSet", {}),
            ("statefulsets", "StatefulSet", {"serviceName": "s"}),
        )
    ),
    case(
        "the scale of a replication controller",
        post(
            f"{CORE}/replicationcontrollers",
            {
                "apiVersion": "v1",
                "kind": "ReplicationController",
                "metadata": {"name": "d"},
                "spec": {
                    "selector": {"app": "a"},
                    "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod("x")["spec"]},
                },
            },
        ),
        get(f"{CORE}/replicationcontrollers/d/scale"),
        put(f"{CORE}/replicationcontrollers/d/scale", scale()),
    ),
]
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
OTHERS = [
    case(
        "finalizing a namespace",
        post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}-x"}}).named(
            "n"
        ),
        delete("/api/v1/namespaces/{ns}-x"),
        get("/api/v1/namespaces/{ns}-x"),
        put(
            "/api/v1/namespaces/{ns}-x/finalize",
            Edited("n", {"spec": {"finalizers": []}, "metadata": {"resourceVersion": None}}),
        ),
        get("/api/v1/namespaces/{ns}-x"),
    ),
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
    case(
        "a subresource that does not exist",
        POD,
        get(f"{P}/odd"),
        post(f"{P}/odd", {}),
        get(f"{P}/status/more"),
        delete(f"{P}/binding"),
    ),
]
CASES = cases_of(STATUS, SCALE, BINDING, EVICTION, RESIZE, OTHERS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_subresources_answer_the_same(both: Both, case: Case) -> None:
    both.agree(case)
