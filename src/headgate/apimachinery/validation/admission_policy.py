"""The rules of ValidatingAdmissionPolicy and its binding. Expressions must be there, and are not compiled.

This server stores policies and does not enforce them, like webhook configurations.
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
from headgate.kube.validation.values import one_of, repeats, validate_text

Object = dict[str, Any]

_ACTIONS: Final = ("Audit", "Deny", "Warn")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_IDENTIFIER: Final = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_MAX_ANNOTATIONS: Final = 20


def _segment(value: str, path: str) -> FieldErrors:
    return validate_text(lambda text: names.name_is_path_segment(text, False), value, path)


def _meta(obj: Object) -> FieldErrors:
    return validate_object_meta(
        obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain, kube_finalizers=False
    )


def validate_admission_policy(obj: Object) -> FieldErrors:
    spec = obj.get("spec") or {}
    found = _meta(obj)
    policy = spec.get("failurePolicy")
    found += (
        [required("spec.failurePolicy")] if policy is None else one_of(policy, "spec.failurePolicy", FAILURE_POLICIES)
    )
    if spec.get("paramKind") is not None:
        found += _validate_param_kind(spec["paramKind"], "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        found.append(required("spec.matchConstraints"))
    else:
        found += _validate_match_resources(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            found.append(required("spec.matchConstraints.resourceRules"))
    found += validate_match_conditions(spec.get("matchConditions") or [], "spec.matchConditions")
    for i, variable in enumerate(spec.get("variables") or ()):
        found += _validate_variable(variable, f"spec.variables[{i}]")
    return found + _validate_checks(obj, spec)


def _validate_checks(obj: Object, spec: Object) -> FieldErrors:
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        return [required(f"spec.{field}", text) for field in ("validations", "auditAnnotations")]
    found: FieldErrors = []
    for i, validation in enumerate(validations):
        found += _validate_validation(validation, f"spec.validations[{i}]")
    if len(annotations) > _MAX_ANNOTATIONS:
        text = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        found.append(invalid("spec.auditAnnotations", annotations, text))
    seen: set[str] = set()
    for i, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{i}]", annotation.get("key", "")
        name = obj["metadata"].get("name", "")
        if name:
            found += validate_text(names.is_qualified_name, f"{name}/{key}", f"{path}.key")
        else:
            found.append(invalid(f"{path}.key", key, "requires metadata.name be non-empty"))
        if not annotation.get("valueExpression", "").strip():
            found.append(required(f"{path}.valueExpression", "valueExpression is not specified"))
        if key in seen:
            found.append(duplicate(f"{path}.key", key))
        seen.add(key)
    return found


def _validate_param_kind(kind: Object, path: str) -> FieldErrors:
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    found: FieldErrors = []
    at = f"{path}.apiVersion"
    if not version:
        found.append(required(at))
    elif version.count("/") > 1:
        found.append(invalid(at, version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, short = version.rpartition("/")
        if group and (messages := names.is_dns1123_subdomain(group)):
            found.append(invalid(at, group, ",".join(messages)))
        if not short:
            found.append(invalid(at, version, "version must be specified"))
        elif messages := names.is_dns1035_label(short):
            found.append(invalid(at, short, ",".join(messages)))
    if not name:
        found.append(required(f"{path}.kind"))
    elif messages := names.is_dns1035_label(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(messages)
        found.append(invalid(f"{path}.kind", name, text))
    return found


def _validate_match_resources(match: Object, path: str) -> FieldErrors:
    policy = match.get("matchPolicy")
    at = f"{path}.matchPolicy"
    found = [required(at)] if policy is None else one_of(policy, at, MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        at = f"{path}.{field}"
        found += [required(at)] if match.get(field) is None else validate_label_selector(match[field], at)
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(field) or ()):
            given = rule.get("resourceNames") or []
            for j, name in enumerate(given):
                at = f"{path}.{field}[{i}].resourceNames[{j}]"
                found += _segment(name, at)
                if name in given[:j]:
                    found.append(duplicate(at, name))
            found += validate_rule(rule, f"{path}.{field}[{i}]")
    return found


def _validate_variable(variable: Object, path: str) -> FieldErrors:
    name = variable.get("name", "")
    found: FieldErrors = []
    if not name.strip():
        found.append(required(f"{path}.name", "name is not specified"))
    elif _IDENTIFIER.fullmatch(name) is None:
        found.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not variable.get("expression", "").strip():
        found.append(required(f"{path}.expression", "expression is not specified"))
    return found


def _validate_validation(validation: Object, path: str) -> FieldErrors:
    found: FieldErrors = []
    if not validation.get("expression", "").strip():
        found.append(required(f"{path}.expression", "expression is not specified"))
    expression, message = validation.get("messageExpression", ""), validation.get("message", "")
    if expression and not expression.strip():
        found.append(invalid(f"{path}.messageExpression", expression, "must be non-empty if specified"))
    if message and not message.strip():
        found.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif re.search("[\n\r]", message.strip()):
        found.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if validation.get("reason") is not None:
        found += one_of(validation["reason"], f"{path}.reason", _REASONS)
    return found


def validate_admission_policy_status(obj: Object) -> FieldErrors:
    return validate_conditions((obj.get("status") or {}).get("conditions") or [], "status.conditions")


def validate_admission_policy_binding(obj: Object) -> FieldErrors:
    spec = obj.get("spec") or {}
    name, actions = spec.get("policyName", ""), spec.get("validationActions") or []
    found = _meta(obj)
    found += (
        validate_text(names.is_dns1123_subdomain, name, "spec.policyName") if name else [required("spec.policyName")]
    )
    if spec.get("paramRef") is not None:
        found += _validate_param_ref(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        found += _validate_match_resources(spec["matchResources"], "spec.matchResources")
    path = "spec.validationActions"
    for i, (action, repeated) in enumerate(zip(actions, repeats(actions), strict=True)):
        found += one_of(action, f"{path}[{i}]", _ACTIONS)
        if repeated:
            found.append(duplicate(f"{path}[{i}]", action))
    if {"Deny", "Warn"} <= set(actions):
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response"
            " and headers serves no purpose)"
        )
        found.append(invalid(path, actions, text))
    if not actions:
        found.append(required(path, "at least one validation action is required"))
    return found


def _validate_param_ref(reference: Object, path: str) -> FieldErrors:
    name, selector = reference.get("name", ""), reference.get("selector")
    found: FieldErrors = []
    if name:
        found += _segment(name, f"{path}.name")
        if selector is not None:
            found.append(forbidden(f"{path}.name", _EXCLUSIVE))
    if selector is not None:
        found += validate_label_selector(selector, f"{path}.selector")
        if name:
            found.append(forbidden(f"{path}.selector", _EXCLUSIVE))
    if not name and selector is None:
        found.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction") or ""
    if not action:
        found.append(required(f"{path}.parameterNotFoundAction"))
    elif action not in ("Deny", "Allow"):
        found.append(not_supported(f"{path}.parameterNotFoundAction", action, ["Deny", "Allow"]))
    return found
