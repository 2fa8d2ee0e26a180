"""Validation of a LimitRange: for each type, minimum, maximum, defaults and ratio must be consistent."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.validation.pod.resources import validate_container_resource_name, validate_resource_name
from headgate.kube import names, quantity
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, required
from headgate.kube.pod_resources import may_overcommit
from headgate.kube.quantity import Quantity
from headgate.kube.validation.object_meta import validate_object_meta
from headgate.kube.validation.values import validate_text

Object = dict[str, Any]
Amounts = dict[str, Quantity]

_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_ONE: Final = quantity.of_units(1)


def validate_limit_range(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    seen: set[str] = set()
    for i, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{i}]"
        kind = item.get("type", "")
        errors += _validate_type(kind, f"{path}.type")
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += _validate_item(item, kind, path)
    return errors


def _validate_type(kind: str, path: str) -> FieldErrors:
    errors = validate_text(names.is_qualified_name, kind, path)
    if not errors and "/" not in kind and kind not in _TYPES:
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _validate_item(item: Object, kind: str, path: str) -> FieldErrors:
    errors: FieldErrors = []
    check = validate_container_resource_name if kind in ("Pod", "Container") else validate_resource_name

    def read(field: str) -> Amounts:
        amounts = {name: quantity.amount(text) for name, text in (item.get(field) or {}).items()}
        for name in amounts:
            errors.extend(check(name, f"{path}.{field}[{name}]"))
        return amounts

    maximum, minimum = read("max"), read("min")
    limits: Amounts = {}
    requests: Amounts = {}
    if kind == "Pod":
        for field in ("default", "defaultRequest"):
            if item.get(field):
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
    else:
        limits, requests = read("default"), read("defaultRequest")
    if kind == "PersistentVolumeClaim" and "storage" not in minimum and "storage" not in maximum:
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", text))
    ratios = read("maxLimitRequestRatio")
    for name in dict.fromkeys((*maximum, *minimum, *limits, *requests, *ratios)):
        errors += _validate_bounds(
            name, path, minimum.get(name), maximum.get(name), limits.get(name), requests.get(name), ratios.get(name)
        )
    return errors


def _validate_bounds(
    name: str,
    path: str,
    low: Quantity | None,
    high: Quantity | None,
    limit: Quantity | None,
    request: Quantity | None,
    ratio: Quantity | None,
) -> FieldErrors:
    errors: FieldErrors = []

    def ordered(small: Quantity | None, large: Quantity | None, field: str, shown: Quantity | None, text: str) -> None:
        if small is not None and large is not None and shown is not None and small > large:
            errors.append(invalid(f"{path}.{field}[{name}]", shown.canonical, text.format(small, large)))

    ordered(low, high, "min", low, "min value {} is greater than max value {}")
    ordered(low, request, "defaultRequest", request, "min value {} is greater than default request value {}")
    ordered(request, high, "defaultRequest", request, "default request value {} is greater than max value {}")
    ordered(
        request, limit, "defaultRequest", request, "default request value {} is greater than default limit value {}"
    )
    ordered(low, limit, "default", low, "min value {} is greater than default value {}")
    ordered(limit, high, "default", high, "default value {} is greater than max value {}")
    if ratio is not None:
        ratio_path = f"{path}.maxLimitRequestRatio[{name}]"
        if ratio < _ONE:
            errors.append(invalid(ratio_path, ratio.canonical, f"ratio {ratio} is less than 1"))
        if low and high is not None and ratio.nano * low.nano > high.nano * _ONE.nano:
            text = f"ratio {ratio} is greater than max/min = {high.nano / low.nano:f}"
            errors.append(invalid(ratio_path, ratio.canonical, text))
    if not may_overcommit(name) and limit is not None and request is not None and limit != request:
        text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", request.canonical, text))
    return errors
