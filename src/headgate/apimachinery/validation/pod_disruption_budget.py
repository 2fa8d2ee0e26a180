"""Validation of a PodDisruptionBudget. Its name has only the common rules."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery.validation.conditions import validate_conditions
from headgate.kube.field_errors import FieldErrors, invalid, not_supported
from headgate.kube.validation.labels import has_invalid_selector_value, validate_label_selector
from headgate.kube.validation.values import (
    validate_at_most_100_percent,
    validate_nonnegative,
    validate_nonnegative_int_or_percent,
)

Object = dict[str, Any]

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")


def validate_disruption_budget(obj: Object, old: Object | None = None) -> FieldErrors:
    spec = obj.get("spec") or {}
    errors: FieldErrors = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        errors.append(invalid("spec", _spec_value(spec), "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            errors += validate_nonnegative_int_or_percent(spec[field], f"spec.{field}")
            errors += validate_at_most_100_percent(spec[field], f"spec.{field}")
    tolerated = has_invalid_selector_value((old.get("spec") or {}).get("selector")) if old else False
    errors += validate_label_selector(spec.get("selector"), "spec.selector", any_value=tolerated)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
    return errors


def _spec_value(spec: Object) -> Any:
    shown = {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }
    return msgspec.Raw(msgspec.json.encode(shown))


def validate_disruption_budget_status(obj: Object) -> FieldErrors:
    status = obj.get("status") or {}
    errors = validate_conditions(status.get("conditions") or [], "status.conditions")
    for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        errors += validate_nonnegative(status.get(field) or 0, f"status.{field}")
    return errors
