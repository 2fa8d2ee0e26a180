"""Validation of a Job's pod failure policy, success policy and pod replacement policy."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.validation.workloads.completion_indexes import InvalidIndexes, count_indexes
from headgate.kube import names
from headgate.kube.field_errors import (
    OMITTED,
    FieldErrors,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from headgate.kube.validation.values import validate_nonnegative, validate_one_of, validate_text

_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255
_MAX_CONDITION_PATTERNS: Final = 20
_MAX_INDEXES_BYTES: Final = 64 * 1024
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_REPLACEMENT_POLICIES: Final = ("Failed", "TerminatingOrFailed")


def _valid_values(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{each}"' for each in values) + "]"


def validate_pod_failure_policy(spec: dict[str, Any], path: str) -> FieldErrors:
    rules = spec["podFailurePolicy"].get("rules") or []
    errors: FieldErrors = []
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    pod = spec.get("template", {}).get("spec", {})
    containers = {each.get("name", "") for kind in ("containers", "initContainers") for each in pod.get(kind) or ()}
    for i, rule in enumerate(rules):
        errors += _validate_failure_rule(spec, rule, f"{path}.rules[{i}]", containers)
    return errors


def _validate_failure_rule(spec: dict[str, Any], rule: dict[str, Any], path: str, containers: set[str]) -> FieldErrors:
    errors: FieldErrors = []
    action = rule.get("action", "")
    if not action:
        errors.append(required(f"{path}.action", _valid_values(_ACTIONS)))
    elif action == "FailIndex":
        if "backoffLimitPerIndex" not in spec:
            errors.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    else:
        errors += validate_one_of(action, f"{path}.action", _ACTIONS)
    exit_codes = rule.get("onExitCodes")
    patterns = rule.get("onPodConditions") or []
    if exit_codes is not None:
        errors += _validate_exit_codes(exit_codes, f"{path}.onExitCodes", containers)
    if patterns:
        errors += _validate_condition_patterns(patterns, f"{path}.onPodConditions")
    if exit_codes is not None and patterns:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        errors.append(invalid(path, OMITTED, text))
    if exit_codes is None and not patterns:
        text = "specifying one of OnExitCodes and OnPodConditions is required"
        errors.append(invalid(path, OMITTED, text))
    return errors


def _validate_exit_codes(exit_codes: dict[str, Any], path: str, containers: set[str]) -> FieldErrors:
    errors: FieldErrors = []
    operator = exit_codes.get("operator", "")
    if not operator:
        errors.append(required(f"{path}.operator", _valid_values(_OPERATORS)))
    else:
        errors += validate_one_of(operator, f"{path}.operator", _OPERATORS)
    container = exit_codes.get("containerName")
    if container is not None and container not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, text))
    values = exit_codes.get("values")
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
        return errors
    if len(values) > _MAX_EXIT_CODES:
        errors.append(too_many(f"{path}.values", len(values), _MAX_EXIT_CODES))
    seen: set[int] = set()
    for i, code in enumerate(values):
        if operator == "In" and code == 0:
            errors.append(invalid(f"{path}.values[{i}]", code, "must not be 0 for the In operator"))
        if code in seen:
            errors.append(duplicate(f"{path}.values[{i}]", code))
        seen.add(code)
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))
    return errors


def _validate_condition_patterns(patterns: list[dict[str, Any]], path: str) -> FieldErrors:
    errors: FieldErrors = []
    if len(patterns) > _MAX_CONDITION_PATTERNS:
        errors.append(too_many(path, len(patterns), _MAX_CONDITION_PATTERNS))
    for i, pattern in enumerate(patterns):
        errors += validate_text(names.is_qualified_name, pattern.get("type", ""), f"{path}[{i}].type")
        status = pattern.get("status", "")
        if not status:
            errors.append(required(f"{path}[{i}].status", _valid_values(_STATUSES)))
        else:
            errors += validate_one_of(status, f"{path}[{i}].status", _STATUSES)
    return errors


def validate_pod_replacement_policy(spec: dict[str, Any], path: str) -> FieldErrors:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    if "podFailurePolicy" in spec:
        return [] if policy == "Failed" else [not_supported(path, policy, ["Failed"])]
    return validate_one_of(policy, path, _REPLACEMENT_POLICIES)


def validate_success_policy(spec: dict[str, Any], path: str) -> FieldErrors:
    rules = spec["successPolicy"].get("rules") or []
    errors: FieldErrors = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", text))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    for i, rule in enumerate(rules):
        errors += _validate_success_rule(rule, f"{path}.rules[{i}]", spec.get("completions") or 0)
    return errors


def _validate_success_rule(rule: dict[str, Any], path: str, completions: int) -> FieldErrors:
    errors: FieldErrors = []
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        if len(indexes) > _MAX_INDEXES_BYTES:
            errors.append(too_long(f"{path}.succeededIndexes", _MAX_INDEXES_BYTES))
        count_result = count_indexes(indexes, completions)
        if isinstance(count_result, InvalidIndexes):
            text = f"error parsing succeededIndexes: {count_result.text}"
            errors.append(invalid(f"{path}.succeededIndexes", indexes, text))
        else:
            total = count_result
    if count is not None:
        count_path = f"{path}.succeededCount"
        errors += validate_nonnegative(count, count_path)
        if count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(count_path, count, text))
        if indexes is not None and count > total:
            noun = "the number of indexes in the specified succeededIndexes field"
            errors.append(invalid(count_path, count, f"must be less than or equal to {total} ({noun})"))
    return errors
