"""Owners and controllers."""

from __future__ import annotations

from typing import Any

from headgate.kube import object_meta
from headgate.kube.schema import GroupVersionKind

OWNER: dict[str, Any] = {"metadata": {"name": "j", "uid": "u1"}}
REFERENCE = object_meta.controller_reference(OWNER, GroupVersionKind("batch", "v1", "Job"))


def owned_by(*refs: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "p", "ownerReferences": list(refs)}}


def test_a_controller_reference_names_its_owner_and_blocks_its_deletion() -> None:
    named = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u1"}
    assert named | {"controller": True, "blockOwnerDeletion": True} == REFERENCE


def test_the_controller_is_the_reference_that_says_so() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u2"}
    assert object_meta.controller_of(owned_by(other, REFERENCE)) == REFERENCE
    assert object_meta.controller_of(owned_by(other)) is None
    assert object_meta.controller_of({"metadata": {}}) is None
    assert object_meta.is_controlled_by(owned_by(other, REFERENCE), OWNER)
    assert not object_meta.is_controlled_by(owned_by(other), OWNER)


def test_an_object_of_the_same_name_with_another_uid_is_not_the_owner() -> None:
    assert not object_meta.is_controlled_by(owned_by(REFERENCE), {"metadata": {"name": "j", "uid": "u9"}})
    assert object_meta.is_owned_by(owned_by(REFERENCE), "u1")
    assert not object_meta.is_owned_by(owned_by(REFERENCE), "u9")


def test_the_group_and_kind_of_an_owner_do_not_depend_on_the_version() -> None:
    assert object_meta.group_kind_of(REFERENCE) == ("batch", "Job")
    assert object_meta.group_kind_of({"apiVersion": "v1", "kind": "Node"}) == ("", "Node")


def test_an_owner_can_be_removed() -> None:
    refs = [REFERENCE]
    assert object_meta.without_owner(refs, "u1") == []
    assert object_meta.without_owner(refs, "u2") is refs
