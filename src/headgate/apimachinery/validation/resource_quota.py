"""Validation of a ResourceQuota: its resources and scopes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from headgate.apimachinery.validation.pod.resources import validate_amount, validate_resource_name
from headgate.kube import names, quantity
from headgate.kube.field_errors import FieldError, FieldErrors, invalid, required
from headgate.kube.pod_resources import HUGE_PAGES, is_huge_page
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import IMMUTABLE

Object = dict[str, Any]

_COMPUTE: Final = frozenset(
    {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"},
)
_STANDARD: Final = _COMPUTE | {
    "ephemeral-storage",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
}
_POD_RESOURCES: Final = _COMPUTE | {"pods"}
_SCOPES: Final[dict[str, frozenset[str]]] = {
    "Terminating": _POD_RESOURCES,
    "NotTerminating": _POD_RESOURCES,
    "NotBestEffort": _POD_RESOURCES,
    "PriorityClass": _POD_RESOURCES,
    "CrossNamespacePodAffinity": _POD_RESOURCES,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_CONFLICTS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY: Final = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
)

_MISAPPLIED: Final = "unsupported scope applied to resource"
_MAX_SCOPE_MISMATCHES: Final = 10_000


def _is_standard(name: str) -> bool:
    return name in _STANDARD or is_huge_page(name) or name.startswith(f"requests.{HUGE_PAGES}")


def _validate_amounts(amounts: Object | None, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for name, text in (amounts or {}).items():
        field_path = f"{path}[{name}]"
        errors += validate_resource_name(name, field_path)
        if "/" not in name and not _is_standard(name):
            errors.append(invalid(field_path, name, "must be a standard resource for quota"))
        errors += validate_amount(name, quantity.amount(text), field_path)
    return errors


def validate_resource_quota(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    status = obj.get("status") or {}
    errors += _validate_spec(obj.get("spec") or {})
    errors += _validate_amounts(status.get("hard"), "status.hard")
    return errors + _validate_amounts(status.get("used"), "status.used")


def _validate_spec(spec: Object) -> FieldErrors:
    return _validate_amounts(spec.get("hard"), "spec.hard") + _validate_scopes(spec) + _validate_selector(spec)


class _ScopeMismatches:
    """Errors for scopes that do not cover the limited resources: one for each given scope and resource.

    A scope may be given any number of times, so a client could cause a very large number of errors. Each scope is
    compared with the resources once, and there are at most :data:`_MAX_SCOPE_MISMATCHES` errors, which is more than a
    response can contain.
    """

    def __init__(self, spec: Object) -> None:
        standard = [name for name in spec.get("hard") or () if _is_standard(name)]
        self._counts: Final = {
            scope: sum(name not in covered for name in standard) for scope, covered in _SCOPES.items()
        }
        self._remaining = _MAX_SCOPE_MISMATCHES

    def errors(self, scope: str, error: Callable[[], FieldError]) -> FieldErrors:
        count = min(self._counts.get(scope, 0), self._remaining)
        self._remaining -= count
        return [error()] * count if count else []


def _validate_scopes(spec: Object) -> FieldErrors:
    scopes = spec.get("scopes") or []
    errors: FieldErrors = []
    mismatches = _ScopeMismatches(spec)
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        errors += mismatches.errors(scope, lambda: invalid("spec.scopes", scopes, _MISAPPLIED))
    return errors + [invalid("spec.scopes", scopes, "conflicting scopes") for pair in _CONFLICTS if pair <= set(scopes)]


def _validate_selector(spec: Object) -> FieldErrors:
    if spec.get("scopeSelector") is None:
        return []
    path = "spec.scopeSelector.matchExpressions"
    expressions = spec["scopeSelector"].get("matchExpressions") or []
    errors: FieldErrors = []
    mismatches = _ScopeMismatches(spec)

    @cache
    def mismatch_error() -> FieldError:
        return invalid(path, _selector_value(expressions), _MISAPPLIED)

    for expression in expressions:
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        values = expression.get("values") or []
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        errors += mismatches.errors(scope, mismatch_error)
        if scope in _EXISTS_ONLY and operator != "Exists":
            text = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
                " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or"
                " ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(invalid(f"{path}.operator", operator, text))
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{path}.values", text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(f"{path}.values", values, text))
        else:
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    named = {expression.get("scopeName") for expression in expressions}
    return errors + [invalid(path, spec.get("scopes"), "conflicting scopes") for pair in _CONFLICTS if pair <= named]


def _selector_value(expressions: list[Object]) -> Any:
    shown = [
        {"ScopeName": each.get("scopeName", ""), "Operator": each.get("operator", ""), "Values": each.get("values")}
        for each in expressions
    ]
    return msgspec.Raw(msgspec.json.encode({"MatchExpressions": shown}))


def validate_resource_quota_update(new: Object, old: Object) -> FieldErrors:
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_object_meta_update(new["metadata"], old["metadata"]) + _validate_spec(spec)
    if set(spec.get("scopes") or ()) != set(old_spec.get("scopes") or ()):
        errors.append(invalid("spec.scopes", spec.get("scopes"), IMMUTABLE))
    return errors


def validate_resource_quota_status_update(new: Object, old: Object) -> FieldErrors:
    status = new.get("status") or {}
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    if not new["metadata"].get("resourceVersion"):
        errors.append(required("resourceVersion"))
    errors += _validate_amounts(status.get("hard"), "status.hard")
    return errors + _validate_amounts(status.get("used"), "status.used")
