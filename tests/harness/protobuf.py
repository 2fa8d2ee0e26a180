"""Encodes JSON manifests as protobuf bodies, with the field numbers that the server reads them with.

The result is what a Go client would send, except that empty plain structs and zeros are left out unless they are
written. For tests only: the real clients (`wire/imperative_sessions.py`) prove that the numbers are right.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from headgate import schemas
from headgate.apimachinery.protobuf import FieldNumber
from headgate.kube import timestamps
from headgate.kube.schema import Field, GroupVersionKind, Schemas, Type

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
VARINTS = ("int32", "int64", "bool")


@cache
def tables() -> Schemas:
    return Schemas.load(schemas.read())


@cache
def numbers() -> dict[str, tuple[FieldNumber, ...]]:
    return msgspec.json.decode(schemas.read_numbers(), type=dict[str, tuple[FieldNumber, ...]])


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def octets(field: int, value: bytes | str) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def envelope(api_version: str, kind: str, raw: bytes, *rest: bytes) -> bytes:
    return MAGIC + octets(1, octets(1, api_version) + octets(2, kind)) + octets(2, raw) + b"".join(rest)


def protobuf(obj: Mapping[str, Any]) -> bytes:
    """The body that a typed client sends for a manifest that names its kind."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    group, _, version = api_version.rpartition("/")
    type_name = tables().kinds[GroupVersionKind(group, version, kind)]
    return envelope(api_version, kind, message(type_name, obj), octets(3, ""), octets(4, ""))


def message(type_name: str, obj: Mapping[str, Any]) -> bytes:
    return b"".join(_fields(type_name, tables().fields[type_name], obj))


def _fields(type_name: str, fields: Mapping[str, Field], obj: Mapping[str, Any]) -> Iterator[bytes]:
    for each in numbers()[type_name]:
        if each.embedded:
            yield octets(each.number, b"".join(_fields(each.embedded, fields, obj)))
        elif obj.get(each.name) is not None:
            yield from _field(each.number, fields[each.name].type, obj[each.name])


def _field(at: int, type: Type, value: Any) -> Iterator[bytes]:
    items = type.items
    if type.kind == "list" and items is not None:
        for item in value:
            yield from _field(at, items, item)
    elif type.kind == "map" and items is not None:
        for key, item in sorted(value.items()):
            yield octets(
                at, octets(1, key) + b"".join(_field(2, items, item) if items.kind != "list" else wrapped(item))
            )
    elif type.kind == "float":
        yield varint(at << 3 | 1) + struct.pack("<d", value)
    elif type.kind in VARINTS:
        yield number(at, int(value))
    else:
        yield octets(at, _content(type, value))


def wrapped(texts: list[str]) -> Iterator[bytes]:
    """A list that is the value of a map."""
    yield octets(2, b"".join(octets(1, text) for text in texts))


def _content(type: Type, value: Any) -> bytes:
    match type.kind:
        case "struct":
            return message(type.ref, value)
        case "either" if isinstance(value, bool):
            return number(1, int(value))
        case "either" if isinstance(value, list) and type.items is not None:
            return b"".join(_field(2, type.items, value))
        case "either":
            return octets(2 if type.items == Type("bool") else 1, message(type.ref, value))
        case "bytes":
            return base64.b64decode(value)
        case "quantity":
            return octets(1, str(value))
        case "time":
            return number(1, _known(timestamps.parse_time(value)))
        case "microtime":
            seconds, micros = divmod(_known(timestamps.parse_micro_time(value)), 1_000_000)
            return number(1, seconds) + number(2, micros * 1000)
        case "duration":
            return number(1, _known(timestamps.parse_duration(value)))
        case "intorstring" if isinstance(value, int):
            return number(1, 0) + number(2, value) + octets(3, "")
        case "intorstring":
            return number(1, 1) + number(2, 0) + octets(3, value)
        case "raw":
            return octets(1, json.dumps(value))
        case "string":
            return str(value).encode()
        case other:
            raise AssertionError(f"{other} has no form in protobuf")


def _known(value: int | str) -> int:
    assert isinstance(value, int), value
    return value
