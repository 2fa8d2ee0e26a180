"""Decodes protobuf objects by the generated field numbers to the same plain values as JSON.

Every message is compiled once into a closure that fills a dict: a repeated message is merged, a list grows, an unknown
field is skipped. Zeros stay; ``codec.convert`` drops them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apimachinery.protobuf import field_setters
from headgate.apimachinery.protobuf.field_setters import Element, FieldSetter, Reader
from headgate.apimachinery.protobuf.scalars import NUMBERS, RAW, SCALARS
from headgate.apimachinery.protobuf.wire import ProtobufError
from headgate.kube.schema import Field, Schemas, Type

Object = dict[str, Any]


class FieldNumber(msgspec.Struct, frozen=True, array_like=True):
    """``name``: in JSON; empty for an embedded struct, which is a message in protobuf but not an object in JSON."""

    number: int
    name: str
    go: str = ""  # the name of the Go field, if it is not the JSON name with a capital
    embedded: str = ""  # the type of an embedded struct

    @property
    def go_name(self) -> str:
        return self.go or self.name[:1].upper() + self.name[1:]


class MessageDecoder:
    """The messages of all types that have field numbers."""

    def __init__(self, schemas: Schemas, numbers: Mapping[str, tuple[FieldNumber, ...]]) -> None:
        self._schemas: Final = schemas
        self._numbers: Final = numbers
        self._readers: dict[tuple[str, str], Reader] = {}

    @classmethod
    def load(cls, schemas: Schemas, numbers: bytes) -> MessageDecoder:
        """From the generated table (JSON), which the caller has read."""
        return cls(schemas, msgspec.json.decode(numbers, type=dict[str, tuple[FieldNumber, ...]]))

    def __contains__(self, type_name: str) -> bool:
        return type_name in self._numbers

    def decode(self, type_name: str, data: bytes) -> Object | str:
        """The object, or the error text."""
        out: Object = {}
        try:
            self._struct(type_name, type_name)(data, 0, len(data), out, 0)
        except ProtobufError as problem:
            return str(problem)
        except RecursionError:  # a schema may be nested, and the caller's stack may be deep
            return field_setters.TOO_DEEP
        return out

    def _struct(self, message: str, owner: str) -> Reader:
        """``owner`` is the type whose JSON fields are set: for an embedded struct, the struct that contains it."""
        key = message, owner
        if key not in self._readers:
            setters: dict[int, FieldSetter] = {}
            self._readers[key] = field_setters.message_reader(message.rpartition(".")[2], setters)
            for each in self._numbers[message]:
                if each.embedded:
                    setters[each.number] = FieldSetter(each.go_name, self._struct(each.embedded, owner))
                else:
                    setters[each.number] = self._setter(each.go_name, self._schemas.fields[owner][each.name])
        return self._readers[key]

    def _setter(self, go_name: str, field: Field) -> FieldSetter:
        name, type = field.name, field.type
        match type.kind:
            case "struct":
                return FieldSetter(go_name, field_setters.merge_message(name, self._struct(type.ref, type.ref)))
            case "map":
                return FieldSetter(go_name, field_setters.map_entry(name, self._element(type.items or Type("raw"))))
            case "list":
                items = type.items or Type("raw")
                if items.kind in NUMBERS:
                    return FieldSetter(
                        go_name, put_number=field_setters.append_number(name, NUMBERS[items.kind]), is_list=True
                    )
                return FieldSetter(go_name, field_setters.append_value(name, self._element(items)))
            case kind if kind in NUMBERS:
                return FieldSetter(
                    go_name, put_number=field_setters.set_number(name, NUMBERS[kind]), is_fixed=kind == "float"
                )
            case _:
                return FieldSetter(go_name, field_setters.set_value(name, self._element(type)))

    def _element(self, type: Type) -> Element:
        match type.kind:
            case "struct":
                return field_setters.new_object(self._struct(type.ref, type.ref))
            case "list":
                return field_setters.wrapped_list(_go_type(type), self._element(type.items or Type("raw")))
            case "either":
                return self._either(type)
            case "raw":
                read = RAW[type.go]
            case kind:
                read = SCALARS[kind]
        return lambda data, start, stop, depth: read(data, start, stop)

    def _either(self, type: Type) -> Element:
        """A schema, or in its place a list of schemas, a list of strings, or a boolean."""
        schema, other = field_setters.new_object(self._struct(type.ref, type.ref)), type.items or Type("raw")
        if other.kind == "bool":
            return field_setters.schema_or_bool(schema)
        return field_setters.schema_or_list(_go_type(type), schema, self._element(other.items or Type("raw")))


def _go_type(type: Type) -> str:
    return type.go.rpartition(".")[2]
