"""Subresources of many kinds: status, scale, finalize, and those that do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import APPS, CORE, DEPLOYMENTS, JOBS, PODS, deployment, gated, job, pod
from harness.request_cases import TABLE, Case, Edited, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair

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
        "a subresource that does not exist",
        POD,
        get(f"{P}/odd"),
        post(f"{P}/odd", {}),
        get(f"{P}/status/more"),
        delete(f"{P}/binding"),
    ),
]
CASES = cases_of(STATUS, SCALE, OTHERS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_subresources_answer_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
