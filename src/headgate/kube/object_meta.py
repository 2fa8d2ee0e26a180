"""Owner references and resource versions: which object owns or controls another, and which of two states is newer.

An object may have several owners but one controller. An owner is identified by its uid: an object of the same name that
was created later is another object. Resource versions are compared as numbers, as KEP-5504 promises to clients.
``kube/validation/object_meta.py`` validates references.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube.integers import read_natural
from headgate.kube.schema import GroupVersionKind

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""The annotation by which a DaemonSet counts the changes of its template."""

OwnerReference = dict[str, Any]


def owner_references(obj: Mapping[str, Any]) -> list[OwnerReference]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def controller_of(obj: Mapping[str, Any]) -> OwnerReference | None:
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
    """Group and kind of the owner. The version is not part of its identity."""
    group, slash, _ = str(reference.get("apiVersion", "")).rpartition("/")
    return (group if slash else "", str(reference.get("kind", "")))


def controller_reference(owner: Mapping[str, Any], kind: GroupVersionKind) -> OwnerReference:
    """A reference that makes ``owner`` the controller and blocks its deletion until its dependents are gone."""
    metadata = owner["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def without_owner(references: list[OwnerReference], uid: str) -> list[OwnerReference]:
    """Returns the same list if ``uid`` is not among the owners."""
    kept = [reference for reference in references if reference.get("uid") != uid]
    return references if len(kept) == len(references) else kept


def resource_version_of(obj: Mapping[str, Any]) -> int:
    """Zero for an object without a numeric resource version."""
    text = (obj.get("metadata") or {}).get("resourceVersion", "")
    return read_natural(text) or 0
