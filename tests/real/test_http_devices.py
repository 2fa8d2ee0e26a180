"""Devices: valid statuses of a claim, which users may access devices of others, and slices that contradict each other.

Single wrong places of every manifest are tried by `test_kind_differential.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.request_cases import Case, case, cases_of, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/{{ns}}/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/{{ns}}/resourceclaimtemplates"
SLICES = f"{GROUP}/resourceslices"
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
EXACTLY = {"deviceClassName": "gpu.example"}


def claim(name: str, *requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def asks(name: str, **exactly: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {**EXACTLY, **exactly}}


def slice_of(name: str, devices: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    whole = {"driver": "gpu.example", "pool": pool, "devices": devices, **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": whole}


def result(**change: Any) -> dict[str, Any]:
    return {"request": "a", "driver": "gpu.example", "pool": "p", "device": "gpu-0", **change}


def allocated(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"allocation": {"devices": {"results": list(results), **more}}}


def status_of(status: dict[str, Any]) -> Any:
    return patch(f"{CLAIMS}/c/status", {"status": status}).in_any_order()


REPORT = {"driver": "gpu.example", "pool": "p", "device": "gpu-0"}
USER = {"resource": "pods", "name": "p", "uid": "1"}
READY = {"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}

STATUS = [
    case(
        "a claim is allocated, reserved, reported on and given back",
        post(CLAIMS, claim("c", asks("a"))),
        status_of({**allocated(result()), "reservedFor": [USER]}),
        status_of({"devices": [{**REPORT, "conditions": [READY], "data": {"a": 1}, "networkData": {"ips": []}}]}),
        status_of(allocated(result(device="gpu-1"))),
        status_of({"allocation": None, "reservedFor": None}),
        get(f"{CLAIMS}/c"),
        status_of(allocated(result())),
    ),
    case(
        "results that are refused",
        post(CLAIMS, claim("c", asks("a"), {"name": "b", "firstAvailable": [{"name": "x", **EXACTLY}]})),
        status_of(allocated(result(request="none"))),
        status_of(allocated(result(request="a/b/c"))),
        status_of(allocated(result(request="b/y"))),
        status_of(allocated(result(request="Bad/x", driver="", pool="", device="A B"))),
        status_of(allocated(result(pool="a//b", driver="x" * 64))),
        status_of(allocated(*[result()] * 33)),
        status_of(allocated(result(), config=[{"source": "Odd"}])),
        status_of(allocated(result(), config=[{"opaque": {"driver": "d", "parameters": {}}}])),
        status_of(allocated(result(), config=[{"source": "FromClass", "requests": ["a", "a"], "opaque": {}}])),
        status_of({"allocation": {"nodeSelector": {"nodeSelectorTerms": []}}}),
        status_of(allocated(result(shareID="odd", bindingConditions=["x"]))),
    ),
    case(
        "reservations and reports that are refused",
        post(CLAIMS, claim("c", asks("a"))),
        status_of({"reservedFor": [USER]}),
        status_of({**allocated(result()), "reservedFor": [{}]}),
        status_of({**allocated(result()), "reservedFor": [USER, USER]}),
        status_of({"devices": [REPORT]}),
        status_of({**allocated(result()), "devices": [REPORT, REPORT]}),
        status_of({**allocated(result()), "devices": [{**REPORT, "data": "text"}]}),
        status_of({**allocated(result()), "devices": [{**REPORT, "conditions": [READY, READY]}]}),
        status_of(
            {
                **allocated(result()),
                "devices": [
                    {
                        **REPORT,
                        "networkData": {"interfaceName": "x" * 257, "ips": ["1.2.3.4", "10.0.0.1/8", "10.0.0.1/8"]},
                    }
                ],
            }
        ),
    ),
    case(
        "nothing is reserved anew while a claim goes",
        post(CLAIMS, {**claim("c", asks("a")), "metadata": {"name": "c", "finalizers": ["a.example/b"]}}),
        status_of({**allocated(result()), "reservedFor": [USER]}),
        patch(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}}),
    ),
]

ADMIN = [
    case(
        "admin access needs a label",
        post(CLAIMS, claim("c", asks("a"), asks("b", adminAccess=True))),
        post(
            TEMPLATES,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": "t"},
                "spec": {"spec": {"devices": {"requests": [asks("b", adminAccess=True)]}}},
            },
        ),
        post(CLAIMS, claim("c", asks("a", adminAccess=False))),
        status_of(allocated(result(adminAccess=True))),
        patch("/api/v1/namespaces/{ns}", {"metadata": {"labels": {ADMIN_LABEL: "true"}}}),
        post(CLAIMS, claim("d", asks("b", adminAccess=True))),
        status_of(allocated(result(adminAccess=True))),
    ),
]

SLICES_WRONG = [
    case(
        "slices that are refused for more than one reason",
        post(SLICES, slice_of("{ns}", [], nodeName="n", allNodes=True)),
        post(SLICES, slice_of("{ns}", [])),
        post(SLICES, slice_of("{ns}", [], allNodes=False, nodeName="")).in_any_order(),
        post(SLICES, slice_of("{ns}", [], nodeSelector={"nodeSelectorTerms": []})).in_any_order(),
        post(SLICES, slice_of("{ns}", [], nodeSelector={"nodeSelectorTerms": [{}, {}]}, nodeName="n")).in_any_order(),
        post(SLICES, slice_of("{ns}", [], perDeviceNodeSelection=True)),
        post(SLICES, slice_of("{ns}", [{"name": "a"}, {"name": "a"}], allNodes=True)),
        post(SLICES, slice_of("{ns}", [{"name": f"a{i}"} for i in range(129)], allNodes=True)),
        post(SLICES, slice_of("{ns}", [{"name": "a", "attributes": {f"a{i}": {} for i in range(33)}}])).in_any_order(),
        post(
            SLICES,
            slice_of(
                "{ns}",
                [
                    {
                        "name": "A",
                        "attributes": {
                            "/x": {"int": 1},
                            "x/": {"int": 1},
                            "x/y/z": {"int": 1},
                            "1x": {"int": 1, "bool": True},
                            "y" * 120: {"string": "y" * 65},
                            "v": {"version": "1.2"},
                        },
                        "capacity": {"Bad Domain!/x": {"value": "1"}},
                    }
                ],
                driver="UPPER",
                allNodes=True,
            ),
        ).in_any_order(),
    ),
    case(
        "what of a slice may change",
        post(SLICES, slice_of("{ns}", [], nodeName="n")),
        patch(f"{SLICES}/{{ns}}", {"spec": {"driver": "other"}}),
        patch(f"{SLICES}/{{ns}}", {"spec": {"pool": {"name": "other"}}}),
        patch(f"{SLICES}/{{ns}}", {"spec": {"nodeName": None, "allNodes": True}}),
        patch(f"{SLICES}/{{ns}}", {"spec": {"devices": [{"name": "a", "allNodes": True}]}}),
        get(f"{SLICES}/{{ns}}"),
    ),
    case(
        "a slice with what is not switched on",
        post(
            SLICES,
            slice_of(
                "{ns}",
                [{"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}], "allowMultipleAllocations": True}],
                driver="Upper.example",
                allNodes=True,
                sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}],
            ),
        ),
        put(f"{SLICES}/{{ns}}", slice_of("{ns}", [{"name": "a"}], driver="Upper.example", allNodes=True)),
    ),
]

CASES = cases_of(STATUS, ADMIN, SLICES_WRONG)


@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.name)
def test_devices_are_answered_the_same(servers: ServerPair, scenario: Case) -> None:
    servers.compare(scenario)
