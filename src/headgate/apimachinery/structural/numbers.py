"""Bounds of numbers. An integer is compared with a bound that is truncated to an integer, as in kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.apimachinery.apply.path_elements import go_float
from headgate.apimachinery.structural.violations import Check, SchemaViolation, ViolationList
from headgate.kube import field_errors

_MAX_EXACT_FLOAT: Final = 2**53
_TOLERANCE: Final = 1e-9


def compile_number(schema: Mapping[str, Any]) -> Check:
    multiple, low, high = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    above, below = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))

    def check(value: float, path: str, old: Any, out: ViolationList) -> int:
        is_integer = isinstance(value, int)
        if multiple is not None:
            _check_multiple(value, path, int(multiple) if is_integer else float(multiple), out)
        if low is not None:
            bound = int(low) if is_integer else float(low)
            if value < bound or (above and value == bound):
                relation = "greater than" if above else "greater than or equal to"
                _add_violation(value, path, f"{path} in body should be {relation} {_format(bound)}", out)
        if high is not None:
            bound = int(high) if is_integer else float(high)
            if value > bound or (below and value == bound):
                relation = "less than" if below else "less than or equal to"
                _add_violation(value, path, f"{path} in body should be {relation} {_format(bound)}", out)
        return 1

    return check


def _check_multiple(value: float, path: str, factor: float, out: ViolationList) -> None:
    if factor <= 0:
        message = f"factor MultipleOf declared for {path} must be positive: {_format(factor)}"
        _add_violation(factor, path, message, out)
        return
    if isinstance(factor, int):
        fits = int(value) % factor == 0
    else:
        quotient = 1 / factor * value if factor < 1 else value / factor
        fits = _is_whole(quotient)
    if not fits:
        _add_violation(value, path, f"{path} in body should be a multiple of {_format(factor)}", out)


def _is_whole(number: float) -> bool:
    """An integer, apart from the rounding error of a float."""
    if not -_MAX_EXACT_FLOAT <= number <= _MAX_EXACT_FLOAT:
        return False
    truncated = float(int(number))
    if number == truncated or number == 0 or truncated == 0:
        return number == truncated
    return abs(number - truncated) / (abs(number) + abs(truncated)) < _TOLERANCE


def _format(number: float) -> str:
    return str(number) if isinstance(number, int) else go_float(number)


def _add_violation(value: float, path: str, message: str, out: ViolationList) -> None:
    out.append(SchemaViolation(message, path, _invalid(value, message)))


def _invalid(value: float, message: str) -> Callable[[str], field_errors.FieldError]:
    return lambda place: field_errors.invalid(place, value, message)
