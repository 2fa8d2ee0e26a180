"""The rows of built-in kinds against what a kube-apiserver v1.35.8 says of itself (``discovery-v1.35.8.json``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import FieldLabel
from headgate.kube.schema import GroupVersionKind

REAL: dict[str, Any] = json.loads((Path(__file__).parent / "discovery-v1.35.8.json").read_text())
LISTS = {path: body for path, body in REAL.items() if body.get("kind") == "APIResourceList"}

# The real server still writes v1beta1 of it; this one has no betas and keeps v1, and its hash says so.
KEPT_IN_A_NEWER_VERSION = "volumeattributesclasses"


@pytest.mark.parametrize("path", LISTS)
def test_every_resource_of_the_real_server_is_a_row_or_a_subresource(path: str) -> None:
    group, _, version = LISTS[path]["groupVersion"].rpartition("/")
    for real in LISTS[path]["resources"]:
        plural, _, subresource = real["name"].partition("/")
        kind = BUILTIN.by_resource(group, version, plural)
        assert kind is not None, real["name"]
        if subresource:
            sub = kind.subresource(subresource)
            assert sub is not None, real["name"]
            assert list(sub.verbs) == real["verbs"]
            assert sub.gvk == GroupVersionKind(real.get("group", group), real.get("version", version), real["kind"])
            continue
        assert kind.kind == real["kind"]
        assert kind.singular == real["singularName"]
        assert kind.namespaced == real["namespaced"]
        assert list(kind.verbs) == real["verbs"]
        assert list(kind.short_names) == real.get("shortNames", [])
        assert list(kind.categories) == real.get("categories", [])
        if plural != KEPT_IN_A_NEWER_VERSION:
            assert kind.storage_version_hash == real.get("storageVersionHash", "")


def test_there_is_no_row_that_the_real_server_does_not_have() -> None:
    real = {(body["groupVersion"], each["name"]) for body in LISTS.values() for each in body["resources"]}
    ours = {(kind.api_version, kind.plural) for kind in BUILTIN.kinds()}
    ours |= {(kind.api_version, f"{kind.plural}/{sub.name}") for kind in BUILTIN.kinds() for sub in kind.subresources}
    assert ours == real


def test_groups_come_in_the_order_of_the_real_server() -> None:
    real = [(each["name"], [version["version"] for version in each["versions"]]) for each in REAL["/apis"]["groups"]]
    ours = [(each.name, [version for version, _ in each.versions]) for each in BUILTIN.groups()]
    assert ours == [("", ["v1"]), *real]


def test_events_of_both_groups_share_one_storage() -> None:
    views = BUILTIN.kinds_stored_as("events")
    assert [view.api_version for view in views] == ["v1", "events.k8s.io/v1"]
    assert BUILTIN.stored_kind(views[1]) is views[0]


def test_autoscalers_are_kept_in_their_newest_version() -> None:
    old = BUILTIN.by_gvk(GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler"))
    assert old is not None
    assert old.resource == "horizontalpodautoscalers.autoscaling"
    assert BUILTIN.stored_kind(old).version == "v2"


def test_type_names_are_those_of_the_published_schemas() -> None:
    names = {kind.type_name for kind in BUILTIN.kinds()}
    assert {"io.k8s.api.core.v1.Pod", "io.k8s.api.rbac.v1.Role", "io.k8s.api.apps.v1.Deployment"} <= names


def test_what_only_answers_a_request_is_not_stored() -> None:
    transient = {kind.plural for kind in BUILTIN.kinds() if not kind.is_stored}
    assert transient == {
        "bindings",
        "componentstatuses",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
    assert not transient & set(BUILTIN.stored_resources())


POD = {
    "metadata": {"name": "a", "namespace": "t"},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"podIPs": [{"ip": "10.0.0.1"}]},
}


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("metadata.name", "a"),
        ("metadata.namespace", "t"),
        ("spec.nodeName", "n1"),
        ("spec.host", "n1"),
        ("spec.hostNetwork", "true"),
        ("spec.restartPolicy", ""),
        ("status.phase", ""),
        ("status.podIP", "10.0.0.1"),
        ("status.podIPs", ""),
    ],
)
def test_pods_can_be_selected_by(label: str, value: str) -> None:
    pods = BUILTIN.by_resource("", "v1", "pods")
    assert pods is not None
    row = pods.field_label(label)
    assert isinstance(row, FieldLabel)
    assert row.value(POD) == value
    assert {each.label: each.value(POD) for each in pods.field_labels}[label] == value


@pytest.mark.parametrize(
    ("group", "version", "plural", "stored", "label", "value"),
    [
        ("", "v1", "nodes", {"spec": {}}, "spec.unschedulable", "false"),
        ("", "v1", "nodes", {"spec": {"unschedulable": True}}, "spec.unschedulable", "true"),
        ("", "v1", "namespaces", {"status": {"phase": "Active"}}, "status.phase", "Active"),
        ("", "v1", "replicationcontrollers", {"status": {"replicas": 3}}, "status.replicas", "3"),
        ("", "v1", "replicationcontrollers", {}, "status.replicas", "0"),
        ("", "v1", "pods", {"spec": {}}, "spec.hostNetwork", "false"),
        ("", "v1", "events", {"source": {}, "reportingComponent": "me"}, "source", "me"),
        ("", "v1", "events", {"source": {"component": "it"}, "reportingComponent": "me"}, "source", "it"),
        ("events.k8s.io", "v1", "events", {"involvedObject": {"uid": "u"}}, "regarding.uid", "u"),
        ("events.k8s.io", "v1", "events", {"reportingComponent": "me"}, "reportingController", "me"),
        ("batch", "v1", "jobs", {"status": {"succeeded": 2}}, "status.successful", "2"),
        ("batch", "v1", "jobs", {"status": {}}, "status.successful", "0"),
        ("resource.k8s.io", "v1", "resourceslices", {"spec": {"driver": "d"}}, "spec.driver", "d"),
        ("", "v1", "persistentvolumes", {"metadata": {"name": "v"}}, "metadata.namespace", ""),
    ],
)
def test_field_values_are_read_from_the_stored_form(
    group: str, version: str, plural: str, stored: dict[str, Any], label: str, value: str
) -> None:
    kind = BUILTIN.by_resource(group, version, plural)
    assert kind is not None
    row = kind.field_label(label)
    assert isinstance(row, FieldLabel)
    assert row.value(stored) == value


@pytest.mark.parametrize(
    ("group", "plural", "label", "refusal"),
    [
        ("", "pods", "spec.foo", "field label not supported: spec.foo"),
        ("", "nodes", "metadata.namespace", "field label not supported: metadata.namespace"),
        ("batch", "jobs", "x", 'field label "x" not supported for Job'),
        (
            "resource.k8s.io",
            "resourceslices",
            "x",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
        ),
        (
            "apps",
            "replicasets",
            "status.replicas",
            '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("events.k8s.io", "events", "involvedObject.name", "field label not supported: involvedObject.name"),
    ],
)
def test_an_unknown_field_label_is_refused_in_the_words_of_its_kind(
    group: str, plural: str, label: str, refusal: str
) -> None:
    kind = BUILTIN.by_resource(group, "v1", plural)
    assert kind is not None
    assert kind.field_label(label) == refusal
