"""Validation of a device claim: requests, constraints between them, and configuration for their drivers.

Claims and their templates use all of it, device classes only the selectors and the configuration. Selectors are CEL:
they are not compiled. ``resource_claim.py`` validates the whole objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.apimachinery.validation.devices.device_names import (
    each_once,
    name_of,
    size,
    validate_each,
    validate_fully_qualified_name,
)
from headgate.apimachinery.validation.pod.volume_sources import validate_csi_driver
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required, too_long
from headgate.kube.validation.values import NOT_POSITIVE, validate_text

Object = dict[str, Any]

MAX_REQUESTS: Final = 32
MAX_CONFIG: Final = 32
_MAX_ALTERNATIVES: Final = 8
_MAX_CONSTRAINTS: Final = 32
_MAX_SELECTORS: Final = 32
_MAX_EXPRESSION: Final = 10 * 1024
_MAX_RAW: Final = 10 * 1024
_UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
# The error of the CEL compiler for an empty expression; no other expression is compiled.
_NO_EXPRESSION: Final = (
    "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', "
    "'-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"


def validate_device_claim(devices: Object, path: str) -> FieldErrors:
    known = request_names(devices)
    requests = devices.get("requests") or []
    found = each_once(requests, f"{path}.requests", MAX_REQUESTS, _validate_request, name_of)
    found += validate_each(
        devices.get("constraints") or [],
        f"{path}.constraints",
        _MAX_CONSTRAINTS,
        lambda constraint, at: _validate_constraint(constraint, at, known),
    )
    return found + validate_each(
        devices.get("config") or [],
        f"{path}.config",
        MAX_CONFIG,
        lambda config, at: validate_requests_of(config, at, known) + validate_configuration(config, at),
    )


def request_names(devices: Object) -> frozenset[str]:
    """The names that a constraint, a configuration or a result may refer to: ``request`` or ``request/alternative``."""
    known: set[str] = set()
    for request in devices.get("requests") or ():
        name = name_of(request)
        known.add(name)
        known |= {f"{name}/{name_of(each)}" for each in request.get("firstAvailable") or ()}
    return frozenset(known)


def validate_request_reference(known: frozenset[str]) -> Callable[[str, str], FieldErrors]:
    def check(name: str, path: str) -> FieldErrors:
        segments = name.split("/")
        if len(segments) > 2:
            return [invalid(path, name, _UNKNOWN_REQUEST)]
        errors = [error for each in segments for error in validate_text(names.is_dns1123_label, each, path)]
        return errors if name in known else [*errors, invalid(path, name, _UNKNOWN_REQUEST)]

    return check


def validate_requests_of(constraint_or_config: Object, path: str, known: frozenset[str]) -> FieldErrors:
    check = validate_request_reference(known)
    return each_once(
        constraint_or_config.get("requests") or [], f"{path}.requests", MAX_REQUESTS, check, lambda name: name
    )


def _validate_request(request: Object, path: str) -> FieldErrors:
    errors = validate_text(names.is_dns1123_label, name_of(request), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not alternatives:
        return [*errors, required(path, _ONE_KIND)]
    if exactly is not None and alternatives:
        return [*errors, invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")]
    if exactly is not None:
        return errors + _validate_device(exactly, f"{path}.exactly")
    field_path = f"{path}.firstAvailable"
    return errors + each_once(alternatives, field_path, _MAX_ALTERNATIVES, _validate_alternative, name_of)


def _validate_alternative(device: Object, path: str) -> FieldErrors:
    return validate_text(names.is_dns1123_label, name_of(device), f"{path}.name") + _validate_device(device, path)


def _validate_device(device: Object, path: str) -> FieldErrors:
    class_name = device.get("deviceClassName", "")
    field_path = f"{path}.deviceClassName"
    errors = validate_text(names.is_dns1123_subdomain, class_name, field_path) if class_name else [required(field_path)]
    errors += validate_selectors(device.get("selectors") or [], f"{path}.selectors")
    mode, count = device.get("allocationMode", ""), device.get("count", 0)
    if mode == "All":
        if count:
            errors.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(invalid(f"{path}.count", count, NOT_POSITIVE))
    else:
        errors.append(not_supported(f"{path}.allocationMode", mode, ["All", "ExactCount"]))
    return errors


def validate_selectors(selectors: list[Object], path: str) -> FieldErrors:
    return validate_each(selectors, path, _MAX_SELECTORS, _validate_selector)


def _validate_selector(selector: Object, path: str) -> FieldErrors:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    expression, field_path = cel.get("expression", ""), f"{path}.cel.expression"
    if not expression:
        return [invalid(field_path, expression, _NO_EXPRESSION)]
    return [too_long(field_path, _MAX_EXPRESSION)] if size(expression) > _MAX_EXPRESSION else []


def _validate_constraint(constraint: Object, path: str, known: frozenset[str]) -> FieldErrors:
    errors = validate_requests_of(constraint, path, known)
    attribute, field_path = constraint.get("matchAttribute"), f"{path}.matchAttribute"
    if attribute is None:
        return [*errors, required(field_path)]
    return errors + validate_fully_qualified_name(attribute, field_path)


def validate_configuration(config: Object, path: str, *, stored: bool = False) -> FieldErrors:
    """``stored`` parameters may be longer, because older versions had no limit."""
    opaque, field_path = config.get("opaque"), f"{path}.opaque"
    if opaque is None:
        return [required(field_path)]
    errors = validate_csi_driver(opaque.get("driver", ""), f"{field_path}.driver")
    return errors + validate_raw(opaque.get("parameters"), f"{field_path}.parameters", stored=stored)


def validate_raw(value: Any, path: str, *, stored: bool = False) -> FieldErrors:
    """Opaque parameters: an object for the driver."""
    if value is None:
        return [required(path)]
    if not stored and len(msgspec.json.encode(value)) > _MAX_RAW:
        return [too_long(path, _MAX_RAW)]
    return [] if isinstance(value, dict) else [invalid(path, "<value omitted>", "must be a valid JSON object")]
