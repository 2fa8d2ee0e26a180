"""Validation of labels and of label selectors in any field.

The API server iterates maps in no fixed order; here errors are in the order of the document. ``kube/labels.py`` matches
selectors; ``kube/validation/object_meta.py`` calls this module for the labels of metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required
from headgate.kube.labels import from_label_selector
from headgate.kube.names import is_qualified_name, is_valid_label_value
from headgate.kube.validation.go_values import go_named_string

Object = dict[str, Any]


def validate_label_name(name: str, path: str) -> FieldErrors:
    return [invalid(path, name, message) for message in is_qualified_name(name)]


def validate_labels(labels: Mapping[str, str] | None, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for key, value in labels.items() if labels else ():
        errors += validate_label_name(key, path)
        errors += [invalid(path, value, message) for message in is_valid_label_value(value)]
    return errors


def validate_label_selector(selector: Object | None, path: str, *, any_value: bool = False) -> FieldErrors:
    """``any_value`` allows invalid label values, which objects may have that were stored before the rule existed."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        errors += validate_requirement(expression, f"{path}.matchExpressions[{index}]", any_value=any_value)
    return errors


def validate_requirement(
    expression: Object, path: str, *, any_value: bool = False, any_operator: bool = False
) -> FieldErrors:
    values = expression.get("values") or ()
    errors = validate_operator(expression, path, any_operator=any_operator)
    errors += validate_label_name(expression.get("key", ""), f"{path}.key")
    if not any_value:
        for index, value in enumerate(values):
            errors += [invalid(f"{path}.values[{index}]", value, each) for each in is_valid_label_value(value)]
    return errors


def validate_operator(expression: Object, path: str, *, any_operator: bool) -> FieldErrors:
    """Whether the values of one requirement match its operator; ``any_operator`` allows unknown operators."""
    errors: FieldErrors = []
    operator = expression.get("operator", "")
    values = expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    elif not any_operator:
        errors.append(invalid(f"{path}.operator", go_named_string(operator), "not a valid selector operator"))
    return errors


def has_invalid_selector_value(selector: Mapping[str, Any] | None) -> bool:
    """Whether an expression of a stored selector has a value that is invalid now."""
    return any(
        names.is_valid_label_value(value)
        for requirement in (selector or {}).get("matchExpressions") or ()
        for value in requirement.get("values") or ()
    )


def is_empty_selector(selector: Mapping[str, Any] | None) -> bool:
    """Whether the selector has no requirement and so selects everything."""
    return not (selector or {}).get("matchLabels") and not (selector or {}).get("matchExpressions")


def validate_selector_matches_template(
    selector: dict[str, Any] | None, template: Mapping[str, Any], path: str
) -> FieldErrors:
    """A workload must select the pods that it creates. ``path`` is the path of the template."""
    labels = template.get("metadata", {}).get("labels")
    # An invalid selector is reported elsewhere.
    if validate_label_selector(selector, "") or from_label_selector(selector).matches(labels):
        return []
    return [invalid(f"{path}.metadata.labels", labels, "`selector` does not match template `labels`")]
