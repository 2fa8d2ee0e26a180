"""Label selectors: the text of ``?labelSelector=`` and the ``matchLabels``/``matchExpressions`` object.

:func:`parse_selector` reads the text (``app=web,tier in (a,b),!old``) and returns a :class:`Selector` or the error text
of the API server; :func:`from_label_selector` reads the object. ``kube/validation/labels.py`` validates such an object.
``apimachinery/field_selectors.py`` has field selectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from headgate.kube import field_errors, names
from headgate.kube.integers import read_integer

Operator = Literal["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]

VALUE_OPERATORS: Final = ("=", "==", "in")
"""Operators that match exactly the listed values."""

_BINARY: Final = ("in", "notin", "=", "==", "!=", "gt", "lt")
_OPERATOR_OF_TOKEN: Final[dict[str, Operator]] = {
    "in": "in",
    "notin": "notin",
    "=": "=",
    "==": "==",
    "!=": "!=",
    ">": "gt",
    "<": "lt",
}
_OPERATOR_OF_EXPRESSION: Final[dict[str, Operator]] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}
_INFIX: Final = {"=": "=", "==": "==", "!=": "!=", "gt": ">", "lt": "<"}


def parse_int64(text: str) -> int | None:
    """The decimal integer in ``text``, if it fits in 64 bits."""
    number = read_integer(text)
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


class Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt" | "lt":
                return value is not None and self._compare(value)

    def _compare(self, value: str) -> bool:
        number = parse_int64(value)
        bound = parse_int64(self.values[0]) if len(self.values) == 1 else None
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "gt" else number < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case operator:
                return f"{self.key}{_INFIX[operator]}{','.join(sorted(self.values))}"


class Selector(msgspec.Struct, frozen=True):
    """All requirements together. No requirement selects everything, unless ``nothing`` is set."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        labels = labels or {}
        for requirement in self.requirements:  # noqa: SIM110 - called millions of times, and all() takes twice as long
            if not requirement.matches(labels):
                return False
        return True

    @property
    def is_everything(self) -> bool:
        return not self.requirements and not self.nothing

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def check_requirement(key: str, operator: str, values: Sequence[str], path: str = "") -> field_errors.FieldErrors:
    """The errors of a requirement, with the texts of the API server."""
    child = f"{path}." if path else ""
    found: field_errors.FieldErrors = []
    if messages := names.is_qualified_name(key):
        found.append(field_errors.invalid(f"{child}key", key, "; ".join(messages)))
    values_path = f"{child}values"
    match operator:
        case "in" | "notin":
            if not values:
                found.append(
                    field_errors.invalid(
                        values_path, list(values), "for 'in', 'notin' operators, values set can't be empty"
                    )
                )
        case "=" | "==" | "!=":
            if len(values) != 1:
                found.append(
                    field_errors.invalid(
                        values_path, list(values), "exact-match compatibility requires one single value"
                    )
                )
        case "exists" | "!":
            if values:
                found.append(
                    field_errors.invalid(
                        values_path, list(values), "values set must be empty for exists and does not exist"
                    )
                )
        case "gt" | "lt":
            if len(values) != 1:
                detail = "for 'Gt', 'Lt' operators, exactly one value is required"
                found.append(field_errors.invalid(values_path, list(values), detail))
            found += [
                field_errors.invalid(
                    f"{values_path}[{i}]", each, "for 'Gt', 'Lt' operators, the value must be an integer"
                )
                for i, each in enumerate(values)
                if parse_int64(each) is None
            ]
        case _:
            found.append(field_errors.not_supported(f"{child}operator", operator, (*_BINARY, "exists", "!")))
    for i, each in enumerate(values):
        if messages := names.is_valid_label_value(each):
            found.append(field_errors.invalid(f"{values_path}[{i}][{key}]", each, "; ".join(messages)))
    return found


def from_set(labels: Mapping[str, str]) -> Selector:
    """Selects objects with all these labels; an empty mapping selects everything."""
    return _sorted(Requirement(key, "=", (value,)) for key, value in labels.items())


def from_label_selector(selector: Mapping[str, Any] | None) -> Selector:
    """An absent selector selects nothing, an empty one everything, as in Kubernetes.

    The object must be validated. An unknown operator selects nothing.
    """
    if selector is None:
        return NOTHING
    requirements = [Requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _OPERATOR_OF_EXPRESSION.get(expression.get("operator", ""))
        if operator is None:
            return NOTHING
        requirements.append(Requirement(expression.get("key", ""), operator, tuple(expression.get("values") or ())))
    return _sorted(requirements)


def _sorted(requirements: Iterable[Requirement]) -> Selector:
    return Selector(tuple(sorted(requirements, key=lambda each: each.key)))


@lru_cache(maxsize=256)
def parse_selector(text: str) -> Selector | str:
    """Parses the text of a selector. A returned string is the error text of the API server."""
    try:
        return _sorted(_Parser(text.partition("\0")[0]).requirements())  # for the API server a NUL ends the text
    except _ParseError as problem:
        return problem.args[0] if problem.args else ""


class _ParseError(Exception):
    """Raised and caught in this module."""


_TOKEN: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!(),><]|[^ \t\r\n=!(),><]+|$)")
_PUNCTUATION: Final = frozenset(["==", "!=", "=", "!", "(", ")", ",", ">", "<", ""])


class _Parser:
    """Recursive descent over the tokens.

    ``in`` and ``notin`` are operators or identifiers, depending on the position.
    """

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text.rstrip(" \t\r\n")), ""]
        self._position = 0

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _next(self) -> str:
        token = self._tokens[self._position]
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._peek() == "":
            return found
        if self._peek() in _PUNCTUATION - {"!"}:
            raise _ParseError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        while True:
            found.append(self._requirement())
            token = self._next()
            if token == "":
                return found
            if token != ",":
                raise _ParseError(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() in _PUNCTUATION - {"!"}:
                raise _ParseError(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        key, operator, values = self._parts()
        if found := check_requirement(key, operator, values):
            raise _ParseError(f"unable to parse requirement: {field_errors.aggregate(found)}")
        return Requirement(key, operator, values)

    def _parts(self) -> tuple[str, Operator, tuple[str, ...]]:
        key = self._next()
        negated = key == "!"
        if negated:
            key = self._next()
        if key in _PUNCTUATION:
            raise _ParseError(f"unable to parse requirement: found '{key}', expected: identifier")
        if messages := names.is_qualified_name(key):
            problem = field_errors.invalid("<nil>", key, "; ".join(messages))
            raise _ParseError(f"unable to parse requirement: {problem}")
        if negated:
            return key, "!", ()
        if self._peek() in ("", ","):
            return key, "exists", ()
        token = self._next()
        operator = _OPERATOR_OF_TOKEN.get(token)
        if operator is None:
            raise _ParseError(f"unable to parse requirement: found '{token}', expected: {', '.join(_BINARY)}")
        return key, operator, self._set() if operator in ("in", "notin") else (self._exact(),)

    def _exact(self) -> str:
        if self._peek() in ("", ","):
            return ""
        token = self._next()
        if token in _PUNCTUATION:
            raise _ParseError(f"unable to parse requirement: found '{token}', expected: identifier")
        return token

    def _set(self) -> tuple[str, ...]:
        """``(a,b)``; a missing word between commas is the empty value."""
        token = self._next()
        if token != "(":
            raise _ParseError(f"unable to parse requirement: found '{token}' expected: '('")
        if self._peek() == ")":
            self._next()
            return ("",)
        if self._peek() in _PUNCTUATION - {","}:
            raise _ParseError(f"unable to parse requirement: found '{self._peek()}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            token = self._next()
            if token == ",":
                if not values or self._peek() in (",", ")"):
                    values.add("")
            elif token in _PUNCTUATION:
                raise _ParseError(f"unable to parse requirement: found '{token}', expected: ',', or identifier")
            else:
                values.add(token)
                if self._peek() not in (",", ")"):
                    raise _ParseError(f"unable to parse requirement: found '{self._peek()}', expected: ',' or ')'")
            if self._peek() == ")":
                self._next()
                return tuple(sorted(values))
