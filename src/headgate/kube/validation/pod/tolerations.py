"""Rules for tolerations: in a pod, in its old annotation, and for an update, which may only add them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.kube.errors import FieldErrors, forbidden, invalid, not_supported
from headgate.kube.names import is_valid_label_value
from headgate.kube.validation.go_values import named
from headgate.kube.validation.labels import validate_label_name

Object = dict[str, Any]

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS: Final = ("key", "operator", "value", "effect")


def validate_tolerations(tolerations: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator, _, effect = (toleration.get(field, "") for field in _FIELDS)
        if key:
            errors += validate_label_name(key, f"{at}.key")
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{at}.operator", named(operator), detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", named(effect), detail))
        errors += _validate_value(toleration, at)
        if effect and effect not in EFFECTS:
            errors.append(not_supported(f"{at}.effect", named(effect), EFFECTS))
    return errors


def _validate_value(toleration: Object, path: str) -> FieldErrors:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    at = f"{path}.operator"
    if operator in ("Equal", ""):
        complaints = is_valid_label_value(value)
        return [invalid(at, value, ";".join(complaints))] if complaints else []
    if operator == "Exists":
        detail = "value must be empty when `operator` is 'Exists'"
        return [invalid(at, value, detail)] if value else []
    if operator not in ("Lt", "Gt"):
        return [not_supported(at, named(operator), ("Equal", "Exists"))]
    # Comparisons are behind a gate that is off in v1.35; the list of what is supported names them all the same.
    return [not_supported(at, named(operator), ("Equal", "Exists", "Lt", "Gt"))]


def validate_only_added_tolerations(new: Sequence[Object], old: Sequence[Object], path: str) -> FieldErrors:
    kept = {tuple(each.get(field, "") for field in _FIELDS) for each in new}
    if any(tuple(each.get(field, "") for field in _FIELDS) not in kept for each in old):
        return [forbidden(path, "existing toleration can not be modified except its tolerationSeconds")]
    return validate_tolerations(new, path)
