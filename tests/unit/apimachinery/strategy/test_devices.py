"""Strategies of ResourceSlices and ResourceClaims."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded

GROUP = "/apis/resource.k8s.io/v1"
SLICE: dict[str, Any] = {
    "driver": "gpu.example",
    "allNodes": True,
    "pool": {"name": "p", "resourceSliceCount": 1},
    "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "x"}}}],
}


def posted(**spec: Any) -> Any:
    return Embedded().post(f"{GROUP}/resourceslices", {"metadata": {"name": "s"}, "spec": {**SLICE, **spec}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodeName": "n"}, "exactly one of `nodeName`"),
        ({"allNodes": None}, "spec: Required value: exactly one of `nodeName`"),
        ({"pool": {"name": "p"}}, "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, 'spec.devices[1]: Duplicate value: "a"'),
        ({"devices": [{"name": "a", "attributes": {"x": {}}}]}, "exactly one value must be specified"),
        ({"devices": [{"name": "a", "attributes": {"x": {"version": "1"}}}]}, "semver.org"),
        ({"devices": [{"name": str(i)} for i in range(129)]}, "Too many: 129: must have at most 128 items"),
    ],
)
def test_an_invalid_slice_is_rejected(change: dict[str, Any], message: str) -> None:
    result = posted(**change)
    assert result.status == 422
    assert message in result.body["message"]


def test_fields_of_disabled_gates_are_dropped_from_a_slice() -> None:
    result = posted(devices=[{"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}], sharedCounters=[])
    assert result.status == 201
    assert result.body["spec"]["devices"] == [{"name": "a"}]


def test_a_driver_name_with_capitals_gets_a_warning() -> None:
    assert "driver names should be lowercase" in posted(driver="GPU.example").warnings[0]


def test_admin_access_is_for_labelled_namespaces() -> None:
    server = Embedded()
    request = {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    assert server.post(f"{GROUP}/namespaces/t/resourceclaims", claim).status == 422
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    server.patch("/api/v1/namespaces/t", label)
    assert server.post(f"{GROUP}/namespaces/t/resourceclaims", claim).status == 201
