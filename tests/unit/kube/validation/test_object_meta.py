"""Validation of metadata, on create and on update."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.names import name_is_dns1035_label, name_is_dns_subdomain
from headgate.kube.validation.object_meta import (
    MAX_ANNOTATION_BYTES,
    validate_common_meta,
    validate_common_meta_update,
    validate_object_meta,
    validate_object_meta_update,
)

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u"}


def errors_of(*, namespaced: bool = True, **meta: Any) -> list[str]:
    whole = {"name": "a", "namespace": "d", **meta}
    if not namespaced:
        del whole["namespace"]
    return [str(each) for each in validate_object_meta(whole, namespaced=namespaced, name_rule=name_is_dns_subdomain)]


def update_errors(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    before = {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "1", "generation": 3, **(old or {})}
    return [str(each) for each in validate_object_meta_update({**before, **new}, before)]


def test_valid_metadata_gives_no_errors() -> None:
    annotations = {"X.y/Z": "any thing"}
    finalizers = ["a.b/c", "orphan"]
    assert errors_of(labels={"a.b/c": "d"}, annotations=annotations, finalizers=finalizers) == []
    assert errors_of(ownerReferences=[OWNER]) == []


def test_a_name_is_required_and_follows_the_kinds_rule() -> None:
    assert errors_of(name="") == ["metadata.name: Required value: name or generateName is required"]
    assert errors_of(name="A") == [f'metadata.name: Invalid value: "A": {SUBDOMAIN}']
    messages = validate_object_meta({"name": "1a", "namespace": "d"}, namespaced=True, name_rule=name_is_dns1035_label)
    assert len(messages) == 1


def test_a_generated_name_may_end_in_a_dash() -> None:
    assert errors_of(generateName="a-") == []
    assert errors_of(generateName="A-b") == [f'metadata.generateName: Invalid value: "A-b": {SUBDOMAIN}']


def test_a_namespace_belongs_to_namespaced_kinds_only() -> None:
    assert errors_of(namespace="") == ["metadata.namespace: Required value"]
    assert errors_of(namespaced=False) == []
    stray = validate_object_meta({"name": "a", "namespace": "d"}, namespaced=False, name_rule=name_is_dns_subdomain)
    assert [str(each) for each in stray] == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_a_namespace_is_a_single_label() -> None:
    assert errors_of(namespace="a.b") == ['metadata.namespace: Invalid value: "a.b": must not contain dots']


def test_generations_are_not_negative() -> None:
    assert errors_of(generation=-1) == ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]


def test_the_value_of_a_bad_label_is_shown_without_its_key() -> None:
    (error,) = errors_of(labels={"a": "b c"})
    assert error.startswith(
        'metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of'
    )


def test_annotation_keys_are_label_keys_of_any_case() -> None:
    assert errors_of(annotations={"Example.Com/Key": "v"}) == []
    assert errors_of(annotations={"/x": "v"}) == [
        'metadata.annotations: Invalid value: "/x": prefix part must be non-empty'
    ]


def test_annotations_together_have_a_limit_in_bytes() -> None:
    assert errors_of(annotations={"k": "x" * (MAX_ANNOTATION_BYTES - 1)}) == []
    too_long = ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    assert errors_of(annotations={"k": "x" * MAX_ANNOTATION_BYTES}) == too_long
    assert errors_of(annotations={"k": "é" * (MAX_ANNOTATION_BYTES // 2)}) == too_long


def test_an_owner_needs_a_version_a_kind_a_name_and_a_uid() -> None:
    assert errors_of(ownerReferences=[{}]) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]


def test_an_event_cannot_be_an_owner() -> None:
    event = {**OWNER, "apiVersion": "v1", "kind": "Event"}
    assert errors_of(ownerReferences=[event]) == [
        'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"rs","uid":"u"}: '
        "/v1, Kind=Event is disallowed from being an owner"
    ]


def test_only_one_owner_may_be_the_controller() -> None:
    first, second = {**OWNER, "controller": True}, {**OWNER, "name": "other", "controller": True}
    (error,) = errors_of(ownerReferences=[first, second])
    assert error.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for ReplicaSet/rs and '
        "ReplicaSet/other"
    )


def test_an_unqualified_finalizer_must_be_one_of_kubernetes_own() -> None:
    assert errors_of(finalizers=["orphans"]) == [
        'metadata.finalizers[0]: Invalid value: "orphans": name is neither a standard finalizer name nor is it fully '
        "qualified"
    ]


def test_orphan_and_foreground_finalizers_exclude_each_other() -> None:
    assert errors_of(finalizers=["orphan", "foregroundDeletion"]) == [
        'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion '
        "cannot be both set"
    ]


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"operation": "Guess"}, 'operation: Invalid value: "Guess": must be `Apply` or `Update`'),
        ({"operation": "Apply", "fieldsType": "V2"}, 'fieldsType: Invalid value: "V2": must be `FieldsV1`'),
        ({"operation": "Apply", "manager": "x" * 129}, "manager: Too long: may not be more than 128 bytes"),
        (
            {"operation": "Update", "manager": "é\x07"},
            'manager: Invalid value: "é\\a": invalid character U+0007 (at position 2)',
        ),
        ({"operation": "Update", "subresource": "x" * 257}, "subresource: Too long: may not be more than 256 bytes"),
    ],
)
def test_managed_fields(entry: dict[str, Any], error: str) -> None:
    assert errors_of(managedFields=[entry]) == [f"metadata.managedFields[0].{error}"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"resourceVersion": ""}, 'resourceVersion: Invalid value: "": must be specified for an update'),
        ({"generation": 2}, "generation: Invalid value: 2: must not be decremented"),
        ({"name": "b"}, 'name: Invalid value: "b": field is immutable'),
        ({"namespace": "e"}, 'namespace: Invalid value: "e": field is immutable'),
        ({"uid": "<v>"}, 'uid: Invalid value: "\\u003cv\\u003e": field is immutable'),
        ({"uid": ""}, 'uid: Invalid value: "": field is immutable'),
        ({"creationTimestamp": None}, "creationTimestamp: Invalid value: null: field is immutable"),
        (
            {"deletionTimestamp": "2030-01-01T00:00:00Z"},
            'deletionTimestamp: Invalid value: "2030-01-01T00:00:00Z": field is immutable',
        ),
        ({"deletionGracePeriodSeconds": 5}, "deletionGracePeriodSeconds: Invalid value: 5: field is immutable"),
    ],
)
def test_immutable_fields(change: dict[str, Any], error: str) -> None:
    assert update_errors(change, {"creationTimestamp": "2026-01-01T00:00:00Z"}) == [f"metadata.{error}"]


def test_no_finalizer_can_be_added_during_deletion() -> None:
    old = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    assert update_errors({"finalizers": []}, old) == []
    assert update_errors({"finalizers": ["a/b", "c/d"]}, old) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
        'finalizers []string{"c/d"}'
    ]


def test_the_common_rules_ask_less_of_names_and_finalizers() -> None:
    meta = {"name": "System:Thing", "namespace": "d", "finalizers": ["orphans"], "resourceVersion": "1"}
    assert validate_common_meta(meta, namespaced=True) == []
    assert [str(each) for each in validate_common_meta({**meta, "name": "a/b"}, namespaced=True)] == [
        "metadata.name: Invalid value: \"a/b\": may not contain '/'"
    ]


def test_the_common_rules_of_an_update_are_those_of_a_create_and_of_a_change() -> None:
    old = {"name": "a", "namespace": "d", "resourceVersion": "1"}
    errors = validate_common_meta_update({**old, "name": "", "labels": {"": "x"}}, old, namespaced=True)
    assert [error.path for error in errors] == [
        "metadata.name",
        "metadata.labels",
        "metadata.labels",
        "metadata.name",
        "metadata.labels",
        "metadata.labels",
    ]
