"""How much work the schema of a custom kind adds to a request, computed once per CustomResourceDefinition.

A short object may get long defaults, and each of its values may be checked against many alternatives or by a large
pattern. :class:`SchemaCost` estimates this work as a number of bytes: the size of a body without defaults and
alternatives that takes as long. The server runs requests with much work in the worker thread
(``apiserver/work_estimator.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.structural.patterns import pattern_states
from headgate.apimachinery.structural.schema import ABSENT, StructuralSchema

_CHECKS_PER_BYTE: Final = 2  # so many checks take as long as one byte of a body
_STEPS_PER_BYTE: Final = 300  # so many steps of the automaton of a pattern take as long as one byte of a body
_FIELD_BYTES: Final = 4  # quotes, a colon, a comma
_ALTERNATIVES: Final = ("allOf", "anyOf", "oneOf")


class SchemaCost(msgspec.Struct, frozen=True):
    """``single_default_bytes``: the size of all defaults of fields that an object has at most once.
    ``repeated_default_bytes``: the largest size of the defaults of one list item or one map value. ``checks``: the
    largest number of checks of one value. ``pattern_states``: the states of the automaton of the largest pattern.
    """

    single_default_bytes: int
    repeated_default_bytes: int
    checks: int
    pattern_states: int

    def bytes_with_defaults(self, data: bytes) -> int:
        """The largest possible size of the JSON object ``data`` with its defaults."""
        size = len(data) + self.single_default_bytes
        if self.repeated_default_bytes:
            size += self.repeated_default_bytes * (data.count(b"{") + data.count(b"null"))
        return size

    def work_bytes(self, data: bytes) -> int:
        """The largest possible work of defaulting and validating the JSON object ``data``."""
        values = data.count(b",") + data.count(b"{") + data.count(b"[")
        checks = values * self.checks // _CHECKS_PER_BYTE
        return self.bytes_with_defaults(data) + checks + len(data) * self.pattern_states // _STEPS_PER_BYTE


def max_cost(costs: Collection[SchemaCost]) -> SchemaCost:
    """The largest cost of the schemas of all versions: an object may be converted, and is defaulted in each version."""
    return SchemaCost(
        max(each.single_default_bytes for each in costs),
        max(each.repeated_default_bytes for each in costs),
        max(each.checks for each in costs),
        max(each.pattern_states for each in costs),
    )


def schema_cost(schema: Mapping[str, Any], node: StructuralSchema) -> SchemaCost:
    """``node`` is the parsed ``schema``."""
    single, repeated = _DefaultSizes().of_absent_fields(node, is_repeated=False)
    states = max(map(pattern_states, patterns_of(schema)), default=0)
    return SchemaCost(single, repeated, _max_checks(schema, 0), states)


def patterns_of(schema: Mapping[str, Any]) -> set[str]:
    return {below["pattern"] for below in all_schemas(schema) if below.get("pattern")}


class _DefaultSizes:
    """The sizes of defaults that have defaults themselves, each computed once."""

    def __init__(self) -> None:
        self._default_bytes: Final[dict[int, int]] = {}  # by id of the node

    def of_absent_fields(self, node: StructuralSchema, *, is_repeated: bool) -> tuple[int, int]:
        """The size of all defaults at and below ``node`` that an object has once, and the largest size of those that it
        may have repeatedly."""
        if not node.has_defaults:
            return 0, 0
        own = self._added_to({}, node)
        single, repeated = (0, own) if is_repeated else (own, 0)
        for field in node.properties.values():
            field_single, field_repeated = self.of_absent_fields(field, is_repeated=is_repeated)
            single, repeated = single + field_single, max(repeated, field_repeated)
        for below in (node.additional, node.items):
            if below is not None:
                default = 0 if below.default is ABSENT else self._with_defaults(below)
                repeated = max(repeated, default, self.of_absent_fields(below, is_repeated=True)[1])
        return single, repeated

    def _with_defaults(self, node: StructuralSchema) -> int:
        """The size of the default of ``node``, with the defaults of what is absent in it."""
        known = self._default_bytes.get(id(node))
        if known is None:
            known = self._default_bytes[id(node)] = node.default_bytes + self._added_to(node.default, node)
        return known

    def _added_to(self, value: Any, node: StructuralSchema) -> int:
        if not node.has_defaults:
            return 0
        if isinstance(value, list):
            return 0 if node.items is None else sum(self._added_to(item, node.items) for item in value)
        if not isinstance(value, dict):
            return 0
        absent = sum(
            len(name) + _FIELD_BYTES + self._with_defaults(field)
            for name, field in node.properties.items()
            if field.default is not ABSENT and name not in value
        )
        fields = ((below, node.field(name)) for name, below in value.items())
        return absent + sum(self._added_to(below, field) for below, field in fields if field is not None)


def _max_checks(schema: Mapping[str, Any], inherited: int) -> int:
    """``inherited``: checks by the alternatives of schemas above, which may concern any value below them."""
    alternatives = [each for keyword in _ALTERNATIVES for each in schema.get(keyword) or ()]
    if isinstance(schema.get("not"), dict):
        alternatives.append(schema["not"])
    inherited += sum(_own_checks(below) for each in alternatives for below in all_schemas(each))
    return max(
        _own_checks(schema) + inherited, max((_max_checks(below, inherited) for below in _parts(schema)), default=0)
    )


def _own_checks(schema: Mapping[str, Any]) -> int:
    others = sum(1 for each in schema.get("enum") or () if not isinstance(each, str))
    return 1 + len(schema.get("required") or ()) + others


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas of fields, items and values."""
    yield from (schema.get("properties") or {}).values()
    yield from (each for each in (schema.get("additionalProperties"), schema.get("items")) if isinstance(each, dict))


def all_schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schema and all schemas in it."""
    pending = [schema]
    while pending:
        each = pending.pop()
        yield each
        pending.extend(_parts(each))
        pending.extend(below for keyword in _ALTERNATIVES for below in each.get(keyword) or ())
        if isinstance(each.get("not"), dict):
            pending.append(each["not"])
