"""Validation of ValidatingAdmissionPolicy and its binding. Expressions are required, but not compiled.

The server stores policies and does not enforce them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from headgate.apimachinery.validation.conditions import validate_conditions
from headgate.apimachinery.validation.webhooks import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    validate_match_conditions,
    validate_rule,
)
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_supported, required
from headgate.kube.validation.labels import validate_label_selector
from headgate.kube.validation.object_meta import validate_object_meta
from headgate.kube.validation.values import are_duplicates, validate_one_of, validate_text

Object = dict[str, Any]

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_IDENTIFIER: Final = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_MAX_ANNOTATIONS: Final = 20


def _validate_path_segment(value: str, path: str) -> FieldErrors:
    return validate_text(lambda text: names.name_is_path_segment(text, False), value, path)


def _validate_meta(obj: Object) -> FieldErrors:
    return validate_object_meta(
        obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain, kube_finalizers=False
    )


def validate_admission_policy(obj: Object) -> FieldErrors:
    spec = obj.get("spec") or {}
    errors = _validate_meta(obj)
    policy = spec.get("failurePolicy")
    errors += (
        [required("spec.failurePolicy")]
        if policy is None
        else validate_one_of(policy, "spec.failurePolicy", FAILURE_POLICIES)
    )
    if spec.get("paramKind") is not None:
        errors += _validate_param_kind(spec["paramKind"], "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += _validate_match_resources(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    errors += validate_match_conditions(spec.get("matchConditions") or [], "spec.matchConditions")
    for i, variable in enumerate(spec.get("variables") or ()):
        errors += _validate_variable(variable, f"spec.variables[{i}]")
    return errors + _validate_checks(obj, spec)


def _validate_checks(obj: Object, spec: Object) -> FieldErrors:
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        return [required(f"spec.{field}", text) for field in ("validations", "auditAnnotations")]
    errors: FieldErrors = []
    for i, validation in enumerate(validations):
        errors += _validate_validation(validation, f"spec.validations[{i}]")
    if len(annotations) > _MAX_ANNOTATIONS:
        text = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", annotations, text))
    seen: set[str] = set()
    for i, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{i}]", annotation.get("key", "")
        name = obj["metadata"].get("name", "")
        if name:
            errors += validate_text(names.is_qualified_name, f"{name}/{key}", f"{path}.key")
        else:
            errors.append(invalid(f"{path}.key", key, "requires metadata.name be non-empty"))
        if not annotation.get("valueExpression", "").strip():
            errors.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
        if key in seen:
            errors.append(duplicate(f"{path}.key", key))
        seen.add(key)
    return errors


def _validate_param_kind(kind: Object, path: str) -> FieldErrors:
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    errors: FieldErrors = []
    field_path = f"{path}.apiVersion"
    if not version:
        errors.append(required(field_path))
    elif version.count("/") > 1:
        errors.append(invalid(field_path, version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, short = version.rpartition("/")
        if group and (messages := names.is_dns1123_subdomain(group)):
            errors.append(invalid(field_path, group, ",".join(messages)))
        if not short:
            errors.append(invalid(field_path, version, "version must be specified"))
        elif messages := names.is_dns1035_label(short):
            errors.append(invalid(field_path, short, ",".join(messages)))
    if not name:
        errors.append(required(f"{path}.kind"))
    elif messages := names.is_dns1035_label(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(messages)
        errors.append(invalid(f"{path}.kind", name, text))
    return errors


def _validate_match_resources(match: Object, path: str) -> FieldErrors:
    policy = match.get("matchPolicy")
    field_path = f"{path}.matchPolicy"
    errors = [required(field_path)] if policy is None else validate_one_of(policy, field_path, MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        field_path = f"{path}.{field}"
        errors += (
            [required(field_path)] if match.get(field) is None else validate_label_selector(match[field], field_path)
        )
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(field) or ()):
            resource_names = rule.get("resourceNames") or []
            for j, name in enumerate(resource_names):
                field_path = f"{path}.{field}[{i}].resourceNames[{j}]"
                errors += _validate_path_segment(name, field_path)
                if name in resource_names[:j]:
                    errors.append(duplicate(field_path, name))
            errors += validate_rule(rule, f"{path}.{field}[{i}]")
    return errors


def _validate_variable(variable: Object, path: str) -> FieldErrors:
    name = variable.get("name", "")
    errors: FieldErrors = []
    if not name.strip():
        errors.append(required(f"{path}.name", "name is not specified"))
    elif _IDENTIFIER.fullmatch(name) is None:
        errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not variable.get("expression", "").strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    return errors


def _validate_validation(validation: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if not validation.get("expression", "").strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    expression, message = validation.get("messageExpression", ""), validation.get("message", "")
    if expression and not expression.strip():
        errors.append(invalid(f"{path}.messageExpression", expression, "must be non-empty if specified"))
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif re.search("[\n\r]", message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if validation.get("reason") is not None:
        errors += validate_one_of(validation["reason"], f"{path}.reason", _REASONS)
    return errors


def validate_admission_policy_status(obj: Object) -> FieldErrors:
    return validate_conditions((obj.get("status") or {}).get("conditions") or [], "status.conditions")


def validate_admission_policy_binding(obj: Object) -> FieldErrors:
    spec = obj.get("spec") or {}
    name, actions = spec.get("policyName", ""), spec.get("validationActions") or []
    errors = _validate_meta(obj)
    errors += (
        validate_text(names.is_dns1123_subdomain, name, "spec.policyName") if name else [required("spec.policyName")]
    )
    if spec.get("paramRef") is not None:
        errors += _validate_param_ref(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        errors += _validate_match_resources(spec["matchResources"], "spec.matchResources")
    path = "spec.validationActions"
    for i, (action, repeated) in enumerate(zip(actions, are_duplicates(actions), strict=True)):
        errors += validate_one_of(action, f"{path}[{i}]", _ACTIONS)
        if repeated:
            errors.append(duplicate(f"{path}[{i}]", action))
    if {"Deny", "Warn"} <= set(actions):
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response"
            " and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, text))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


def _validate_param_ref(reference: Object, path: str) -> FieldErrors:
    name, selector = reference.get("name", ""), reference.get("selector")
    errors: FieldErrors = []
    if name:
        errors += _validate_path_segment(name, f"{path}.name")
        if selector is not None:
            errors.append(forbidden(f"{path}.name", _EXCLUSIVE))
    if selector is not None:
        errors += validate_label_selector(selector, f"{path}.selector")
        if name:
            errors.append(forbidden(f"{path}.selector", _EXCLUSIVE))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction") or ""
    if not action:
        errors.append(required(f"{path}.parameterNotFoundAction"))
    elif action not in ("Deny", "Allow"):
        errors.append(not_supported(f"{path}.parameterNotFoundAction", action, ["Deny", "Allow"]))
    return errors
