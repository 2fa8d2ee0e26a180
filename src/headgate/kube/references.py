"""Owner references: who owns an object, and who controls it.

An object may have many owners but one controller. An owner is known by its uid: a namesake that was created later is
somebody else. Checking references field by field is ``kube/validation/``'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.kube.schema import GroupVersionKind

Reference = dict[str, Any]


def owner_references(obj: Mapping[str, Any]) -> list[Reference]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def controller_of(obj: Mapping[str, Any]) -> Reference | None:
    """The reference to the object's controller, if it has one."""
    for reference in owner_references(obj):
        if reference.get("controller") is True:
            return reference
    return None


def is_controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == (owner.get("metadata") or {}).get("uid")


def is_owned_by(obj: Mapping[str, Any], uid: str) -> bool:
    return any(reference.get("uid") == uid for reference in owner_references(obj))


def group_kind_of(reference: Mapping[str, Any]) -> tuple[str, str]:
    """Group and kind of the owner; its version does not matter for who it is."""
    group, slash, _ = str(reference.get("apiVersion", "")).rpartition("/")
    return (group if slash else "", str(reference.get("kind", "")))


def controller_reference(owner: Mapping[str, Any], kind: GroupVersionKind) -> Reference:
    """A reference that makes ``owner`` the controller, and keeps it alive until its dependents are gone."""
    metadata = owner["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def without_owner(references: list[Reference], uid: str) -> list[Reference]:
    """The same list when ``uid`` is not among the owners."""
    kept = [reference for reference in references if reference.get("uid") != uid]
    return references if len(kept) == len(references) else kept
