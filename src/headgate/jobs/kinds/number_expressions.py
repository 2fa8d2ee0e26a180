"""Numbers that a job kind computes from the fields of a job: constants, paths, products, minima, totals of a list.

``kind_reader.py`` reads an expression from a file. :func:`evaluate` never raises: a field that is missing gives None,
and a field that is no natural number gives a text that says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from headgate.jobs.kinds.job_fields import Object, Path, value_at

NumberOperation = Literal["constant", "path", "product", "sum", "min", "max", "each", "find"]
_COMBINE: Final[Mapping[str, Callable[[Iterable[int]], int]]] = {
    "product": math.prod,
    "sum": sum,
    "min": min,
    "max": max,
}
COMBINATIONS: Final = tuple(_COMBINE)


class NumberExpression(msgspec.Struct, frozen=True):
    """``constant``: the value ``number``. ``path``: the number at ``path``, otherwise ``number``. ``product``, ``sum``,
    ``min``, ``max``: of ``parts``; a product has no value if one part has none, the others leave such parts out.
    ``each``: the total of the only part over the elements of the list or map at ``path``. ``find``: the value of the
    only part in one element of the list or map at ``path`` of the job: the one whose field ``by`` (without it: whose
    key) is the name of the pod set's element."""

    operation: NumberOperation
    number: int | None = None
    path: Path = ()
    parts: tuple[NumberExpression, ...] = ()
    by: Path = ()


class ElementScope(msgspec.Struct, frozen=True):
    """Where an expression is evaluated: a job, the element of its list or map that ``each`` names (the job itself if
    there is none), and the name of that element."""

    job: Object
    element: Any
    name: str = ""


ONE: Final = NumberExpression("constant", 1)


def is_natural(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def elements(found: Any) -> list[tuple[str | int, Any]]:
    """The elements of a list with their indexes, or of a map with their keys in alphabetical order."""
    if isinstance(found, dict):
        return sorted(found.items())
    return list(enumerate(found)) if isinstance(found, list) else []


def evaluate(expression: NumberExpression, scope: ElementScope) -> int | str | None:
    """The number; None if no field has one; a text if a field has another value."""
    if expression.operation == "constant":
        return expression.number
    if expression.operation == "path":
        found = value_at(scope.element, expression.path)
        if found is None:
            return expression.number
        return found if is_natural(found) else f"{'.'.join(expression.path)} is {found!r}, which is not a number"
    if expression.operation == "find":
        return _find(expression, scope)
    if expression.operation == "each":
        listed = elements(value_at(scope.element, expression.path))
        scopes = [ElementScope(scope.job, element) for _, element in listed]
        return _combined("sum", [evaluate(expression.parts[0], each) for each in scopes])
    return _combined(expression.operation, [evaluate(each, scope) for each in expression.parts])


def natural(expression: NumberExpression, scope: ElementScope, default: int) -> int:
    """The number, or ``default`` if there is no natural number."""
    found = evaluate(expression, scope)
    return found if isinstance(found, int) and found >= 0 else default


def _combined(operation: str, values: list[int | str | None]) -> int | str | None:
    problem = next((each for each in values if isinstance(each, str)), None)
    if problem is not None:
        return problem
    numbers = [each for each in values if isinstance(each, int)]
    if operation == "product" and len(numbers) < len(values):
        return None
    return _COMBINE[operation](numbers) if numbers else None


def _find(expression: NumberExpression, scope: ElementScope) -> int | str | None:
    found = value_at(scope.job, expression.path)
    if not expression.by:
        element = found.get(scope.name) if isinstance(found, dict) else None
    else:
        listed = found if isinstance(found, list) else []
        element = next((each for each in listed if value_at(each, expression.by) == scope.name), None)
    return None if element is None else evaluate(expression.parts[0], ElementScope(scope.job, element, scope.name))
