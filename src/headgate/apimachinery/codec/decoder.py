"""Converts a plain JSON value to an object of a type, as Go's strict decoder does, and reports unknown fields.

The result is in *normal form*: values that Go does not distinguish from an absent field are absent (nulls, zeros and
empty structs that are not behind a pointer, empty lists and maps unless the server always sends them); quantities,
times and base64 are as Kubernetes writes them (``1000m`` becomes ``1``); unknown fields are removed. All dicts and
lists are new, except in raw values, which are shared.

Every type is compiled once into a closure ``(value, report, path)``. The path is a chain of pairs that ends in None,
innermost key first, and becomes a text only in an error message. The messages are those of Go's decoder. ``encoder.py``
is the reverse, ``scalars.py`` decodes scalars, ``codec.py`` starts from bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from headgate.apimachinery.codec import scalars
from headgate.kube.field_errors import quote
from headgate.kube.schema import Field, Schemas, Type
from headgate.kube.serializer.json_decoder import MAX_REPORTED_DUPLICATES, DuplicateKeysObject

Path = tuple[Any, str | int] | None

ABSENT: Final = object()
"""The result for a value that is dropped."""


class DecodeReport:
    """The errors of one conversion.

    As in Go, the first value of a wrong type is recorded and decoding continues, but a value that the parser of a type
    rejects stops decoding: :class:`headgate.apimachinery.codec.scalars.FatalScalarError`.
    """

    __slots__ = ("_outer", "_root", "_schemas", "error", "strict_errors")

    def __init__(self, schemas: Schemas, root: Type, outer: tuple[DecodeReport, Path] | None = None) -> None:
        self._schemas = schemas
        self._root = root
        self._outer = outer  # for a value with a decoder of its own: the report and the path of that value
        self.strict_errors: list[str] = []
        self.error: str | None = None

    def separate(self) -> DecodeReport:
        """A separate report, for values whose errors have been reported already or are not reported."""
        return DecodeReport(self._schemas, self._root, self._outer)

    def nested(self, path: Path, root: Type) -> DecodeReport:
        """A separate report for a value at ``path`` that has a decoder of its own and is of the type ``root``."""
        return DecodeReport(self._schemas, root, (self, path))

    def add_strict_error(self, problem: str, path: Path, key: str) -> None:
        text = f"{problem} field {quote(_dotted((path, key)))}"
        if len(self.strict_errors) < MAX_REPORTED_DUPLICATES and text not in self.strict_errors:
            self.strict_errors.append(text)

    def fail(self, text: str) -> Any:
        if self.error is None:
            self.error = text
        return ABSENT

    def mismatch(self, path: Path, found: str, go_type: str) -> str:
        return f"json: cannot unmarshal {found} into {self._go_location(path)} of type {go_type}"

    def _go_location(self, path: Path) -> str:
        """The location of ``path`` in Go's messages: the fields, without indexes and keys, and the innermost struct of
        the outermost decoder."""
        parts = []
        report: DecodeReport | None = self
        while report is not None:
            parts.append(report._go_fields(path))
            report, path = report._outer or (None, None)
        names = [name for _, fields in reversed(parts) for name in fields]
        struct = next((struct for struct, fields in reversed(parts) if fields), "")
        return f"Go struct field {struct}.{'.'.join(names)}" if names else "Go value"

    def _go_fields(self, path: Path) -> tuple[str, list[str]]:
        """The innermost struct of ``path``, and its fields."""
        current_type, struct, names = self._root, "", []
        for key in _keys(path):
            if current_type.kind == "struct":
                field = self._schemas.fields[current_type.ref][str(key)]
                struct = current_type.ref.rpartition(".")[2]
                names += [field.embedded, field.name] if field.embedded else [field.name]
                current_type = field.type
            elif current_type.items is not None:
                current_type = current_type.items
        return struct, names


def _keys(path: Path) -> list[str | int]:
    keys = []
    while path is not None:
        path, key = path
        keys.append(key)
    return keys[::-1]


def _dotted(path: Path) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in _keys(path)).removeprefix(".")


Object = dict[str, Any]
Reader = Callable[[Any, DecodeReport, Path], Any]
# The name of a field, the Python class of values that need no conversion, whether zero values are kept, and the reader
# for values of other classes.
_Rule = tuple[str, type | None, bool, Reader]

_RESET_BY_NULL: Final = frozenset({"list", "map", "quantity", "time", "microtime"})
_MAX_CACHED_KEY_SETS: Final = 256  # per type; objects of a type often have the same fields


class Decoded(msgspec.Struct, frozen=True):
    """``strict_errors``: unknown and repeated fields in the order of the document."""

    obj: Object
    strict_errors: list[str] = []
    error: str | None = None


def convert(schemas: Schemas, type_name: str, value: Any) -> Decoded:
    """The JSON value as an object of the type ``type_name``."""
    report = DecodeReport(schemas, Type("struct", ref=type_name))
    try:
        obj = {} if value is None else _compiled(schemas).struct(type_name)(value, report, None)
    except scalars.FatalScalarError as problem:
        return Decoded({}, error=str(problem))
    if report.error is not None:
        return Decoded({}, error=report.error)
    return Decoded(obj, report.strict_errors)


@lru_cache(maxsize=8)
def _compiled(schemas: Schemas) -> _Compiler:
    return _Compiler(schemas)


class _Compiler:
    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._structs: dict[str, Reader] = {}

    def struct(self, name: str) -> Reader:
        if name not in self._structs:
            rules: dict[str, _Rule] = {}
            self._structs[name] = self._struct_reader(name, rules)
            rules.update({field.name: self._rule(field) for field in self._schemas.types[name].fields})
        return self._structs[name]

    def _rule(self, field: Field) -> _Rule:
        match field.type.kind:
            case "string":
                return field.name, str, field.pointer, self._reader(field.type)
            case "bool":
                return field.name, bool, field.pointer, self._reader(field.type)
            case "raw":
                return field.name, None, True, self._reader(field.type)
            case "time" | "microtime":  # a zero time is absent even behind a pointer: Go would write it as null
                return field.name, None, False, self._reader(field.type)
            case "quantity" | "intorstring" | "duration" if not field.pointer:
                return field.name, None, True, _without(self._reader(field.type), scalars.ZEROS[field.type.kind])
            case "list" | "map":
                # If the server always sends the field, an empty value has a field manager; see empty_collections.py.
                return field.name, None, field.pointer or field.omit == "never", self._reader(field.type)
            case _:
                return field.name, None, field.pointer, self._reader(field.type)

    def _reader(self, type: Type) -> Reader:
        match type.kind:
            case "struct":
                return self.struct(type.ref)
            case "list":
                return self._list_reader(type)
            case "map":
                return self._map_reader(type)
            case "either":
                return self._either_reader(type)
            case _:
                return _scalar_reader(type)

    def _struct_reader(self, name: str, rules: dict[str, _Rule]) -> Reader:
        go_type = _go_type(Type("struct", ref=name))
        rules_by_keys: dict[tuple[str, ...], list[_Rule]] = {}

        def rules_for(keys: tuple[str, ...]) -> list[_Rule]:
            wanted = [rules.get(key) or (key, None, True, _unknown) for key in keys]
            if len(rules_by_keys) < _MAX_CACHED_KEY_SETS and rules.keys() >= set(keys):
                rules_by_keys[keys] = wanted
            return wanted

        def read(value: Any, report: DecodeReport, path: Path) -> Any:
            if value.__class__ is not dict:
                if isinstance(value, DuplicateKeysObject):
                    return read(self._merge_duplicates(name, rules, value, report, path), report.separate(), path)
                return report.fail(report.mismatch(path, scalars.json_kind(value), go_type))
            out = {}
            keys = tuple(value)
            for (key, plain, keep, reader), item in zip(
                rules_by_keys.get(keys) or rules_for(keys), value.values(), strict=False
            ):
                if item.__class__ is plain:
                    if item or keep:
                        out[key] = item
                elif item is not None or reader is _unknown:
                    item = reader(item, report, (path, key))
                    if item is not ABSENT and (item or keep):
                        out[key] = item
            return out

        return read

    def _merge_duplicates(
        self, name: str, rules: dict[str, _Rule], value: DuplicateKeysObject, report: DecodeReport, path: Path
    ) -> Object:
        """Merges repeated keys as Go does: the later value is decoded into the earlier one."""
        fields, merged = self._schemas.fields[name], Object()
        for key, item in value.pairs:
            if key not in rules:
                report.add_strict_error("unknown", path, key)
                continue
            if key in merged:
                report.add_strict_error("duplicate", path, key)
                merged[key] = self._decode_into(fields[key].type, fields[key].pointer, merged[key], item)
            else:
                merged[key] = item
            if item is not None:
                rules[key][3](item, report, (path, key))
        return merged

    def _decode_into(self, type: Type, pointer: bool, old: Any, new: Any) -> Any:
        """The value after Go has decoded ``new`` into a variable that already has the value ``old``."""
        if new is None:
            return None if pointer or type.kind in _RESET_BY_NULL else old
        if isinstance(old, dict) and isinstance(new, dict) and type.kind in ("struct", "map"):
            fields = self._schemas.fields[type.ref] if type.kind == "struct" else {}
            merged = Object()
            for key, item in (*_pairs(old), *_pairs(new)):
                field = fields.get(key) if key in merged else None
                merged[key] = item if field is None else self._decode_into(field.type, field.pointer, merged[key], item)
            return merged
        if isinstance(old, list) and isinstance(new, list) and type.items is not None:
            both = [self._decode_into(type.items, False, *pair) for pair in zip(old, new, strict=False)]
            return both + new[len(both) :]
        return new

    def _list_reader(self, type: Type) -> Reader:
        items = type.items or Type("raw")
        reader, zero, go_type = self._reader(items), _zero_element(items), _go_type(type)
        plain = str if items.kind == "string" else None

        def read(value: Any, report: DecodeReport, path: Path) -> Any:
            if value.__class__ is not list:
                return report.fail(report.mismatch(path, scalars.json_kind(value), go_type))
            return [
                item if item.__class__ is plain else reader(item, report, (path, index)) if item is not None else zero()
                for index, item in enumerate(value)
            ]

        return read

    def _either_reader(self, type: Type) -> Reader:
        """For a Go type that is a struct or another value, such as JSONSchemaPropsOrBool. Its own decoder does not
        report unknown fields."""
        struct, other = self.struct(type.ref), type.items or Type("raw")
        rest, wanted = self._reader(other), bool if other.kind == "bool" else list

        def read(value: Any, report: DecodeReport, path: Path) -> Any:
            inner = report.nested(path, Type("struct", ref=type.ref) if isinstance(value, dict) else other)
            if isinstance(value, dict):
                out = struct(value, inner, None)
            elif isinstance(value, wanted):
                out = rest(value, inner, None)
            elif other.kind == "bool":
                return report.fail("boolean or JSON schema expected")
            else:
                return ABSENT
            return out if inner.error is None else report.fail(inner.error)

        return read

    def _map_reader(self, type: Type) -> Reader:
        items = type.items or Type("raw")
        reader, zero, go_type = self._reader(items), _zero_element(items), _go_type(type)
        plain = str if items.kind == "string" else None

        def read(value: Any, report: DecodeReport, path: Path) -> Any:
            if not isinstance(value, dict):
                return report.fail(report.mismatch(path, scalars.json_kind(value), go_type))
            if isinstance(value, DuplicateKeysObject):
                _report_duplicates(value, report, path)
            return {
                key: item
                if item.__class__ is plain
                else reader(item, report, (path, key))
                if item is not None
                else zero()
                for key, item in (value.pairs if isinstance(value, DuplicateKeysObject) else value.items())
            }

        return read


def _pairs(value: Object) -> list[tuple[str, Any]]:
    return value.pairs if isinstance(value, DuplicateKeysObject) else list(value.items())


def _report_duplicates(value: DuplicateKeysObject, report: DecodeReport, path: Path) -> None:
    seen = set()
    for key, _ in value.pairs:
        if key in seen:
            report.add_strict_error("duplicate", path, key)
        seen.add(key)


def _unknown(value: Any, report: DecodeReport, path: Path) -> Any:
    if path is not None:
        report.add_strict_error("unknown", path[0], str(path[1]))
    return ABSENT


def _scalar_reader(type: Type) -> Reader:
    parse, go_type = scalars.PARSERS[type.kind], _go_type(type)
    low, high = scalars.INTEGERS.get(type.kind, (0, -1))

    def read_integer(value: Any, report: DecodeReport, path: Path) -> Any:
        return value if value.__class__ is int and low <= value <= high else read(value, report, path)

    def read(value: Any, report: DecodeReport, path: Path) -> Any:
        try:
            return parse(value)
        except scalars.UnmarshalTypeError as problem:
            text = report.mismatch(path, problem.found, problem.go_type or go_type)
            if problem.fatal:
                raise scalars.FatalScalarError(text) from None
            return report.fail(text)
        except scalars.ScalarError as problem:
            return report.fail(str(problem))

    return read_integer if type.kind in scalars.INTEGERS else read


def _without(reader: Reader, zero: Any) -> Reader:
    """For structs with their own marshaller that are not pointers: their zero value is absent."""

    def read(value: Any, report: DecodeReport, path: Path) -> Any:
        item = reader(value, report, path)
        return ABSENT if item == zero and item.__class__ is zero.__class__ else item

    return read


def _zero_element(type: Type) -> Callable[[], Any]:
    """The value of a null in a list or map."""
    if type.kind in ("struct", "string"):
        return dict if type.kind == "struct" else str
    zero = scalars.ZEROS.get(type.kind)
    return lambda: zero


def _go_type(type: Type) -> str:
    if type.go:
        return type.go
    if type.kind == "struct":
        return ".".join(type.ref.split(".")[-2:])
    if type.items is not None:
        return ("[]" if type.kind == "list" else "map[string]") + _go_type(type.items)
    return scalars.GO_TYPES.get(type.kind, type.kind)
