"""How each field of a message is set, and the loop that reads a message field by field.

A :class:`FieldSetter` puts one field into the dict of its message; the functions below make setters from readers of the
content. ``messages.py`` decides which setter a type needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headgate.apimachinery.protobuf import wire
from headgate.apimachinery.protobuf.scalars import fields, tag
from headgate.apimachinery.protobuf.wire import FIXED64, LENGTH, VARINT, ProtobufError
from headgate.kube.serializer.json_syntax import MAX_DEPTH

Object = dict[str, Any]
Reader = Callable[[bytes, int, int, Object, int], None]  # bytes, from, to, what to fill, how deep
Element = Callable[[bytes, int, int, int], Any]  # the same, giving a value

TOO_DEEP: Final = "proto: exceeded max depth"
_LAST_SHORT: Final = 15  # the last number whose tag has one byte


class FieldSetter(NamedTuple):
    """What to do with one field: ``put`` fills in bytes, ``put_number`` a number; only one of them is there."""

    go_name: str
    put: Reader | None = None
    put_number: Callable[[Object, int], None] | None = None
    is_list: bool = False
    is_fixed: bool = False  # a number of eight bytes


class _Short:
    """What to do with fields whose tag has one byte, by that byte."""

    def __init__(self, slots: dict[int, FieldSetter]) -> None:
        self._slots = slots
        self.puts: dict[int, Reader] = {}
        self.put_numbers: dict[int, Callable[[Object, int], None]] = {}
        self.is_filled = False

    def fill(self) -> None:
        """At the first use: a message may be part of itself, so its slots are not there when its reader is made."""
        self.is_filled = True
        for number, slot in self._slots.items():
            if number > _LAST_SHORT:
                continue
            if slot.put is not None:
                self.puts[number << 3 | LENGTH] = slot.put
            elif slot.put_number is not None and not slot.is_fixed:
                self.put_numbers[number << 3 | VARINT] = slot.put_number


def message_reader(name: str, slots: dict[int, FieldSetter]) -> Reader:
    """The common case, a tag and a length of one byte each and the expected type, is read here and not by calls."""
    short = _Short(slots)
    puts, put_numbers = short.puts, short.put_numbers

    def read(data: bytes, at: int, end: int, out: Object, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ProtobufError(TOO_DEEP)
        if not short.is_filled:
            short.fill()
        while at < end - 1:
            found = data[at]
            put = puts.get(found)
            if put is not None and (size := data[at + 1]) < 0x80 and at + 2 + size <= end:
                at += 2 + size
                put(data, at - size, at, out, depth + 1)
            elif found in put_numbers and (value := data[at + 1]) < 0x80:
                at += 2
                put_numbers[found](out, value)
            else:
                at = field(data, at, end, out, depth)
        while at < end:
            at = field(data, at, end, out, depth)

    def field(data: bytes, at: int, end: int, out: Object, depth: int) -> int:
        start = at
        number, kind, at = tag(name, data, at, end)
        slot = slots.get(number)
        if slot is None:
            return wire.skip(data, start, end)
        if kind == LENGTH and slot.put is not None:
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
            raise ProtobufError(f"proto: wrong wireType = {kind} for field {slot.go_name}")
        return at

    return read


def set_value(name: str, element: Element) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        out[name] = element(data, start, stop, depth)

    return put


def merged(name: str, reader: Reader) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        reader(data, start, stop, out.setdefault(name, {}), depth)

    return put


def appended(name: str, element: Element) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        out.setdefault(name, []).append(element(data, start, stop, depth))

    return put


def set_number(name: str, read: Callable[[int], Any]) -> Callable[[Object, int], None]:
    def put(out: Object, value: int) -> None:
        out[name] = read(value)

    return put


def appended_number(name: str, read: Callable[[int], Any]) -> Callable[[Object, int], None]:
    def put(out: Object, value: int) -> None:
        out.setdefault(name, []).append(read(value))

    return put


def new_object(reader: Reader) -> Element:
    def element(data: bytes, start: int, stop: int, depth: int) -> Object:
        out: Object = {}
        reader(data, start, stop, out, depth)
        return out

    return element


def map_entry(name: str, element: Element) -> Reader:
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


def wrapped_list(message: str, element: Element) -> Element:
    """A list that is the value of a map has a message around it."""

    def read(data: bytes, start: int, stop: int, depth: int) -> list[Any]:
        known = {1: ("Items", LENGTH)}
        return [element(data, begin, end, depth) for _, begin, end in fields(message, known, data, start, stop)]

    return read


def schema_or_bool(schema: Element) -> Element:
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


def schema_or_list(message: str, schema: Element, element: Element) -> Element:
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
