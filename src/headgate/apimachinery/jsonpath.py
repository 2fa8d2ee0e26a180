"""JSONPath as in kubectl and the API server: one path, evaluated on one object.

``.spec.replicas``, ``.status.conditions[?(@.type=="Ready")].status``, ``.items[0:2]``, ``..name``. Parsing returns a
:class:`JsonPath` or the error text; evaluation never raises: a missing value is not found. Templates with several
paths, ``range`` and output formats are not supported.

The cost is bounded: a recursive descent visits each part of an object once, however many descents follow each other,
and every visited value is charged to a :class:`VisitBudget`. A path that exceeds it finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

Step = Callable[[list[Any], "VisitBudget"], list[Any]]

_MAX_INTEGER_DIGITS: Final = 308  # a longer number does not fit in a float64, and Python's int is slow or raises
MAX_RESULTS: Final = 10_000
MAX_VISITS: Final = 100_000
"""How many values one path may visit in one object."""
_WEIGHT_OF_LISTS: Final = 50
_WEIGHT_OF_DESCENT: Final = 2_000
_TERMINATORS: Final = frozenset(" \t\r\n.,[]$@{}")
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda left, right: bool(left < right),
    ">": lambda left, right: bool(left > right),
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<=": lambda left, right: bool(left <= right),
    ">=": lambda left, right: bool(left >= right),
}


class _PathError(Exception):
    """The path is invalid, or does not apply to this object."""


class VisitBudget:
    """How many more values may be visited. Several paths may share a budget."""

    __slots__ = ("remaining",)

    def __init__(self, limit: int = MAX_VISITS) -> None:
        self.remaining = limit

    def spend(self, count: int) -> None:
        self.remaining -= count
        if self.remaining < 0:
            raise _PathError("too many values to look at")


class JsonPath(NamedTuple):
    """``weight`` estimates how many values the path visits in an ordinary object."""

    steps: tuple[Step, ...]
    weight: int = 1

    def first(self, obj: Any, visits: VisitBudget | None = None) -> tuple[Any, ...]:
        """The first value as a tuple; empty if there is none, or if it takes too many visits."""
        budget = VisitBudget() if visits is None else visits
        path_budget = VisitBudget(min(budget.remaining, MAX_VISITS))
        before = path_budget.remaining
        try:
            return tuple(_run_steps(self.steps, [obj], path_budget)[:1])
        except _PathError:
            return ()
        finally:
            budget.remaining -= before - max(path_budget.remaining, 0)


def parse_path(text: str) -> JsonPath | str:
    """The path (without braces), or the error text."""
    try:
        steps = tuple(_Parser(f"{text}}}").steps())
        return JsonPath(steps, len(steps) + _WEIGHT_OF_LISTS * text.count("[") + _WEIGHT_OF_DESCENT * text.count(".."))
    except _PathError as problem:
        return str(problem)


def _run_steps(steps: Sequence[Step], values: list[Any], visits: VisitBudget) -> list[Any]:
    for step in steps:
        visits.spend(len(values) + 1)
        values = step(values, visits)
        if len(values) > MAX_RESULTS:
            raise _PathError("too many results")
    return values


class _Parser:
    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._position = 0
        self._descended = False  # the last step was a recursive descent

    def steps(self) -> Iterator[Step]:
        while True:
            rest = self._text[self._position : self._position + 3]  # three characters are enough to recognize a step
            descended, self._descended = self._descended, False
            if rest.startswith("}"):
                return
            if rest.startswith("[?("):
                yield self._filter()
            elif rest.startswith(".."):
                if descended:
                    raise _PathError("invalid multiple recursive descent")
                yield from self._descent()
            elif not rest or rest[0] in "\r\n":
                raise _PathError("unclosed action")
            elif rest[0] in " @$":
                self._position += 1
                self._descended = descended
            elif rest[0] == "[":
                yield from self._brackets()
            elif rest[0] in "\"'":
                yield _constant(self._quoted(rest[0]))
            elif rest[0] == ".":
                self._position += 1
                yield self._field()
            elif rest[0] in "+-" or rest[0].isdigit():
                yield _constant(self._number())
            elif rest[0] == "_" or rest[0].isalnum():
                yield self._word()
            else:
                raise _PathError(f"unrecognized character in action: U+{ord(rest[0]):04X} '{rest[0]}'")

    def _until_terminator(self) -> str:
        start = self._position
        while self._position < len(self._text):
            char = self._text[self._position]
            if char == "\\":
                self._position += 1
            elif char in _TERMINATORS:
                break
            self._position += 1
        return self._text[start : self._position]

    def _field(self) -> Step:
        name = self._until_terminator()
        return _wildcard if name == "*" else _field(name.replace("\\", ""))

    def _descent(self) -> Iterator[Step]:
        self._position += 2
        yield _descend
        self._descended = True
        next_char = self._text[self._position : self._position + 1]
        if next_char == "_" or next_char.isalnum():
            self._descended = False
            yield self._field()

    def _word(self) -> Step:
        start = self._position
        while self._position < len(self._text) and self._text[self._position] not in _TERMINATORS:
            self._position += 1
        word = self._text[start : self._position]
        if word in ("true", "false"):
            return _constant(word == "true")
        return _unknown_word

    def _number(self) -> float:
        start = self._position
        self._position += self._text[self._position] in "+-"
        while (
            self._text[self._position : self._position + 1].isdigit()
            or self._text[self._position : self._position + 1] == "."
        ):
            self._position += 1
        text = self._text[start : self._position]
        try:
            return float(text) if "." in text or len(text) > _MAX_INTEGER_DIGITS else int(text)
        except ValueError:
            raise _PathError(f"cannot parse number {text}") from None

    def _quoted(self, quote: str) -> str:
        start = self._position
        while True:
            self._position += 1
            char = self._text[self._position : self._position + 1]
            if not char or char == "\n":
                raise _PathError("unterminated quoted string")
            if char == quote and self._text[self._position - 1] != "\\":
                break
        self._position += 1
        return self._text[start + 1 : self._position - 1].replace("\\" + quote, quote).replace("\\\\", "\\")

    def _brackets(self) -> Iterator[Step]:
        end = self._text.find("]", self._position)
        line = self._text.find("\n", self._position)
        if end < 0 or 0 <= line < end:
            raise _PathError("unterminated array")
        text = self._text[self._position + 1 : end]
        self._position = end + 1
        choices = text.split(",")
        if len(choices) > 1:
            yield _union([tuple(_Parser(f"[{choice.strip(' ')}]}}").steps()) for choice in choices])
        elif len(text) > 1 and text[0] == text[-1] == "'" and "'" not in text[1:-1]:
            yield from _Parser(f".{text[1:-1]}}}").steps()
        else:
            yield _index_step(":" if text == "*" else text)

    def _filter(self) -> Step:
        start = self._position = self._position + 3
        begun = ended = False
        quote_char = ""
        while True:
            char = self._text[self._position : self._position + 1]
            self._position += 1
            if not char or char == "\n":
                raise _PathError("unterminated filter")
            if char in "\"'":
                if not begun:
                    begun, quote_char = True, char
                elif char == quote_char and self._text[self._position - 2] != "\\":
                    ended = True
            elif char == ")" and begun == ended:
                break
        if self._text[self._position : self._position + 1] != "]":
            raise _PathError("unclosed array expect ]")
        text = self._text[start : self._position - 1]
        self._position += 1
        found = _COMPARISON.fullmatch(text)
        if found is None:
            return _existence_filter(tuple(_Parser(f"{text}}}").steps()))
        left, right = (tuple(_Parser(f"{found[side]}}}").steps()) for side in (1, 3))
        return _comparison_filter(left, right, found[2])


def _constant(value: Any) -> Step:
    return lambda values, visits: [value] * len(values)


def _unknown_word(values: list[Any], visits: VisitBudget) -> list[Any]:
    raise _PathError("unrecognized identifier")


def _field(name: str) -> Step:
    return lambda values, visits: [value[name] for value in values if isinstance(value, dict) and name in value]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, str)) else []


def _wildcard(values: list[Any], visits: VisitBudget) -> list[Any]:
    out: list[Any] = []
    for value in values:
        parts = _parts(value)
        visits.spend(len(parts))
        out += parts
    return out


def _descend(values: list[Any], visits: VisitBudget) -> list[Any]:
    """Every object and list at or below the values, each once, in the order of the first visit.

    Without this rule, a part below several of the values would be found several times, and the number would grow
    with every further descent.
    """
    out: list[Any] = []
    seen: set[int] = set()
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if not isinstance(value, (dict, list)) or not value or id(value) in seen:
            continue
        seen.add(id(value))
        parts = _parts(value)
        visits.spend(len(parts) + 1)
        out.append(value)
        stack.extend(reversed(parts))
        if len(out) > MAX_RESULTS:
            raise _PathError("too many results")
    return out


def _union(choices: list[tuple[Step, ...]]) -> Step:
    def step(values: list[Any], visits: VisitBudget) -> list[Any]:
        out: list[Any] = []
        for choice in choices:
            found = _run_steps(choice, values, visits)
            visits.spend(len(found))
            out += found
        return out

    return step


def _index_step(text: str) -> Step:
    found = _SLICE.fullmatch(text)
    if found is None:
        raise _PathError(f"invalid array index {text}")
    if any(len(part or "") > 18 for part in found.groups()) or "-" in (found[1], (found[2] or "")[1:]):
        raise _PathError(f"array index {text} is not a number")
    first, last, stride = (None if part in (None, "", ":") else int(part.lstrip(":")) for part in found.groups())
    single = found[2] is None

    def step(values: list[Any], visits: VisitBudget) -> list[Any]:
        out: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise _PathError("not an array or slice")
            found = _slice(value, first, last, stride, single)
            visits.spend(len(found))
            out += found
        return out

    return step


def _slice(value: list[Any], first: int | None, last: int | None, stride: int | None, single: bool) -> list[Any]:
    size = len(value)
    start = first or 0
    end = start + 1 if single else size if last is None else last
    start += size if start < 0 else 0
    end += size if end < 0 or (single and end == 0) else 0
    if start == end:
        return []
    if not (0 <= start < size and 0 <= end <= size and start < end) or (stride is not None and stride <= 0):
        raise _PathError("array index out of bounds")
    return value[start : end : stride or 1]


def _filter_step(keep: Callable[[Any, VisitBudget], bool]) -> Step:
    def step(values: list[Any], visits: VisitBudget) -> list[Any]:
        out: list[Any] = []
        for value in values:
            if not isinstance(value, list):
                raise _PathError("not an array or slice and cannot be filtered")
            out += [item for item in value if keep(item, visits)]
        return out

    return step


def _existence_filter(path: tuple[Step, ...]) -> Step:
    def keep(item: Any, visits: VisitBudget) -> bool:
        try:
            return bool(_run_steps(path, [item], visits))
        except _PathError:
            if visits.remaining < 0:
                raise
            return False

    return _filter_step(keep)


def _comparison_filter(left: tuple[Step, ...], right: tuple[Step, ...], operator: str) -> Step:
    compare = _OPERATORS.get(operator)
    if compare is None:
        return _unknown_word

    def keep(item: Any, visits: VisitBudget) -> bool:
        sides = [_run_steps(side, [item], visits) for side in (left, right)]
        if not all(sides):
            return False
        if any(len(side) > 1 for side in sides):
            raise _PathError("can only compare one element at a time")
        first, second = sides[0][0], sides[1][0]
        if _comparison_type(first) != _comparison_type(second):
            raise _PathError("incompatible types for comparison")
        return compare(first, second)

    return _filter_step(keep)


def _comparison_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "other"
