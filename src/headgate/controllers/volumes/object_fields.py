"""Annotations and fields of claims and volumes: names, and readers of single values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube import quantity

Object = dict[str, Any]
ClaimKey = tuple[str, str]
"""Namespace and name."""

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONERS: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
"""Both annotations name the provisioner of the volume."""
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def key_of(claim: Object) -> ClaimKey:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def uid_of(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def annotations_of(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def spec_of(obj: Object) -> Object:
    return obj.get("spec") or {}


def phase_of(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase") or "")


def is_being_deleted(obj: Object) -> bool:
    return obj["metadata"].get("deletionTimestamp") is not None


def storage_class_name_of(obj: Object) -> str:
    """The class of a claim or a volume. The legacy annotation has precedence."""
    named = annotations_of(obj).get(_CLASS)
    return (spec_of(obj).get("storageClassName") or "") if named is None else str(named)


def names_a_class(claim: Object) -> bool:
    return _CLASS in annotations_of(claim) or spec_of(claim).get("storageClassName") is not None


def waits_for_first_consumer(storage_class: Object | None) -> bool:
    """Whether claims of this class are bound when a pod uses them."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def is_default(storage_class: Object) -> bool:
    return any(annotations_of(storage_class).get(each) == "true" for each in _DEFAULT_CLASS)


def requested(claim: Object) -> int:
    """The requested storage, in nano-units."""
    return _nano((spec_of(claim).get("resources") or {}).get("requests"))


def capacity(volume: Object) -> int:
    return _nano(spec_of(volume).get("capacity"))


def access_modes(obj: Object) -> frozenset[str]:
    return frozenset(spec_of(obj).get("accessModes") or ())


def kind_of(obj: Object) -> tuple[str, str]:
    """The mode and the attributes class, which must be equal in a claim and its volume."""
    spec = spec_of(obj)
    return spec.get("volumeMode") or "Filesystem", spec.get("volumeAttributesClassName") or ""


def claim_ref(volume: Object) -> Object | None:
    ref: Object | None = spec_of(volume).get("claimRef")
    return ref


def claim_key(volume: Object) -> ClaimKey | None:
    """The claim that a volume is reserved for."""
    ref = claim_ref(volume)
    return None if ref is None else (ref.get("namespace") or "", ref.get("name") or "")


def is_reserved_for(volume: Object, claim: Object) -> bool:
    """Whether the volume is reserved for the claim. A reservation by a user may lack the uid."""
    ref = claim_ref(volume)
    return ref is not None and claim_key(volume) == key_of(claim) and (ref.get("uid") or "") in ("", uid_of(claim))


def find_mismatch(volume: Object, claim: Object) -> str:
    """Why a claim cannot use the volume that it names; empty if it can."""
    mode, attributes = kind_of(volume)
    wanted_mode, wanted_attributes = kind_of(claim)
    if is_being_deleted(volume):
        return f'the volume is marked for deletion "{name_of(volume)}"'
    if capacity(volume) < requested(claim):
        return "requested PV is too small"
    if storage_class_name_of(volume) != storage_class_name_of(claim):
        return "storageClassName does not match"
    if attributes != wanted_attributes:
        return "volumeAttributesClassName does not match"
    if mode != wanted_mode:
        return "incompatible volumeMode"
    return "" if access_modes(volume) >= access_modes(claim) else "incompatible accessMode"


def is_older(one: Object, other: Object) -> bool:
    """Whether it is an earlier version of the same object."""
    return uid_of(one) == uid_of(other) and _revision(one) < _revision(other)


def _revision(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


def _nano(amounts: Mapping[str, Any] | None) -> int:
    return quantity.amount((amounts or {}).get("storage") or "0").nano
