"""Validation of topology spread constraints, and of label keys, which pod affinity terms have too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_supported, required
from headgate.kube.validation.go_values import go_named_string
from headgate.kube.validation.labels import validate_label_name, validate_label_selector

if TYPE_CHECKING:
    from headgate.apimachinery.validation.pod.options import PodOptions

Object = dict[str, Any]


def validate_spread_constraints(constraints: Sequence[Object], path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    last_of = {_pair(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        field_path = f"{path}[{index}]"
        key, action = _pair(constraint)
        errors += _validate_positive(constraint.get("maxSkew", 0), f"{field_path}.maxSkew")
        if not key:
            errors.append(required(f"{field_path}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            supported = ("DoNotSchedule", "ScheduleAnyway")
            errors.append(not_supported(f"{field_path}.whenUnsatisfiable", go_named_string(action), supported))
        if last_of[key, action] > index:
            errors.append(duplicate(f"{field_path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += _validate_min_domains(constraint.get("minDomains"), action, f"{field_path}.minDomains")
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in ("Honor", "Ignore"):
                errors.append(not_supported(f"{field_path}.{field}", go_named_string(policy), ("Honor", "Ignore")))
        keys, selector = constraint.get("matchLabelKeys"), constraint.get("labelSelector")
        if options.legacy_spread_keys:
            errors += _validate_legacy_keys(keys, selector, f"{field_path}.matchLabelKeys")
        else:
            errors += validate_label_keys(keys, None, selector, field_path)
        if not options.any_spread_selector:
            errors += validate_label_selector(selector, f"{field_path}.labelSelector")
    return errors


def _pair(constraint: Object) -> tuple[str, str]:
    """The key by which constraints must be unique."""
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _validate_positive(value: int, path: str) -> FieldErrors:
    return [] if value > 0 else [invalid(path, value, "must be greater than zero")]


def _validate_min_domains(count: int | None, action: str, path: str) -> FieldErrors:
    if count is None:
        return []
    errors = _validate_positive(count, path)
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, count, detail))
    return errors


def validate_label_keys(
    match: Sequence[str] | None, mismatch: Sequence[str] | None, selector: Object | None, path: str
) -> FieldErrors:
    """``matchLabelKeys`` and ``mismatchLabelKeys``. The path of a conflict with the selector lacks the field's name."""
    if not match and not mismatch:
        return []
    match, mismatch = match or (), mismatch or ()
    errors = _validate_keys(match, selector, f"{path}.matchLabelKeys")
    errors += _validate_keys(mismatch, selector, f"{path}.mismatchLabelKeys")
    if selector is not None:
        index_of = {key: index for index, key in enumerate(match)}
        selected = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key", "")
            if key in index_of and key in selected:
                detail = "exists in both matchLabelKeys and labelSelector"
                errors.append(invalid(f"{path}[{index_of[key]}]", key, detail))
            selected.add(key)
    refused = set(mismatch)
    for index, key in enumerate(match):
        if key in refused:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, detail))
    return errors


def _validate_keys(keys: Sequence[str], selector: Object | None, path: str) -> FieldErrors:
    if not keys:
        return []
    if selector is None:
        return [forbidden(path, "must not be specified when labelSelector is not set")]
    errors: FieldErrors = []
    for index, key in enumerate(keys):
        errors += validate_label_name(key, f"{path}[{index}]")
    return errors


def _validate_legacy_keys(keys: Sequence[str] | None, selector: Object | None, path: str) -> FieldErrors:
    """The rule before Kubernetes 1.34, for stored pods."""
    if not keys:
        return []
    errors: FieldErrors = []
    selected: set[str] = set()
    if selector is None:
        errors.append(forbidden(path, "must not be specified when labelSelector is not set"))
    else:
        selected.update(selector.get("matchLabels") or ())
        selected.update(each.get("key", "") for each in selector.get("matchExpressions") or ())
    for index, key in enumerate(keys):
        errors += validate_label_name(key, f"{path}[{index}]")
        if key in selected:
            errors.append(invalid(f"{path}[{index}]", key, "exists in both matchLabelKeys and labelSelector"))
    return errors
