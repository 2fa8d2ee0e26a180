"""Field selectors: the text of ``?fieldSelector=``, such as ``spec.nodeName=n1,status.phase!=Failed``.

:func:`parse_field_selector` returns a :class:`FieldSelector` or the error text of the API server. ``apiserver/kinds/``
defines the selectable fields of each kind and their values. Label selectors are in ``kube/labels.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Literal

import msgspec

_TERM: Final = re.compile(r"((?:\\.|[^\\,])*\\?)(?:,|$)", re.DOTALL)
_OPERATOR: Final = re.compile("!=|==|=")
_TO_ESCAPE: Final = re.compile(r"[\\,=]")


class FieldRequirement(msgspec.Struct, frozen=True):
    field: str
    operator: Literal["=", "!="]
    value: str

    def matches(self, fields: Mapping[str, str]) -> bool:
        """An absent field has the empty value."""
        return (fields.get(self.field, "") == self.value) is (self.operator == "=")

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{escape_value(self.value)}"


Transform = Callable[[str, str], tuple[str, str] | str]
"""Rewrites one ``(field, value)``; two empty texts drop the requirement; a plain string is an error text."""


class FieldSelector(msgspec.Struct, frozen=True):
    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(requirement.matches(fields) for requirement in self.requirements)

    @property
    def is_everything(self) -> bool:
        return not self.requirements

    def exact(self, field: str) -> str | None:
        """The value that ``field`` must have, if the selector requires one."""
        for each in self.requirements:
            if each.field == field and each.operator == "=":
                return each.value
        return None

    def transform(self, rewrite: Transform) -> FieldSelector | str:
        """Every requirement rewritten, or the first error."""
        rewritten = []
        for each in self.requirements:
            result = rewrite(each.field, each.value)
            if isinstance(result, str):
                return result
            field, value = result
            if field or value:
                rewritten.append(FieldRequirement(field, each.operator, value))
        return FieldSelector(tuple(rewritten))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = FieldSelector()


def escape_value(value: str) -> str:
    return _TO_ESCAPE.sub(r"\\\g<0>", value)


@lru_cache(maxsize=256)
def parse_field_selector(text: str) -> FieldSelector | str:
    """Parses the text of a selector. A returned string is the error."""
    requirements = []
    for term in sorted(_split(text)):
        operator = _OPERATOR.search(term)
        if operator is None:
            return f"invalid selector: '{text}'; can't understand '{term}'"
        value = _unescape(term[operator.end() :])
        if isinstance(value, _Problem):
            return value.text
        field = term[: operator.start()]
        if field or value:
            requirements.append(FieldRequirement(field, "!=" if operator.group() == "!=" else "=", value))
    return FieldSelector(tuple(requirements))


class _Problem(msgspec.Struct, frozen=True):
    text: str


def _split(text: str) -> list[str]:
    """The terms between commas; an escaped comma is part of a term and keeps its backslash."""
    return [term for term in _TERM.findall(text) if term]


def _unescape(text: str) -> str | _Problem:
    if not _TO_ESCAPE.search(text):
        return text
    out = []
    characters = iter(text)
    for char in characters:
        if char == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                return _Problem(f"invalid field selector: invalid escape sequence: \\{escaped}")
            out.append(escaped)
        elif char in ",=":
            # The error text of the API server has the code of the character, not the character.
            return _Problem(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    return "".join(out)
