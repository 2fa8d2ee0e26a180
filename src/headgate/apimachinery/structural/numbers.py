"""Bounds of numbers. An integer is compared with a bound that is truncated to an integer, as in kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.apimachinery.apply.path_elements import go_float
from headgate.apimachinery.structural.violations import Check, SchemaViolation, ViolationList
from headgate.kube import field_errors

_WHOLE: Final = 2**53
_TOLERANCE: Final = 1e-9


def compile_number(schema: Mapping[str, Any]) -> Check:
    multiple, low, high = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    above, below = bool(schema.get("exclusiveMinimum")), bool(schema.get("exclusiveMaximum"))

    def check(value: float, path: str, old: Any, out: ViolationList) -> int:
        whole = isinstance(value, int)
        if multiple is not None:
            _check_multiple(value, path, int(multiple) if whole else float(multiple), out)
        if low is not None:
            bound = int(low) if whole else float(low)
            if value < bound or (above and value == bound):
                words = "greater than" if above else "greater than or equal to"
                _refuse(value, path, f"{path} in body should be {words} {_shown(bound)}", out)
        if high is not None:
            bound = int(high) if whole else float(high)
            if value > bound or (below and value == bound):
                words = "less than" if below else "less than or equal to"
                _refuse(value, path, f"{path} in body should be {words} {_shown(bound)}", out)
        return 1

    return check


def _check_multiple(value: float, path: str, factor: float, out: ViolationList) -> None:
    if factor <= 0:
        message = f"factor MultipleOf declared for {path} must be positive: {_shown(factor)}"
        _refuse(factor, path, message, out)
        return
    if isinstance(factor, int):
        fits = int(value) % factor == 0
    else:
        quotient = 1 / factor * value if factor < 1 else value / factor
        fits = _is_whole(quotient)
    if not fits:
        _refuse(value, path, f"{path} in body should be a multiple of {_shown(factor)}", out)


def _is_whole(number: float) -> bool:
    """Whole, or above a whole number by no more than the error of a float."""
    if not -_WHOLE <= number <= _WHOLE:
        return False
    cut = float(int(number))
    if number == cut or number == 0 or cut == 0:
        return number == cut
    return abs(number - cut) / (abs(number) + abs(cut)) < _TOLERANCE


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else go_float(number)


def _refuse(value: float, path: str, message: str, out: ViolationList) -> None:
    out.append(SchemaViolation(message, path, _invalid(value, message)))


def _invalid(value: float, message: str) -> Callable[[str], field_errors.FieldError]:
    return lambda place: field_errors.invalid(place, value, message)
