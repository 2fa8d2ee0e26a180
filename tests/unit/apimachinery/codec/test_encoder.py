"""Encoding of objects, compared with kube-apiserver v1.35.8 without its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.codec import codec
from headgate.kube.schema import GroupVersionKind, Schemas
from sort_keys import unsorted_map


def encode(tables: Schemas, group: str, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return codec.wire_form(tables, tables.kinds[GroupVersionKind(group, "v1", kind)], obj)


@pytest.mark.parametrize(
    ("group", "kind", "obj", "rest"),
    [
        ("rbac.authorization.k8s.io", "Role", {}, {"rules": None}),
        ("", "LimitRange", {}, {"spec": {"limits": None}}),
        ("", "ResourceQuota", {"spec": {"hard": {}}}, {"spec": {}, "status": {}}),
        ("storage.k8s.io", "CSINode", {}, {"spec": {"drivers": None}}),
        ("", "ConfigMap", {"data": {}}, {}),
        (
            "",
            "Event",
            {"involvedObject": {"namespace": "d"}},
            {
                "involvedObject": {"namespace": "d"},
                "source": {},
                "firstTimestamp": None,
                "lastTimestamp": None,
                "eventTime": None,
                "reportingComponent": "",
                "reportingInstance": "",
            },
        ),
        (
            "policy",
            "PodDisruptionBudget",
            {"spec": {"selector": {}, "minAvailable": "50%"}},
            {
                "spec": {"minAvailable": "50%", "selector": {}},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
            },
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            {"spec": {"ingress": [{}], "policyTypes": []}},
            {"spec": {"podSelector": {}, "ingress": [{}]}},
        ),
        (
            "",
            "Pod",
            {
                "spec": {
                    "containers": [
                        {"env": [{"name": "x", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}
                    ],
                    "priority": 0,
                    "hostNetwork": False,
                    "affinity": {},
                    "imagePullSecrets": [{}],
                }
            },
            {
                "spec": {
                    "containers": [
                        {
                            "name": "",
                            "env": [
                                {
                                    "name": "x",
                                    "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}},
                                }
                            ],
                            "resources": {},
                        }
                    ],
                    "imagePullSecrets": [{}],
                    "affinity": {},
                    "priority": 0,
                },
                "status": {},
            },
        ),
    ],
)
def test_zeros_are_printed_where_go_prints_them(
    tables: Schemas, group: str, kind: str, obj: dict[str, Any], rest: dict[str, Any]
) -> None:
    out = encode(tables, group, kind, obj)
    assert out == {"metadata": {}, **rest}
    assert encode(tables, group, kind, out) == out


def test_fields_are_printed_in_the_order_of_the_go_struct_and_maps_by_key(tables: Schemas) -> None:
    obj = {"spec": {"nodeName": "n", "containers": []}, "metadata": {"labels": {"b": "1", "a": "2"}, "name": "x"}}
    out = encode(tables, "", "Pod", {**obj, "apiVersion": "v1", "kind": "Pod"})
    assert list(out) == ["kind", "apiVersion", "metadata", "spec", "status"]
    assert list(out["metadata"]) == ["name", "labels"]
    assert list(out["metadata"]["labels"]) == ["a", "b"]
    assert list(out["spec"]) == ["containers", "nodeName"]


def test_an_empty_list_is_printed_if_the_field_is_always_printed(tables: Schemas) -> None:
    assert encode(tables, "", "PodList", {"items": []})["items"] == []
    assert encode(tables, "", "PodList", {})["items"] is None


def test_encoding_does_not_change_or_share_its_input(tables: Schemas) -> None:
    obj = {"metadata": {"labels": {"a": "b"}, "finalizers": ["x"]}, "spec": {"containers": [{"name": "c"}]}}
    out = encode(tables, "", "Pod", obj)
    out["metadata"]["labels"]["a"] = out["metadata"]["finalizers"][0] = out["spec"]["containers"][0]["name"] = "changed"
    assert obj == {"metadata": {"labels": {"a": "b"}, "finalizers": ["x"]}, "spec": {"containers": [{"name": "c"}]}}
    assert encode(tables, "", "Pod", obj)["metadata"]["labels"] == {"a": "b"}


def test_empty_structs_are_not_shared_between_results(tables: Schemas) -> None:
    encode(tables, "", "Node", {})["status"]["nodeInfo"]["machineID"] = "changed"
    assert encode(tables, "", "Node", {})["status"]["nodeInfo"]["machineID"] == ""


def test_the_keys_of_a_map_are_sorted_without_their_values(tables: Schemas) -> None:
    texts = encode(tables, "", "ConfigMap", {"data": unsorted_map("x")})["data"]
    lists = encode(tables, "authorization.k8s.io", "SubjectAccessReview", {"spec": {"extra": unsorted_map(["x"])}})
    assert list(texts) == ["a", "b", "c", "d"]
    assert list(lists["spec"]["extra"]) == ["a", "b", "c", "d"]
