"""Validation of the status of a ResourceClaim: the allocation, its consumers, and what drivers report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.apimachinery import ip_addresses
from headgate.apimachinery.validation.conditions import validate_conditions
from headgate.apimachinery.validation.devices.device_claim import (
    MAX_CONFIG,
    request_names,
    validate_configuration,
    validate_raw,
    validate_request_reference,
    validate_requests_of,
)
from headgate.apimachinery.validation.devices.device_names import each_once, size, validate_each, validate_pool_name
from headgate.apimachinery.validation.devices.resource_claim import validate_admin_access
from headgate.apimachinery.validation.pod.affinity import validate_node_selector
from headgate.apimachinery.validation.pod.volume_sources import validate_csi_driver
from headgate.kube.field_errors import (
    FieldErrors,
    Verbatim,
    forbidden,
    invalid,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
)
from headgate.kube.names import is_dns1123_label
from headgate.kube.validation.object_meta import validate_object_meta_update
from headgate.kube.validation.values import validate_immutable, validate_text

Object = dict[str, Any]

_MAX_RESULTS: Final = 32
_MAX_RESERVED: Final = 256
_MAX_CONDITIONS: Final = 8
_MAX_INTERFACE: Final = 256
_MAX_HARDWARE: Final = 128
_MAX_IPS: Final = 16
_SOURCES: Final = ("FromClaim", "FromClass")


def device_id(device: Object) -> Verbatim:
    """Driver, pool and device as messages show them."""
    parts = [f'"{part.title()}":{quote(device.get(part, ""))}' for part in ("driver", "pool", "device")]
    return Verbatim("{" + ",".join(parts) + ',"ShareID":""}')


def allocated_devices(status: Object) -> list[Object]:
    results: list[Object] = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return results


def validate_resource_claim_status(new: Object, old: Object, namespace_labels: Mapping[str, str]) -> FieldErrors:
    status, before = new.get("status") or {}, old.get("status") or {}
    known = request_names((new.get("spec") or {}).get("devices") or {})
    errors = _validate_admin_access(status, before, namespace_labels)
    errors += validate_object_meta_update(new["metadata"], old["metadata"])
    errors += each_once(
        status.get("reservedFor") or [],
        "status.reservedFor",
        _MAX_RESERVED,
        _validate_consumer,
        lambda each: each.get("uid", ""),
    )
    allocated = {device_id(each) for each in allocated_devices(status)}
    devices = status.get("devices") or []
    errors += each_once(
        devices, "status.devices", len(devices), lambda each, at: _validate_report(each, at, allocated), device_id
    )
    errors += _validate_reservation(status, before, deleted="deletionTimestamp" in new["metadata"])
    allocation, allocated_before = status.get("allocation"), before.get("allocation")
    if allocation is not None and allocated_before is not None:
        return errors + validate_immutable(allocation, allocated_before, "status.allocation")
    return errors if allocation is None else errors + _validate_allocation(allocation, "status.allocation", known)


def _validate_admin_access(status: Object, before: Object, namespace_labels: Mapping[str, str]) -> FieldErrors:
    if any(each.get("adminAccess") for each in allocated_devices(before)):
        return []
    for i, result in enumerate(allocated_devices(status)):
        if result.get("adminAccess"):
            return validate_admin_access(f"status.allocation.devices.results[{i}].adminAccess", namespace_labels)
    return []


def _validate_consumer(consumer: Object, path: str) -> FieldErrors:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


def _validate_reservation(status: Object, before: Object, *, deleted: bool) -> FieldErrors:
    reserved, path = status.get("reservedFor") or [], "status.reservedFor"
    if not reserved:
        return []
    if status.get("allocation") is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    old_reservations = {frozenset(each.items()) for each in before.get("reservedFor") or ()}
    if deleted and any(frozenset(each.items()) not in old_reservations for each in reserved):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [forbidden(path, text)]
    return []


def _validate_allocation(allocation: Object, path: str, known: frozenset[str]) -> FieldErrors:
    devices = allocation.get("devices") or {}
    found = validate_each(
        devices.get("results") or [],
        f"{path}.devices.results",
        _MAX_RESULTS,
        lambda result, at: _validate_result(result, at, known),
    )
    found += validate_each(
        devices.get("config") or [],
        f"{path}.devices.config",
        2 * MAX_CONFIG,  # of a class and of a claim
        lambda config, at: _validate_config(config, at, known),
    )
    selector = allocation.get("nodeSelector")
    return found if selector is None else found + validate_node_selector(selector, f"{path}.nodeSelector")


def _validate_result(result: Object, path: str, known: frozenset[str]) -> FieldErrors:
    errors = validate_request_reference(known)(result.get("request", ""), f"{path}.request")
    return errors + _validate_identity(result, path)


def _validate_identity(device: Object, path: str) -> FieldErrors:
    errors = validate_csi_driver(device.get("driver", ""), f"{path}.driver")
    errors += validate_pool_name(device.get("pool", ""), f"{path}.pool")
    return errors + validate_text(is_dns1123_label, device.get("device", ""), f"{path}.device")


def _validate_config(config: Object, path: str, known: frozenset[str]) -> FieldErrors:
    source, field_path = config.get("source", ""), f"{path}.source"
    errors: FieldErrors = []
    if not source:
        errors.append(required(field_path))
    elif source not in _SOURCES:
        errors.append(not_supported(field_path, source, _SOURCES))
    return errors + validate_requests_of(config, path, known) + validate_configuration(config, path)


def _validate_report(device: Object, path: str, allocated: set[Verbatim]) -> FieldErrors:
    """The status that a driver reports for one allocated device."""
    errors = _validate_identity(device, path)
    if device_id(device) not in allocated:
        errors.append(invalid(path, device_id(device), "must be an allocated device in the claim"))
    conditions, field_path = device.get("conditions") or [], f"{path}.conditions"
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(field_path, len(conditions), _MAX_CONDITIONS))
    errors += validate_conditions(conditions, field_path)
    if device.get("data") is not None:
        errors += validate_raw(device["data"], f"{path}.data")
    network = device.get("networkData")
    return errors if network is None else errors + _validate_network(network, f"{path}.networkData")


def _validate_network(network: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for field, limit in (("interfaceName", _MAX_INTERFACE), ("hardwareAddress", _MAX_HARDWARE)):
        if size(network.get(field, "")) > limit:
            errors.append(too_long(f"{path}.{field}", limit))
    return errors + each_once(
        network.get("ips") or [],
        f"{path}.ips",
        _MAX_IPS,
        lambda ip, at: validate_text(ip_addresses.is_valid_interface_address, ip, at),
        lambda ip: ip,
    )
