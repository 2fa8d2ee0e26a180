"""The rules of ResourceClaim, ResourceClaimTemplate, DeviceClass and ResourceSlice that do not need CEL.

Selectors are CEL and are stored unread; constraints, configuration and the devices of a slice are taken as they are.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import names
from headgate.kube.errors import FieldErrors, duplicate, invalid, not_supported, required, too_many
from headgate.kube.validation.metadata import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import NOT_POSITIVE, follows, immutable

Object = dict[str, Any]

_MAX_REQUESTS: Final = 32
_MAX_ALTERNATIVES: Final = 8


def _meta(obj: Object, *, namespaced: bool) -> FieldErrors:
    return validate_object_meta(obj["metadata"], namespaced=namespaced, name_rule=names.name_is_dns_subdomain)


def validate_resource_claim_create(obj: Object) -> FieldErrors:
    return _meta(obj, namespaced=True) + _validate_devices(obj.get("spec") or {}, "spec.devices")


def validate_resource_claim_update(new: Object, old: Object) -> FieldErrors:
    found = _meta(new, namespaced=True) + validate_object_meta_update(new["metadata"], old["metadata"])
    return found + immutable(new.get("spec"), old.get("spec"), "spec")


def validate_claim_template_create(obj: Object) -> FieldErrors:
    spec = (obj.get("spec") or {}).get("spec") or {}
    return _meta(obj, namespaced=True) + _validate_devices(spec, "spec.spec.devices")


def validate_claim_template_update(new: Object, old: Object) -> FieldErrors:
    found = validate_claim_template_create(new) + validate_object_meta_update(new["metadata"], old["metadata"])
    return found + immutable(new.get("spec"), old.get("spec"), "spec")


def validate_device_class(obj: Object) -> FieldErrors:
    selectors = (obj.get("spec") or {}).get("selectors") or []
    return _meta(obj, namespaced=False) + _validate_selectors(selectors, "spec.selectors")


def validate_device_class_update(new: Object, old: Object) -> FieldErrors:
    selectors = (new.get("spec") or {}).get("selectors") or []
    found = _meta(new, namespaced=False) + validate_object_meta_update(new["metadata"], old["metadata"])
    return found + _validate_selectors(selectors, "spec.selectors")


def validate_resource_slice(obj: Object) -> FieldErrors:
    return _meta(obj, namespaced=False)


def validate_resource_slice_update(new: Object, old: Object) -> FieldErrors:
    return _meta(new, namespaced=False) + validate_object_meta_update(new["metadata"], old["metadata"])


def _validate_devices(spec: Object, path: str) -> FieldErrors:
    devices = spec.get("devices") or {}
    requests = devices.get("requests") or []
    if len(requests) > _MAX_REQUESTS:
        found = [too_many(f"{path}.requests", len(requests), _MAX_REQUESTS)]
    else:
        found = [
            error for i, request in enumerate(requests) for error in _validate_request(request, f"{path}.requests[{i}]")
        ]
        found += _duplicates(requests, f"{path}.requests")
    return found + _validate_constraints(devices.get("constraints") or [], requests, f"{path}.constraints")


def _duplicates(named: list[Object], path: str) -> FieldErrors:
    given = [each.get("name", "") for each in named]
    return [duplicate(f"{path}[{i}]", name) for i, name in enumerate(given) if name in given[:i]]


def _validate_constraints(constraints: list[Object], requests: list[Object], path: str) -> FieldErrors:
    known = {request.get("name", "") for request in requests}
    known |= {
        f"{request.get('name', '')}/{each.get('name', '')}"
        for request in requests
        for each in request.get("firstAvailable") or ()
    }
    text = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    return [
        invalid(f"{path}[{i}].requests[{j}]", name, text)
        for i, constraint in enumerate(constraints)
        for j, name in enumerate(constraint.get("requests") or ())
        if name not in known
    ]


def _validate_request(request: Object, path: str) -> FieldErrors:
    found = follows(names.is_dns1123_label, request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    text = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        return [*found, required(path, text)]
    if exactly is not None and alternatives:
        return [*found, invalid(path, None, f"{text}, but multiple fields are set")]
    if exactly is not None:
        return found + _validate_device(exactly, f"{path}.exactly")
    if len(alternatives) > _MAX_ALTERNATIVES:
        return [*found, too_many(f"{path}.firstAvailable", len(alternatives), _MAX_ALTERNATIVES)]
    for i, device in enumerate(alternatives):
        at = f"{path}.firstAvailable[{i}]"
        found += follows(names.is_dns1123_label, device.get("name", ""), f"{at}.name") + _validate_device(device, at)
    return found + _duplicates(alternatives, f"{path}.firstAvailable")


def _validate_selectors(selectors: list[Object], path: str) -> FieldErrors:
    return [required(f"{path}[{i}].cel") for i, each in enumerate(selectors) if each.get("cel") is None]


def _validate_device(device: Object, path: str) -> FieldErrors:
    class_name = device.get("deviceClassName", "")
    at = f"{path}.deviceClassName"
    found = follows(names.is_dns1123_subdomain, class_name, at) if class_name else [required(at)]
    found += _validate_selectors(device.get("selectors") or [], f"{path}.selectors")
    mode, count = device.get("allocationMode", ""), device.get("count", 0)
    if mode == "All":
        if count:
            found.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount":
        if count <= 0:
            found.append(invalid(f"{path}.count", count, NOT_POSITIVE))
    else:
        found.append(not_supported(f"{path}.allocationMode", mode, ["All", "ExactCount"]))
    return found
