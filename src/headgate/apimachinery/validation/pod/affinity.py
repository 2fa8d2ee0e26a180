"""Validation of node affinity and pod affinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery.validation.pod.options import PodOptions
from headgate.apimachinery.validation.pod.topology_spread import validate_label_keys
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required
from headgate.kube.names import is_dns1123_label, is_dns1123_subdomain, is_valid_label_value
from headgate.kube.validation.go_values import go_named_string
from headgate.kube.validation.labels import validate_label_name, validate_label_selector

Object = dict[str, Any]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Object, path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    node = affinity.get("nodeAffinity") or {}
    if node.get(REQUIRED) is not None:
        field_path = f"{path}.nodeAffinity.{REQUIRED}"
        errors += validate_node_selector(node[REQUIRED], field_path, any_value=options.any_node_affinity_value)
    for index, term in enumerate(node.get(PREFERRED) or ()):
        field_path = f"{path}.nodeAffinity.{PREFERRED}[{index}]"
        errors += _validate_weight(term, field_path)
        # An invalid value in a preference gives a warning, not an error.
        errors += _validate_node_term(term.get("preference") or {}, f"{field_path}.preference", any_value=True)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        for index, term in enumerate(pods.get(REQUIRED) or ()):
            errors += _validate_pod_term(term, f"{path}.{kind}.{REQUIRED}[{index}]", options)
        for index, term in enumerate(pods.get(PREFERRED) or ()):
            field_path = f"{path}.{kind}.{PREFERRED}[{index}]"
            errors += _validate_weight(term, field_path)
            errors += _validate_pod_term(term.get("podAffinityTerm") or {}, f"{field_path}.podAffinityTerm", options)
    return errors


def _validate_weight(term: Object, path: str) -> FieldErrors:
    weight = term.get("weight", 0)
    return [] if 0 < weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(selector: Object, path: str, *, any_value: bool = False) -> FieldErrors:
    """Also for volumes and devices. ``any_value`` allows invalid label values."""
    terms: Sequence[Object] = selector.get("nodeSelectorTerms") or ()
    field_path = f"{path}.nodeSelectorTerms"
    if not terms:
        return [required(field_path, "must have at least one node selector term")]
    errors: FieldErrors = []
    for index, term in enumerate(terms):
        errors += _validate_node_term(term, f"{field_path}[{index}]", any_value=any_value)
    return errors


def _validate_node_term(term: Object, path: str, *, any_value: bool) -> FieldErrors:
    errors: FieldErrors = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        errors += _validate_expression(expression, f"{path}.matchExpressions[{index}]", any_value)
    for index, expression in enumerate(term.get("matchFields") or ()):
        errors += _validate_field_expression(expression, f"{path}.matchFields[{index}]")
    return errors


def _validate_expression(expression: Object, path: str, any_value: bool) -> FieldErrors:
    errors: FieldErrors = []
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", go_named_string(operator), "not a valid selector operator"))
    errors += validate_label_name(expression.get("key", ""), f"{path}.key")
    if not any_value:
        for index, value in enumerate(values):
            errors += [invalid(f"{path}.values[{index}]", value, each) for each in is_valid_label_value(value)]
    return errors


def _validate_field_expression(expression: Object, path: str) -> FieldErrors:
    """``metadata.name`` is the only field that can be selected."""
    errors: FieldErrors = []
    operator, values = expression.get("operator", ""), expression.get("values") or ()
    key = expression.get("key", "")
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", go_named_string(operator), "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return errors
    for index, value in enumerate(values):
        errors += [invalid(f"{path}.values[{index}]", value, each) for each in is_dns1123_subdomain(value)]
    return errors


def _validate_pod_term(term: Object, path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    selector = term.get("labelSelector")
    any_value = options.any_affinity_value
    errors += validate_label_selector(selector, f"{path}.labelSelector", any_value=any_value)
    errors += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector", any_value=any_value)
    for namespace in term.get("namespaces") or ():
        errors += [invalid(f"{path}.namespace", namespace, message) for message in is_dns1123_label(namespace)]
    errors += validate_label_keys(term.get("matchLabelKeys"), term.get("mismatchLabelKeys"), selector, path)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + validate_label_name(key, f"{path}.topologyKey")
