"""Objects in protobuf, read by the generated field numbers into the plain value that JSON would have given.

Every message is compiled once into a closure that fills a dict: a message that comes twice is merged, a list grows, a
field that nobody knows is passed over. Zeros stay: ``codec.convert`` drops what JSON would not have had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from headgate.kube.json_syntax import MAX_DEPTH
from headgate.kube.protobuf import wire
from headgate.kube.protobuf.scalars import NUMBERS, RAW, SCALARS, fields, tag
from headgate.kube.protobuf.wire import FIXED64, LENGTH, VARINT, Damaged
from headgate.kube.schema import Field, Schemas, Type

Object = dict[str, Any]
Reader = Callable[[bytes, int, int, Object, int], None]  # bytes, from, to, what to fill, how deep
Element = Callable[[bytes, int, int, int], Any]  # the same, giving a value


_TOO_DEEP: Final = "proto: exceeded max depth"


class FieldNumber(msgspec.Struct, frozen=True, array_like=True):
    """``name``: in JSON; empty for an embedded struct, which is a message in protobuf and nothing in JSON."""

    number: int
    name: str
    go: str = ""  # the name of the Go field where it is not the name in JSON with a capital
    embedded: str = ""  # the type of an embedded struct

    @property
    def go_name(self) -> str:
        return self.go or self.name[:1].upper() + self.name[1:]


class _Slot(NamedTuple):
    """What to do with one field: ``put`` fills in bytes, ``put_number`` a number; only one of them is there."""

    go_name: str
    put: Reader | None = None
    put_number: Callable[[Object, int], None] | None = None
    is_list: bool = False
    is_fixed: bool = False  # a number of eight bytes


class Messages:
    """The messages of all types that have field numbers."""

    def __init__(self, schemas: Schemas, numbers: Mapping[str, tuple[FieldNumber, ...]]) -> None:
        self._schemas: Final = schemas
        self._numbers: Final = numbers
        self._readers: dict[tuple[str, str], Reader] = {}

    @classmethod
    def load(cls, schemas: Schemas, numbers: bytes) -> Messages:
        """From the committed table (JSON), which the caller has read."""
        return cls(schemas, msgspec.json.decode(numbers, type=dict[str, tuple[FieldNumber, ...]]))

    def __contains__(self, type_name: str) -> bool:
        return type_name in self._numbers

    def decode(self, type_name: str, data: bytes) -> Object | str:
        """The object, or why the bytes are none."""
        out: Object = {}
        try:
            self._struct(type_name, type_name)(data, 0, len(data), out, 0)
        except Damaged as problem:
            return str(problem)
        except RecursionError:  # a schema may nest, and who calls here may already be deep
            return _TOO_DEEP
        return out

    def _struct(self, message: str, owner: str) -> Reader:
        """``owner`` is the type whose JSON fields are filled: of an embedded struct that of the struct around it."""
        key = message, owner
        if key not in self._readers:
            slots: dict[int, _Slot] = {}
            self._readers[key] = _message_reader(message.rpartition(".")[2], slots)
            for each in self._numbers[message]:
                if each.embedded:
                    slots[each.number] = _Slot(each.go_name, self._struct(each.embedded, owner))
                else:
                    slots[each.number] = self._slot(each.go_name, self._schemas.fields[owner][each.name])
        return self._readers[key]

    def _slot(self, go_name: str, field: Field) -> _Slot:
        name, type = field.name, field.type
        match type.kind:
            case "struct":
                return _Slot(go_name, _merged(name, self._struct(type.ref, type.ref)))
            case "map":
                return _Slot(go_name, _map_entry(name, self._element(type.items or Type("raw"))))
            case "list":
                items = type.items or Type("raw")
                if items.kind in NUMBERS:
                    return _Slot(go_name, put_number=_appended_number(name, NUMBERS[items.kind]), is_list=True)
                return _Slot(go_name, _appended(name, self._element(items)))
            case kind if kind in NUMBERS:
                return _Slot(go_name, put_number=_set_number(name, NUMBERS[kind]), is_fixed=kind == "float")
            case _:
                return _Slot(go_name, _set(name, self._element(type)))

    def _element(self, type: Type) -> Element:
        match type.kind:
            case "struct":
                return _new(self._struct(type.ref, type.ref))
            case "list":
                return _wrapped_list(_go_type(type), self._element(type.items or Type("raw")))
            case "either":
                return self._either(type)
            case "raw":
                read = RAW[type.go]
            case kind:
                read = SCALARS[kind]
        return lambda data, start, stop, depth: read(data, start, stop)

    def _either(self, type: Type) -> Element:
        """A schema, or in its place something simpler: a list of schemas, a list of words, a truth value."""
        schema, simpler = _new(self._struct(type.ref, type.ref)), type.items or Type("raw")
        if simpler.kind == "bool":
            return _schema_or_bool(schema)
        return _schema_or_list(_go_type(type), schema, self._element(simpler.items or Type("raw")))


def _message_reader(name: str, slots: dict[int, _Slot]) -> Reader:
    def read(data: bytes, at: int, end: int, out: Object, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise Damaged(_TOO_DEEP)
        while at < end:
            start = at
            number, kind, at = tag(name, data, at, end)
            slot = slots.get(number)
            if slot is None:
                at = wire.skip(data, start, end)
            elif kind == LENGTH and slot.put is not None:
                start, at = wire.length(data, at, end)
                slot.put(data, start, at, out, depth + 1)
            elif kind == FIXED64 and slot.put_number is not None and slot.is_fixed:
                value, at = wire.fixed64(data, at, end)
                slot.put_number(out, value)
            elif kind == VARINT and slot.put_number is not None and not slot.is_fixed:
                value, at = wire.varint(data, at, end)
                slot.put_number(out, value)
            elif kind == LENGTH and slot.put_number is not None and slot.is_list:
                start, at = wire.length(data, at, end)
                while start < at:
                    value, start = wire.varint(data, start, end)
                    slot.put_number(out, value)
            else:
                raise Damaged(f"proto: wrong wireType = {kind} for field {slot.go_name}")

    return read


def _set(name: str, element: Element) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        out[name] = element(data, start, stop, depth)

    return put


def _merged(name: str, reader: Reader) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        reader(data, start, stop, out.setdefault(name, {}), depth)

    return put


def _appended(name: str, element: Element) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        out.setdefault(name, []).append(element(data, start, stop, depth))

    return put


def _set_number(name: str, read: Callable[[int], Any]) -> Callable[[Object, int], None]:
    def put(out: Object, value: int) -> None:
        out[name] = read(value)

    return put


def _appended_number(name: str, read: Callable[[int], Any]) -> Callable[[Object, int], None]:
    def put(out: Object, value: int) -> None:
        out.setdefault(name, []).append(read(value))

    return put


def _new(reader: Reader) -> Element:
    def element(data: bytes, start: int, stop: int, depth: int) -> Object:
        out: Object = {}
        reader(data, start, stop, out, depth)
        return out

    return element


def _map_entry(name: str, element: Element) -> Reader:
    """An entry is a message of its own with the key as field 1 and the value as field 2."""

    def put(data: bytes, at: int, end: int, out: Object, depth: int) -> None:
        key, value = "", None
        while at < end:
            start = at
            found, at = wire.varint(data, at, end)
            if found >> 3 == 1:
                start, at = wire.length(data, at, end)
                key = wire.text(data, start, at)
            elif found >> 3 == 2:
                start, at = wire.length(data, at, end)
                value = element(data, start, at, depth)
            else:
                at = wire.skip(data, start, end)
        out.setdefault(name, {})[key] = element(b"", 0, 0, depth) if value is None else value

    return put


def _wrapped_list(message: str, element: Element) -> Element:
    """A list that is the value of a map has a message around it."""

    def read(data: bytes, start: int, stop: int, depth: int) -> list[Any]:
        known = {1: ("Items", LENGTH)}
        return [element(data, begin, end, depth) for _, begin, end in fields(message, known, data, start, stop)]

    return read


def _schema_or_bool(schema: Element) -> Element:
    known = {1: ("Allows", VARINT), 2: ("Schema", LENGTH)}

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        allows, found = False, None
        for number, at, end in fields("JSONSchemaPropsOrBool", known, data, start, stop):
            if number == 1:
                allows = at != 0
            else:
                found = schema(data, at, end, depth)
        return allows if found is None else found

    return read


def _schema_or_list(message: str, schema: Element, element: Element) -> Element:
    known = {1: ("Schema", LENGTH), 2: ("Property" if message.endswith("StringArray") else "JSONSchemas", LENGTH)}

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        listed, found = [], None
        for number, at, end in fields(message, known, data, start, stop):
            if number == 1:
                found = schema(data, at, end, depth)
            else:
                listed.append(element(data, at, end, depth))
        return listed or found

    return read


def _go_type(type: Type) -> str:
    return type.go.rpartition(".")[2]
