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
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_DEVICE_COUNT: Final = "count/resourceclaims.resource.k8s.io"
_MOST_DEVICES: Final = 32
_ONE: Final = quantity.of_units(1)


def tracks_volumes(name: str) -> bool:
    return name in (_COUNT, _CLAIMS, _STORAGE) or name.endswith((_OF_CLASS + _CLAIMS, _OF_CLASS + _STORAGE))


def volume_usage(claim: Object) -> Amounts:
    used = {_CLAIMS: _ONE, _COUNT: _ONE}
    storage_class = _storage_class(claim)
    if storage_class:
        used[f"{storage_class}{_OF_CLASS}{_CLAIMS}"] = _ONE
    storage = _storage(claim)
    if storage is not None:
        used[_STORAGE] = storage
        if storage_class:
            used[f"{storage_class}{_OF_CLASS}{_STORAGE}"] = storage
    return used


def _storage_class(claim: Object) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    if _CLASS_ANNOTATION in annotations:
        return str(annotations[_CLASS_ANNOTATION])
    return (claim.get("spec") or {}).get("storageClassName") or ""


def _storage(claim: Object) -> Quantity | None:
    """In whole bytes. A claim that shrank again after a failed growth counts with what was set aside for it."""
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        return None
    asked = _whole(quantity.amount(requests["storage"]))
    allocated = (claim.get("status") or {}).get("allocatedResources") or {}
    if "storage" not in allocated:
        return asked
    held = _whole(quantity.amount(allocated["storage"]))
    return max(asked, held)


def _whole(amount: Quantity) -> Quantity:
    return amount if amount.nano % 10**9 == 0 else quantity.of_units(amount.value(), amount.format)


def charges_volume_update(subresource: str, new: Object, old: Object) -> bool:
    return subresource in ("", "status")


def volume_in_scope(requirement: ScopeRequirement, claim: Object) -> bool:
    if requirement.scope != "VolumeAttributesClass":
        return False
    names = _attributes_classes(claim)
    return any(requirement.selects(name) for name in names or ("",))


def _attributes_classes(claim: Object) -> set[str]:
    """The class that is asked for, the one that is in force, and the one that is being put in force."""
    status = claim.get("status") or {}
    named = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in named if name}


def tracks_devices(name: str) -> bool:
    return name == _DEVICE_COUNT or name.endswith(_DEVICES)


def device_usage(claim: Object) -> Amounts:
    """Of alternatives, the most that each class may have to give."""
    used = {_DEVICE_COUNT: _ONE}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        for device in request.get("firstAvailable") or (request.get("exactly") or {},):
            name = f"{device.get('deviceClassName', '')}{_DEVICES}"
            most[name] = max(most.get(name, 0), _device_count(device))
        for name, count in most.items():
            used[name] = used.get(name, quantity.ZERO) + quantity.of_units(count)
    return used


def _device_count(device: Object) -> int:
    if device.get("allocationMode") == "All":
        return _MOST_DEVICES
    count: int = device.get("count", 0)
    return count
