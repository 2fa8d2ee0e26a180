"""Validation of resource requests and limits: names, amounts, huge pages, overcommitment, claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final

from headgate.kube import quantity
from headgate.kube.field_errors import (
    FieldError,
    FieldErrors,
    FieldErrorType,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from headgate.kube.names import is_dns1123_label, is_qualified_name
from headgate.kube.pod_resources import (
    HUGE_PAGES,
    is_huge_page,
    is_native,
    may_be_pod_level,
    may_overcommit,
    sum_containers,
)
from headgate.kube.quantity import Quantity
from headgate.kube.validation.go_values import go_named_string

if TYPE_CHECKING:
    from headgate.apimachinery.validation.pod.options import PodOptions

Object = dict[str, Any]
NameCheck = Callable[[str, str], FieldErrors]

_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD: Final = (
    _COUNTED
    | _CONTAINER_RESOURCES
    | {f"{which}.{name}" for which in ("requests", "limits") for name in _CONTAINER_RESOURCES}
    | {"storage", "requests.storage"}
)
_MAX_MILLI: Final = 2**63 - 1


def is_standard_resource(name: str) -> bool:
    return name in _STANDARD or is_huge_page(name) or name.startswith(f"requests.{HUGE_PAGES}")


def is_extended_resource(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not is_qualified_name(f"requests.{name}")


def is_integer_resource(name: str) -> bool:
    return name in _COUNTED or is_extended_resource(name)


def is_whole_pages(name: str, value: Quantity) -> bool:
    page = quantity.parse(name.removeprefix(HUGE_PAGES))
    if isinstance(page, str) or page.nano <= 0 or page.milli_value() % 1000:
        return False
    return value.value() % page.value() == 0


def validate_resource_name(name: str, path: str) -> FieldErrors:
    """A resource name of quotas, nodes and containers: a standard name, or one with a domain."""
    errors = [invalid(path, go_named_string(name), message) for message in is_qualified_name(name)]
    if not errors and "/" not in name and not is_standard_resource(name):
        errors.append(invalid(path, go_named_string(name), "must be a standard resource type or fully qualified"))
    return errors


def validate_container_resource_name(name: str, path: str) -> FieldErrors:
    if name in _CONTAINER_RESOURCES:
        return []
    errors = validate_resource_name(name, path)
    if name.count("/") == 0:
        if not is_huge_page(name):
            errors.append(invalid(path, go_named_string(name), "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended_resource(name):
        errors.append(invalid(path, go_named_string(name), "doesn't follow extended resource name standard"))
    return errors


def validate_pod_resource_name(name: str, path: str) -> FieldErrors:
    errors = validate_resource_name(name, path)
    if not errors and not may_be_pod_level(name):
        errors.append(not_supported(path, go_named_string(name), ("cpu", HUGE_PAGES, "memory")))
    return errors


def validate_amount(name: str, value: Quantity, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if value.nano < 0:
        errors.append(invalid(path, value.canonical, "must be greater than or equal to 0"))
    # Kubernetes keeps thousandths in 64 bits, and an amount that is too large counts as fractional.
    if is_integer_resource(name) and min(value.milli_value(), _MAX_MILLI) % 1000:
        errors.append(invalid(path, go_named_string(value.canonical), "must be an integer"))
    return errors


def validate_container_resources(
    resources: Object | None, claim_names: AbstractSet[str], path: str, options: PodOptions
) -> FieldErrors:
    if not resources:
        return []
    return _validate_requirements(resources, validate_container_resource_name, claim_names, path, options)


def validate_overhead(overhead: Mapping[str, Any], path: str, options: PodOptions) -> FieldErrors:
    return _validate_requirements({"limits": overhead}, validate_container_resource_name, frozenset(), path, options)


def _validate_requirements(
    resources: Object, check_name: NameCheck, claim_names: AbstractSet[str], path: str, options: PodOptions
) -> FieldErrors:
    errors: FieldErrors = []
    limits = {name: quantity.amount(value) for name, value in (resources.get("limits") or {}).items()}
    requests = {name: quantity.amount(value) for name, value in (resources.get("requests") or {}).items()}
    for name, value in limits.items():
        field_path = f"{path}.limits[{name}]"
        errors += check_name(name, field_path)
        errors += validate_amount(name, value, field_path)
        errors += _validate_pages(name, value, field_path, options)
    for name, value in requests.items():
        field_path = f"{path}.requests[{name}]"
        errors += check_name(name, field_path)
        errors += validate_amount(name, value, field_path)
        errors += _validate_against_limit(name, value, limits.get(name), path)
        errors += _validate_pages(name, value, field_path, options)
    named_resources = (*limits, *requests)
    if any(map(is_huge_page, named_resources)) and "cpu" not in named_resources and "memory" not in named_resources:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    claims = resources.get("claims")
    return errors + _validate_claims(claims, claim_names, f"{path}.claims") if claims else errors


def _validate_against_limit(name: str, value: Quantity, limit: Quantity | None, path: str) -> FieldErrors:
    if limit is None:
        if may_overcommit(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if value != limit and not may_overcommit(name):
        detail = f"must be equal to {name} limit of {limit.canonical}"
    elif value > limit:
        detail = f"must be less than or equal to {name} limit of {limit.canonical}"
    else:
        return []
    return [invalid(f"{path}.requests", value.canonical, detail)]


def _validate_pages(name: str, value: Quantity, path: str, options: PodOptions) -> FieldErrors:
    if not is_huge_page(name) or options.partial_huge_pages or is_whole_pages(name, value):
        return []
    detail = f"{value.canonical} is not positive integer multiple of {name}"
    return [invalid(path, value.canonical, detail)]


def _validate_claims(claims: list[Object], claim_names: AbstractSet[str], path: str) -> FieldErrors:
    """A claim may be listed once as a whole, or several times with different requests."""
    errors: FieldErrors = []
    seen: set[str] = set()
    requests: Counter[str] = Counter()  # by claim: the number of its listed requests
    known = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
    for index, claim in enumerate(claims):
        name, request, field_path = claim.get("name", ""), claim.get("request", ""), f"{path}[{index}]"
        if not name:
            errors.append(required(field_path))
            continue
        if name in seen:
            errors.append(duplicate(field_path, name))
        else:
            key = name
            if request:
                errors += [invalid(f"{field_path}.request", request, message) for message in is_dns1123_label(request)]
                key = f"{name}/{request}"
            if key in seen:
                errors.append(duplicate(field_path, key))
            elif not request:
                errors += [duplicate(field_path, name)] * requests[name]
            if key not in seen:
                seen.add(key)
                requests[name] += key != name
        if name not in claim_names:
            detail = "must be one of the names in pod.spec.resourceClaims"
            errors.append(FieldError(FieldErrorType.NOT_FOUND, field_path, name, detail, known))
    return errors


def validate_pod_resources(spec: Object, claim_names: AbstractSet[str], path: str, options: PodOptions) -> FieldErrors:
    """Pod-level resources (KEP-2837)."""
    resources = spec.get("resources")
    if resources is None:
        return []
    field_path = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(field_path, "may not be set for a windows pod")]
    errors: FieldErrors = []
    if resources.get("claims") is not None:
        errors.append(forbidden(f"{field_path}.claims", "claims may not be set for Resources at pod-level"))
    errors += _validate_requirements(resources, validate_pod_resource_name, claim_names, field_path, options)
    return errors + _validate_consistency(spec, resources, field_path)


def _validate_consistency(spec: Object, resources: Object, path: str) -> FieldErrors:
    """Pod-level amounts must be at least the sum of those of the containers, and no container may exceed them."""
    errors: FieldErrors = []
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, total in sum_containers(spec, "requests").items():
        if name in requests and total > (own := quantity.amount(requests[name])):
            detail = f"must be greater than or equal to aggregate container requests of {total.canonical}"
            errors.append(invalid(f"{path}.requests[{name}]", own.canonical, detail))
    for name, total in sum_containers(spec, "limits").items():
        if is_huge_page(name) and name in limits and total > (own := quantity.amount(limits[name])):
            detail = f"must be greater than or equal to aggregate container limits of {total.canonical}"
            errors.append(invalid(f"{path}.limits[{name}]", own.canonical, detail))
    for index, container in enumerate(spec.get("containers") or ()):
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            limit = quantity.amount(value)
            if name in limits and limit > (own := quantity.amount(limits[name])):
                detail = f"must be less than or equal to pod limits of {own.canonical}"
                errors.append(invalid(f"{path}.containers[{index}][{name}].limits", limit.canonical, detail))
    return errors
