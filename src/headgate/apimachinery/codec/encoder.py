"""The *wire form* of an object: what Go's encoder writes for it, as a Python dict with the fields in Go's order.

Required fields without a value are present: zeros, empty structs, and ``null`` for lists. Empty optional fields are
absent. Maps are sorted by key. The input is an object in the normal form of ``decoder.py``, or in wire form, which is
not changed. All dicts and lists of the result are new, except inside raw values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from headgate.apimachinery.codec import scalars
from headgate.kube.schema import Field, Schemas, Type

Object = dict[str, Any]
Writer = Callable[[Any], Any]

_ZEROS: Final[dict[str, Any]] = {**scalars.ZEROS, "string": "", "bytes": None}
_OMITTED: Final = object()
_MAX_CACHED_KEY_SETS: Final = 256  # per type; objects of a type often have the same fields


class _FieldRule(NamedTuple):
    name: str
    writer: Writer | None  # converts a value; None: the value is written as it is
    absent: Any  # written if there is no value; _OMITTED to write nothing
    keeps_zero: bool  # an empty value is written
    is_plain_struct: bool = False  # a struct that is not behind a pointer: written even when there is no value


def wire_form(schemas: Schemas, type_name: str, obj: Object) -> Object:
    """``obj`` of the type ``type_name`` as the server sends it, without ``kind`` and ``apiVersion``."""
    wire: Object = _compiled(schemas).struct(type_name)(obj)
    return wire


@lru_cache(maxsize=8)
def _compiled(schemas: Schemas) -> _Compiler:
    return _Compiler(schemas)


class _Compiler:
    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._structs: dict[str, Writer] = {}

    def struct(self, name: str) -> Writer:
        if name not in self._structs:
            rules: list[_FieldRule] = []
            self._structs[name] = _struct_writer(rules)
            rules.extend(self._rule(field) for field in self._schemas.types[name].fields)
        return self._structs[name]

    def _rule(self, field: Field) -> _FieldRule:
        kind, always = field.type.kind, field.omit == "never"
        writer = self._writer(field.type)
        if field.pointer or kind in ("list", "map"):
            return _FieldRule(field.name, writer, None if always else _OMITTED, always or field.pointer)
        if kind == "struct":
            return _FieldRule(field.name, writer, None, True, is_plain_struct=True)
        if kind in ("time", "microtime", "raw"):
            return _FieldRule(field.name, writer, _OMITTED if field.omit == "zero" else None, True)
        if always or kind in ("quantity", "intorstring", "duration"):
            return _FieldRule(field.name, writer, _ZEROS[kind], True)
        return _FieldRule(field.name, writer, _OMITTED, False)

    def _writer(self, type: Type) -> Writer | None:
        if type.kind == "struct":
            return self.struct(type.ref)
        if type.items is None:
            return None
        if type.kind == "either":
            return _either_writer(self.struct(type.ref), self._writer(type.items))
        items = self._writer(type.items)
        if type.kind == "list":
            return list if items is None else _list_writer(items)
        return _sorted if items is None else _map_writer(items)


def _struct_writer(rules: list[_FieldRule]) -> Writer:
    rules_by_keys: dict[tuple[str, ...], list[tuple[str, Writer | None, _FieldRule]]] = {}

    def rules_for(keys: tuple[str, ...]) -> list[tuple[str, Writer | None, _FieldRule]]:
        """The rules for an object with these fields: for them and for those that are always written, in Go's order."""
        present = frozenset(keys)
        found_rules = [
            (rule.name, rule.writer, rule)
            for rule in rules
            if rule.name in present or rule.absent is not _OMITTED or rule.is_plain_struct
        ]
        if len(rules_by_keys) < _MAX_CACHED_KEY_SETS:
            rules_by_keys[keys] = found_rules
        return found_rules

    def write(obj: Object) -> Object:
        keys = tuple(obj)
        found_rules = rules_by_keys.get(keys)
        get, out = obj.get, {}
        for name, writer, rule in rules_for(keys) if found_rules is None else found_rules:
            item = get(name)
            if item:
                out[name] = item if writer is None else writer(item)
            elif item is None:
                if rule.is_plain_struct and writer is not None:
                    out[name] = writer({})
                elif rule.absent is not _OMITTED:
                    out[name] = rule.absent
            elif rule.keeps_zero:
                out[name] = item if writer is None else writer(item)
        return out

    return write


def _list_writer(items: Writer) -> Writer:
    def write(value: list[Any]) -> list[Any]:
        return [items(item) for item in value]

    return write


def _either_writer(struct: Writer, other: Writer | None) -> Writer:
    def write(value: Any) -> Any:
        if isinstance(value, dict):
            return struct(value)
        return value if other is None or not isinstance(value, list) else other(value)

    return write


def _map_writer(items: Writer) -> Writer:
    def write(value: Object) -> Object:
        return {key: None if (item := value[key]) is None else items(item) for key in sorted(value)}

    return write


def _sorted(value: Object) -> Object:
    # Sorting the pairs would take six times as long, in one call into C, during which no other thread runs.
    return {key: value[key] for key in sorted(value)}
