"""Validation of taints and tolerations. An update of a pod may only add tolerations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate.kube import names
from headgate.kube.field_errors import (
    FieldError,
    FieldErrors,
    FieldErrorType,
    forbidden,
    invalid,
    not_supported,
    required,
)
from headgate.kube.validation.go_values import go_named_string
from headgate.kube.validation.labels import validate_label_name
from headgate.kube.validation.values import validate_text

Object = dict[str, Any]

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS: Final = ("key", "operator", "value", "effect")


def validate_tolerations(tolerations: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, toleration in enumerate(tolerations):
        item_path = f"{path}[{index}]"
        key, operator, _, effect = (toleration.get(field, "") for field in _FIELDS)
        if key:
            errors += validate_label_name(key, f"{item_path}.key")
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{item_path}.operator", go_named_string(operator), detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{item_path}.effect", go_named_string(effect), detail))
        errors += _validate_value(toleration, item_path)
        if effect and effect not in EFFECTS:
            errors.append(not_supported(f"{item_path}.effect", go_named_string(effect), EFFECTS))
    return errors


def _validate_value(toleration: Object, path: str) -> FieldErrors:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    operator_path = f"{path}.operator"
    if operator in ("Equal", ""):
        messages = names.is_valid_label_value(value)
        return [invalid(operator_path, value, ";".join(messages))] if messages else []
    if operator == "Exists":
        detail = "value must be empty when `operator` is 'Exists'"
        return [invalid(operator_path, value, detail)] if value else []
    if operator not in ("Lt", "Gt"):
        return [not_supported(operator_path, go_named_string(operator), ("Equal", "Exists"))]
    # Lt and Gt are behind a gate that is off in v1.35, but the list of supported values contains them.
    return [not_supported(operator_path, go_named_string(operator), ("Equal", "Exists", "Lt", "Gt"))]


def validate_only_added_tolerations(new: Sequence[Object], old: Sequence[Object], path: str) -> FieldErrors:
    kept = {tuple(each.get(field, "") for field in _FIELDS) for each in new}
    if any(tuple(each.get(field, "") for field in _FIELDS) not in kept for each in old):
        return [forbidden(path, "existing toleration can not be modified except its tolerationSeconds")]
    return validate_tolerations(new, path)


def validate_taints(taints: list[Object], path: str) -> FieldErrors:
    found: FieldErrors = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        key, effect = taint.get("key", ""), taint.get("effect", "")
        found += validate_text(names.is_qualified_name, key, f"{path}[{i}].key")
        if messages := names.is_valid_label_value(taint.get("value", "")):
            found.append(invalid(f"{path}[{i}].value", taint["value"], ";".join(messages)))
        if not effect:
            found.append(required(f"{path}[{i}].effect"))
        elif effect not in EFFECTS:
            found.append(not_supported(f"{path}[{i}].effect", effect, EFFECTS))
        if (key, effect) in seen:
            text = "taints must be unique by key and effect pair"
            found.append(FieldError(FieldErrorType.DUPLICATE, f"{path}[{i}]", _taint_value(taint), text))
        seen.add((key, effect))
    return found


def _taint_value(taint: Object) -> Any:
    printed = {
        "Key": taint.get("key", ""),
        "Value": taint.get("value", ""),
        "Effect": taint.get("effect", ""),
        "TimeAdded": taint.get("timeAdded"),
    }
    return msgspec.Raw(msgspec.json.encode(printed))
