"""Tables around the cells: metadata, columns, and the object in a row."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.printers import table
from headgate.kube.schema import GroupVersionKind

CREATED = "2026-01-01T00:00:00Z"
NOW = 1767225600.0 + 300  # five minutes later


def the_kind(group: str, version: str, kind: str) -> ServedKind:
    found = BUILTIN.by_gvk(GroupVersionKind(group, version, kind))
    assert found is not None
    return found


NAMESPACE = the_kind("", "v1", "Namespace")
DEFAULT = {"metadata": {"name": "default", "creationTimestamp": CREATED}, "status": {"phase": "Active"}}


def test_a_table_carries_the_metadata_of_its_list() -> None:
    printed = table(NAMESPACE, [], NOW, include_object="Metadata", list_meta={"resourceVersion": "7", "continue": "c"})
    assert (printed["kind"], printed["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert printed["metadata"] == {"resourceVersion": "7", "continue": "c"}
    assert printed["rows"] == []


@pytest.mark.parametrize(
    ("wanted", "carried"),
    [
        ("None", None),
        ("Object", DEFAULT),
        (
            "Metadata",
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": DEFAULT["metadata"]},
        ),
    ],
)
def test_a_row_carries_as_much_of_its_object_as_was_asked_for(wanted: str, carried: Any) -> None:
    printed = table(NAMESPACE, [DEFAULT], NOW, include_object=wanted, list_meta={})
    assert printed["rows"] == [{"cells": ["default", "Active", "5m"], "object": carried}]


def test_the_beta_version_of_a_table_has_beta_metadata() -> None:
    printed = table(NAMESPACE, [DEFAULT], NOW, include_object="Metadata", list_meta={}, version="v1beta1")
    assert printed["apiVersion"] == "meta.k8s.io/v1beta1"
    assert printed["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_later_events_of_a_watch_have_no_columns() -> None:
    printed = table(NAMESPACE, [DEFAULT], NOW, include_object="None", list_meta={}, columns=False)
    assert printed["columnDefinitions"] is None


def test_every_column_says_what_it_shows() -> None:
    for kind in BUILTIN.kinds():
        printed = table(kind, [], NOW, include_object="None", list_meta={})
        for column in printed["columnDefinitions"]:
            assert column["description"].endswith("."), (kind.kind, column)


def test_a_kind_without_a_printer_shows_its_name_and_creation() -> None:
    role = the_kind("rbac.authorization.k8s.io", "v1", "Role")
    printed = table(
        role, [{"metadata": {"name": "r", "creationTimestamp": CREATED}}], NOW, include_object="None", list_meta={}
    )
    assert [(each["name"], each["type"]) for each in printed["columnDefinitions"]] == [
        ("Name", "string"),
        ("Created At", "date"),
    ]
    assert printed["rows"][0]["cells"] == ["r", CREATED]
    assert table(role, [], NOW, include_object="None", list_meta={})["rows"] is None


def test_an_answer_of_a_subresource_is_printed_as_what_it_is() -> None:
    scale = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "d", "creationTimestamp": CREATED},
        "spec": {"replicas": 3},
        "status": {"replicas": 2},
    }
    printed = table(the_kind("apps", "v1", "Deployment"), [scale], NOW, include_object="None", list_meta={})
    assert [each["name"] for each in printed["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert printed["rows"][0]["cells"] == ["d", 3, 2, "5m"]


def test_an_old_autoscaler_is_printed_like_a_new_one() -> None:
    old = {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "h",
            "creationTimestamp": CREATED,
            "annotations": {"autoscaling.alpha.kubernetes.io/conditions": "[]"},
        },
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "minReplicas": 1,
            "maxReplicas": 5,
            "targetCPUUtilizationPercentage": 50,
        },
        "status": {"currentReplicas": 2, "currentCPUUtilizationPercentage": 5},
    }
    kind = the_kind("autoscaling", "v1", "HorizontalPodAutoscaler")
    row = table(kind, [old], NOW, include_object="Metadata", list_meta={})["rows"][0]
    assert row["cells"] == ["h", "Deployment/d", "cpu: 5%/50%", "1", 5, 2, "5m"]
    assert "annotations" not in row["object"]["metadata"]


@pytest.mark.parametrize(
    ("conditions", "cells"),
    [
        ([{"type": "Healthy", "status": "True", "message": "ok"}], ["Healthy", "ok", ""]),
        ([{"type": "Healthy", "status": "False", "error": "down"}], ["Unhealthy", "", "down"]),
        ([], ["Unknown", "", ""]),
    ],
)
def test_a_component_is_healthy_or_says_why_not(conditions: list[Any], cells: list[str]) -> None:
    component = {"metadata": {"name": "scheduler"}, "conditions": conditions}
    kind = the_kind("", "v1", "ComponentStatus")
    assert table(kind, [component], NOW, include_object="None", list_meta={})["rows"][0]["cells"][1:] == cells


@pytest.mark.parametrize(
    ("group", "resource", "spec"),
    [
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        ),
        ("authorization.k8s.io", "selfsubjectrulesreviews", {"namespace": "t"}),
        ("authentication.k8s.io", "tokenreviews", {"token": "t"}),
    ],
)
def test_a_review_has_no_table(group: str, resource: str, spec: dict[str, Any]) -> None:
    server = Embedded()
    path, as_table = f"/apis/{group}/v1/{resource}", "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert server.call("POST", path, {"spec": spec}, accept=as_table).status == 406
    assert server.call("POST", path, {"spec": spec}, accept=f"{as_table}, application/json").status == 201
