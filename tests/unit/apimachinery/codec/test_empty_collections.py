"""Explicit empty lists and maps that storage drops."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.codec.empty_collections import drop_empty_collections
from headgate.kube.schema import GroupVersionKind, Schemas


def drop_empty(tables: Schemas, group: str, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return drop_empty_collections(tables, tables.kinds[GroupVersionKind(group, "v1", kind)], obj)


@pytest.mark.parametrize(
    ("group", "kind", "obj", "expected"),
    [
        ("storage.k8s.io", "CSINode", {"spec": {"drivers": []}}, {"spec": {"drivers": None}}),
        ("rbac.authorization.k8s.io", "Role", {"rules": [{"verbs": []}]}, {"rules": [{"verbs": None}]}),
        (
            "",
            "Pod",
            {"spec": {"containers": [{}], "volumes": [{"name": "a"}, {"projected": {"sources": []}}]}},
            {"spec": {"containers": [{}], "volumes": [{"name": "a"}, {"projected": {"sources": None}}]}},
        ),
    ],
)
def test_an_empty_list_that_is_always_printed_becomes_null(
    tables: Schemas, group: str, kind: str, obj: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = repr(obj)
    assert drop_empty(tables, group, kind, obj) == expected
    assert repr(obj) == before


def test_an_object_without_empty_collections_is_returned_itself(tables: Schemas) -> None:
    pod = {"spec": {"containers": [{"name": "c"}], "tolerations": [], "volumes": [{"projected": {"sources": [{}]}}]}}
    assert drop_empty(tables, "", "Pod", pod) is pod
