"""Validation of a list of standard conditions, ``metav1.Condition``."""

from __future__ import annotations

import re
from typing import Any, Final

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate, invalid, not_supported, required, too_long
from headgate.kube.validation.values import validate_text

Object = dict[str, Any]

_STATUSES: Final = ("False", "True", "Unknown")
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32 * 1024
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_ERROR: Final = names.regex_error(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def validate_conditions(conditions: list[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{path}[{i}].type", kind))
        seen.add(kind)
        errors += _validate_condition(condition, f"{path}[{i}]")
    return errors


def _validate_condition(condition: Object, path: str) -> FieldErrors:
    errors = validate_text(names.is_qualified_name, condition.get("type", ""), f"{path}.type")
    status, reason = condition.get("status", ""), condition.get("reason", "")
    generation = condition.get("observedGeneration", 0)
    if status not in _STATUSES:
        errors.append(not_supported(f"{path}.status", status, _STATUSES))
    if generation < 0:
        errors.append(invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{path}.reason"))
    else:
        if re.fullmatch(_REASON, reason) is None:
            errors.append(invalid(f"{path}.reason", reason, _REASON_ERROR))
        if len(reason.encode()) > _MAX_REASON:
            errors.append(too_long(f"{path}.reason", _MAX_REASON))
    if len(condition.get("message", "").encode()) > _MAX_MESSAGE:
        errors.append(too_long(f"{path}.message", _MAX_MESSAGE))
    return errors
