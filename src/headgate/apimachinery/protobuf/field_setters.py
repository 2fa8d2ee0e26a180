"""Setters for the fields of a message, and the loop that decodes a message field by field.

A :class:`FieldSetter` puts one field into the dict of its message; the functions below make setters from decoders of
the content. ``messages.py`` decides which setter a type needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headgate.apimachinery.protobuf import wire
from headgate.apimachinery.protobuf.scalars import fields, tag
from headgate.apimachinery.protobuf.wire import FIXED64, LENGTH, VARINT, ProtobufError
from headgate.kube.serializer.json_syntax import MAX_DEPTH

Object = dict[str, Any]
Reader = Callable[[bytes, int, int, Object, int], None]  # bytes, start, stop, dict to fill, depth
Element = Callable[[bytes, int, int, int], Any]  # bytes, start, stop, depth; returns a value

TOO_DEEP: Final = "proto: exceeded max depth"
_MAX_SHORT_TAG: Final = 15  # the largest field number whose tag has one byte


class FieldSetter(NamedTuple):
    """Sets one field: ``put`` for a length-delimited field, ``put_number`` for a number; only one of them is set."""

    go_name: str
    put: Reader | None = None
    put_number: Callable[[Object, int], None] | None = None
    is_list: bool = False
    is_fixed: bool = False  # a number of eight bytes


class _ShortTags:
    """The setters of fields whose tag has one byte, by that byte."""

    def __init__(self, setters: dict[int, FieldSetter]) -> None:
        self._setters = setters
        self.puts: dict[int, Reader] = {}
        self.put_numbers: dict[int, Callable[[Object, int], None]] = {}
        self.is_filled = False

    def fill(self) -> None:
        """Called at the first use: a message may contain itself, so its setters may not exist earlier."""
        self.is_filled = True
        for number, setter in self._setters.items():
            if number > _MAX_SHORT_TAG:
                continue
            if setter.put is not None:
                self.puts[number << 3 | LENGTH] = setter.put
            elif setter.put_number is not None and not setter.is_fixed:
                self.put_numbers[number << 3 | VARINT] = setter.put_number


def message_reader(name: str, setters: dict[int, FieldSetter]) -> Reader:
    """The common case (tag and length of one byte each, the expected type) is decoded inline, without calls."""
    short = _ShortTags(setters)
    puts, put_numbers = short.puts, short.put_numbers

    def read(data: bytes, position: int, end: int, out: Object, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ProtobufError(TOO_DEEP)
        if not short.is_filled:
            short.fill()
        while position < end - 1:
            found = data[position]
            put = puts.get(found)
            if put is not None and (size := data[position + 1]) < 0x80 and position + 2 + size <= end:
                position += 2 + size
                put(data, position - size, position, out, depth + 1)
            elif found in put_numbers and (value := data[position + 1]) < 0x80:
                position += 2
                put_numbers[found](out, value)
            else:
                position = field(data, position, end, out, depth)
        while position < end:
            position = field(data, position, end, out, depth)

    def field(data: bytes, position: int, end: int, out: Object, depth: int) -> int:
        start = position
        number, kind, position = tag(name, data, position, end)
        setter = setters.get(number)
        if setter is None:
            return wire.skip(data, start, end)
        if kind == LENGTH and setter.put is not None:
            start, position = wire.length(data, position, end)
            setter.put(data, start, position, out, depth + 1)
        elif kind == FIXED64 and setter.put_number is not None and setter.is_fixed:
            value, position = wire.fixed64(data, position, end)
            setter.put_number(out, value)
        elif kind == VARINT and setter.put_number is not None and not setter.is_fixed:
            value, position = wire.varint(data, position, end)
            setter.put_number(out, value)
        elif kind == LENGTH and setter.put_number is not None and setter.is_list:
            start, position = wire.length(data, position, end)
            while start < position:
                value, start = wire.varint(data, start, end)
                setter.put_number(out, value)
        else:
            raise ProtobufError(f"proto: wrong wireType = {kind} for field {setter.go_name}")
        return position

    return read


def set_value(name: str, element: Element) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        out[name] = element(data, start, stop, depth)

    return put


def merge_message(name: str, reader: Reader) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        reader(data, start, stop, out.setdefault(name, {}), depth)

    return put


def append_value(name: str, element: Element) -> Reader:
    def put(data: bytes, start: int, stop: int, out: Object, depth: int) -> None:
        out.setdefault(name, []).append(element(data, start, stop, depth))

    return put


def set_number(name: str, read: Callable[[int], Any]) -> Callable[[Object, int], None]:
    def put(out: Object, value: int) -> None:
        out[name] = read(value)

    return put


def append_number(name: str, read: Callable[[int], Any]) -> Callable[[Object, int], None]:
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
    """An entry of a map is a message with the key as field 1 and the value as field 2."""

    def put(data: bytes, position: int, end: int, out: Object, depth: int) -> None:
        key, value = "", None
        while position < end:
            start = position
            found, position = wire.varint(data, position, end)
            if found >> 3 == 1:
                start, position = wire.length(data, position, end)
                key = wire.text(data, start, position)
            elif found >> 3 == 2:
                start, position = wire.length(data, position, end)
                value = element(data, start, position, depth)
            else:
                position = wire.skip(data, start, end)
        out.setdefault(name, {})[key] = element(b"", 0, 0, depth) if value is None else value

    return put


def wrapped_list(message: str, element: Element) -> Element:
    """A list that is the value of a map is wrapped in a message."""

    def read(data: bytes, start: int, stop: int, depth: int) -> list[Any]:
        known = {1: ("Items", LENGTH)}
        return [element(data, begin, end, depth) for _, begin, end in fields(message, known, data, start, stop)]

    return read


def schema_or_bool(schema: Element) -> Element:
    known = {1: ("Allows", VARINT), 2: ("Schema", LENGTH)}

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        allows, found = False, None
        for number, position, end in fields("JSONSchemaPropsOrBool", known, data, start, stop):
            if number == 1:
                allows = position != 0
            else:
                found = schema(data, position, end, depth)
        return allows if found is None else found

    return read


def schema_or_list(message: str, schema: Element, element: Element) -> Element:
    known = {1: ("Schema", LENGTH), 2: ("Property" if message.endswith("StringArray") else "JSONSchemas", LENGTH)}

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        listed, found = [], None
        for number, position, end in fields(message, known, data, start, stop):
            if number == 1:
                found = schema(data, position, end, depth)
            else:
                listed.append(element(data, position, end, depth))
        return listed or found

    return read
