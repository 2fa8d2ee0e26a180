"""Validation of container restart policies, restart rules (KEP-5307) and resize policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_supported, required, too_long
from headgate.kube.validation.go_values import go_named_string

Object = dict[str, Any]

_POLICIES: Final = ("Always", "Never", "OnFailure")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255


def validate_restart_policy(container: Object, path: str) -> FieldErrors:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and not rules:
        return []
    errors: FieldErrors = []
    if policy is None:
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy not in _POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", go_named_string(policy), _POLICIES))
    if len(rules) > _MAX_RULES:
        errors.append(too_long(f"{path}.restartPolicyRules", _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _validate_rule(rule, f"{path}.restartPolicyRules[{index}]")
    return errors


def validate_init_restart_policy(container: Object, path: str) -> FieldErrors:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules")
    if policy == "Always":
        if not rules:
            return []
        detail = "restartPolicyRules are not allowed for init containers with restart policy Always"
        return [forbidden(f"{path}.restartPolicyRules", detail)]
    if policy is None and rules:
        return [required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")]
    return validate_restart_policy(container, path)


def _validate_rule(rule: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    action = rule.get("action", "")
    if action != "Restart":
        errors.append(not_supported(f"{path}.action", go_named_string(action), ("Restart",)))
    exit_codes = rule.get("exitCodes")
    if exit_codes is None:
        errors.append(required(f"{path}.exitCodes", "must be specified"))
        return errors
    operator = exit_codes.get("operator", "")
    if operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.exitCodes.operator", go_named_string(operator), ("In", "NotIn")))
    if len(exit_codes.get("values") or ()) > _MAX_EXIT_CODES:
        errors.append(too_long(f"{path}.exitCodes.values", _MAX_EXIT_CODES))
    return errors


def validate_resize_policies(policies: Sequence[Object], pod_restart_policy: str, path: str) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", go_named_string(resource)))
        seen.add(resource)
        errors += _validate_choice(resource, ("cpu", "memory"), path)
        errors += _validate_choice(restart, _RESIZE_POLICIES, path)
        if pod_restart_policy == "Never" and restart != "NotRequired":
            errors.append(
                invalid(path, go_named_string(restart), "must be 'NotRequired' when `restartPolicy` is 'Never'")
            )
    return errors


def _validate_choice(text: str, choices: tuple[str, ...], path: str) -> FieldErrors:
    if text in choices:
        return []
    return [not_supported(path, go_named_string(text), choices)] if text else [required(path)]
