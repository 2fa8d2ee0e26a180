"""The usage of a ResourceQuota by volume claims (storage, also by storage class) and by resource claims (devices)."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.resource_quota.scopes import ScopeRequirement
from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts
from headgate.kube.quantity import Quantity

Object = dict[str, Any]

_CLAIMS: Final = "persistentvolumeclaims"
_STORAGE: Final = "requests.storage"
_COUNT: Final = f"count/{_CLAIMS}"
_STORAGE_CLASS_INFIX: Final = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_DEVICE_COUNT: Final = "count/resourceclaims.resource.k8s.io"
_MAX_DEVICES: Final = 32
_ONE: Final = quantity.of_units(1)


def tracks_volumes(name: str) -> bool:
    return name in (_COUNT, _CLAIMS, _STORAGE) or name.endswith(
        (_STORAGE_CLASS_INFIX + _CLAIMS, _STORAGE_CLASS_INFIX + _STORAGE)
    )


def volume_usage(claim: Object) -> Amounts:
    used = {_CLAIMS: _ONE, _COUNT: _ONE}
    storage_class = _storage_class(claim)
    if storage_class:
        used[f"{storage_class}{_STORAGE_CLASS_INFIX}{_CLAIMS}"] = _ONE
    storage = _storage(claim)
    if storage is not None:
        used[_STORAGE] = storage
        if storage_class:
            used[f"{storage_class}{_STORAGE_CLASS_INFIX}{_STORAGE}"] = storage
    return used


def _storage_class(claim: Object) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    if _CLASS_ANNOTATION in annotations:
        return str(annotations[_CLASS_ANNOTATION])
    return (claim.get("spec") or {}).get("storageClassName") or ""


def _storage(claim: Object) -> Quantity | None:
    """In whole bytes. After a failed expansion the larger of request and allocated storage counts."""
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        return None
    requested = _round_up_to_bytes(quantity.amount(requests["storage"]))
    allocated = (claim.get("status") or {}).get("allocatedResources") or {}
    if "storage" not in allocated:
        return requested
    allocated_storage = _round_up_to_bytes(quantity.amount(allocated["storage"]))
    return max(requested, allocated_storage)


def _round_up_to_bytes(amount: Quantity) -> Quantity:
    return amount if amount.nano % 10**9 == 0 else quantity.of_units(amount.value(), amount.format)


def may_add_volume_usage(subresource: str, new: Object, old: Object) -> bool:
    return subresource in ("", "status")


def volume_in_scope(requirement: ScopeRequirement, claim: Object) -> bool:
    if requirement.scope != "VolumeAttributesClass":
        return False
    names = _attributes_classes(claim)
    return any(requirement.selects(name) for name in names or ("",))


def _attributes_classes(claim: Object) -> set[str]:
    """The requested class, the current one, and the target of a modification."""
    status = claim.get("status") or {}
    names = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in names if name}


def tracks_devices(name: str) -> bool:
    return name == _DEVICE_COUNT or name.endswith(_DEVICES)


def device_usage(claim: Object) -> Amounts:
    """For alternatives, the largest number of each class counts."""
    used = {_DEVICE_COUNT: _ONE}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        largest: dict[str, int] = {}
        for device in request.get("firstAvailable") or (request.get("exactly") or {},):
            name = f"{device.get('deviceClassName', '')}{_DEVICES}"
            largest[name] = max(largest.get(name, 0), _device_count(device))
        for name, count in largest.items():
            used[name] = used.get(name, quantity.ZERO) + quantity.of_units(count)
    return used


def _device_count(device: Object) -> int:
    if device.get("allocationMode") == "All":
        return _MAX_DEVICES
    count: int = device.get("count", 0)
    return count
