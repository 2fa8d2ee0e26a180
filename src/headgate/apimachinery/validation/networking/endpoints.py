"""Validation of Endpoints and EndpointSlice, and of their addresses."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.ip_addresses import is_valid_ip, is_valid_ip_for_legacy_field, parse_ip, warnings_for_ip
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate, invalid, required, too_many
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import (
    validate_immutable,
    validate_one_of,
    validate_port_number,
    validate_required_one_of,
    validate_text,
)

Object = dict[str, Any]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS: Final = 1000
_MAX_ADDRESSES: Final = 100
_MAX_PORTS: Final = 20000
_MAX_HINTS: Final = 8
_OWN_CONTROLLERS: Final = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


def validate_endpoint_ip(address: str, path: str) -> FieldErrors:
    """Rejects unspecified, loopback and link-local addresses, which other machines cannot reach."""
    parsed = parse_ip(address)
    if parsed is None:
        return [invalid(path, address, "must be a valid IP address")]
    errors: FieldErrors = []
    if parsed.is_unspecified:
        errors.append(invalid(path, address, f"may not be unspecified ({address})"))
    if parsed.is_loopback:
        errors.append(invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if parsed.is_link_local:
        errors.append(invalid(path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    packed = parsed.packed
    if packed[:3] == b"\xe0\x00\x00" if parsed.version == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2:
        text = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, address, text))
    return errors


def validate_endpoints(obj: Object, old: Object | None = None) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    subsets = obj.get("subsets") or []
    problems = [error for i, subset in enumerate(subsets) for error in _validate_subset(subset, f"subsets[{i}]")]
    # An invalid stored object may stay unchanged.
    if problems and old is not None and (old.get("subsets") or []) == subsets:
        problems = []
    return errors + problems


def validate_endpoints_update(new: Object, old: Object) -> FieldErrors:
    return validate_object_meta_update(new["metadata"], old["metadata"]) + validate_endpoints(new, old)


def endpoints_warnings(obj: Object) -> list[str]:
    return [
        warning
        for i, subset in enumerate(obj.get("subsets") or ())
        for field in ("addresses", "notReadyAddresses")
        for j, address in enumerate(subset.get(field) or ())
        for warning in warnings_for_ip(f"subsets[{i}].{field}[{j}].ip", address.get("ip", ""))
    ]


def _validate_subset(subset: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
    for field in ("addresses", "notReadyAddresses"):
        for i, address in enumerate(subset.get(field) or ()):
            errors += _validate_address(address, f"{path}.{field}[{i}]")
    ports = subset.get("ports") or []
    for i, port in enumerate(ports):
        errors += _validate_port(port, f"{path}.ports[{i}]", named=len(ports) > 1)
    return errors


def _validate_address(address: Object, path: str) -> FieldErrors:
    errors = validate_text(is_valid_ip_for_legacy_field, address.get("ip", ""), f"{path}.ip")
    if address.get("hostname"):
        errors += validate_text(names.is_dns1123_label, address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        errors += validate_text(names.is_dns1123_subdomain, address["nodeName"], f"{path}.nodeName")
    return errors + validate_endpoint_ip(address.get("ip", ""), f"{path}.ip")


def _validate_port(port: Object, path: str, *, named: bool) -> FieldErrors:
    errors: FieldErrors = []
    if port.get("name"):
        errors += validate_text(names.is_dns1123_label, port["name"], f"{path}.name")
    elif named:
        errors.append(required(f"{path}.name"))
    errors += validate_port_number(port.get("port", 0), f"{path}.port")
    errors += validate_required_one_of(port.get("protocol", ""), f"{path}.protocol", _PROTOCOLS)
    if port.get("appProtocol") is not None:
        errors += validate_text(names.is_qualified_name, port["appProtocol"], f"{path}.appProtocol")
    return errors


def validate_endpoint_slice(obj: Object, old: Object | None = None) -> FieldErrors:
    kind, endpoints = obj.get("addressType", ""), obj.get("endpoints") or []
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    errors += validate_required_one_of(kind, "addressType", _ADDRESS_TYPES)
    errors += _validate_slice_ports(obj.get("ports") or [])
    problems = _validate_slice_endpoints(endpoints, kind)
    if problems and old is not None and (old.get("endpoints") or []) == endpoints:
        problems = []
    return errors + problems


def validate_endpoint_slice_update(new: Object, old: Object) -> FieldErrors:
    return validate_endpoint_slice(new, old) + validate_immutable(
        new.get("addressType"), old.get("addressType"), "addressType"
    )


def _validate_slice_ports(ports: list[Object]) -> FieldErrors:
    if len(ports) > _MAX_PORTS:
        return [too_many("ports", len(ports), _MAX_PORTS)]
    errors: FieldErrors = []
    seen: set[str] = set()
    for i, port in enumerate(ports):
        name = port.get("name", "")
        if name:
            errors += validate_text(names.is_dns1123_label, name, f"ports[{i}].name")
        if name in seen:
            errors.append(duplicate(f"ports[{i}].name", name))
        seen.add(name)
        errors += validate_one_of(port.get("protocol", ""), f"ports[{i}].protocol", _PROTOCOLS)
        if port.get("appProtocol") is not None:
            errors += validate_text(names.is_qualified_name, port["appProtocol"], f"ports[{i}].appProtocol")
    return errors


def _validate_slice_endpoints(endpoints: list[Object], kind: str) -> FieldErrors:
    if len(endpoints) > _MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    errors: FieldErrors = []
    for i, endpoint in enumerate(endpoints):
        path, addresses = f"endpoints[{i}]", endpoint.get("addresses") or []
        if not addresses:
            errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _MAX_ADDRESSES:
            errors.append(too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES))
        for j, address in enumerate(addresses):
            errors += _validate_slice_address(address, kind, f"{path}.addresses", j)
        if endpoint.get("nodeName") is not None:
            errors += validate_text(names.is_dns1123_subdomain, endpoint["nodeName"], f"{path}.nodeName")
        if endpoint.get("hostname") is not None:
            errors += validate_text(names.is_dns1123_label, endpoint["hostname"], f"{path}.hostname")
        errors += _validate_hints(endpoint.get("hints") or {}, f"{path}.hints")
    return errors


def _validate_slice_address(address: str, kind: str, path: str, index: int) -> FieldErrors:
    field_path = f"{path}[{index}]"
    if kind == "FQDN":
        return _validate_domain(address, field_path)
    if kind not in ("IPv4", "IPv6"):
        return []
    rule = is_valid_ip_for_legacy_field if kind == "IPv4" else is_valid_ip
    errors = validate_text(rule, address, field_path)
    if errors:
        return errors
    parsed = parse_ip(address)
    if parsed is not None and f"IPv{parsed.version}" != kind:
        errors.append(invalid(path, address, f"must be an {kind} address"))
    return errors + validate_endpoint_ip(address, field_path)


def _validate_domain(name: str, path: str) -> FieldErrors:
    if not name:
        return [required(path)]
    name = name.removesuffix(".")
    if messages := names.is_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(messages))]
    if "." not in name:
        return [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    for label in name.split("."):
        if messages := names.is_dns1123_label(label):
            return [invalid(path, label, ",".join(messages))]
    return []


def _validate_hints(hints: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for field, rule in (("forZones", names.is_valid_label_value), ("forNodes", names.is_dns1123_subdomain)):
        given = hints.get(field) or []
        if len(given) > _MAX_HINTS:
            return [*errors, too_many(f"{path}.{field}", len(given), _MAX_HINTS)]
        seen: set[str] = set()
        for i, hint in enumerate(given):
            name = hint.get("name", "")
            if name in seen:
                errors.append(duplicate(f"{path}.{field}[{i}].name", name))
            seen.add(name)
            errors += validate_text(rule, name, f"{path}.{field}[{i}].name")
    return errors


def endpoint_slice_warnings(obj: Object, *, created: bool) -> list[str]:
    warnings: list[str] = []
    if created and obj.get("addressType") == "FQDN":
        warnings.append("spec.addressType: FQDN endpoints are deprecated")
    labels = obj["metadata"].get("labels") or {}
    if labels.get("endpointslice.kubernetes.io/managed-by") not in _OWN_CONTROLLERS:
        for i, endpoint in enumerate(obj.get("endpoints") or ()):
            for j, address in enumerate(endpoint.get("addresses") or ()):
                warnings += warnings_for_ip(f"endpoints[{i}].addresses[{j}]", address)
    return warnings
