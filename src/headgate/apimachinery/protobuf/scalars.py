"""Decodes types that are one value in JSON and a small message in protobuf: times, quantities, raw JSON and similar.

Each reader takes the bytes between two offsets and returns the JSON value.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from headgate.apimachinery.protobuf import wire
from headgate.apimachinery.protobuf.wire import LENGTH, VARINT, ProtobufError
from headgate.kube import quantity, timestamps
from headgate.kube.serializer.json_decoder import decode_json, integer_if_whole

Value = Callable[[bytes, int, int], Any]

_MICROS_PER_S: Final = 1_000_000
_INT: Final = 0  # the types of an IntOrString
_STRING: Final = 1
_FIRST_S: Final = -62167219200  # the years 0 to 9999, which RFC 3339 can represent
_LAST_S: Final = 253402300799


def fields(
    name: str, known: dict[int, tuple[str, int]], data: bytes, position: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """The known fields of a small message: the number, then a value and 0, or the offsets of its bytes."""
    while position < end:
        start = position
        number, kind, position = tag(name, data, position, end)
        if number not in known:
            position = wire.skip(data, start, end)
            continue
        label, expected_kind = known[number]
        if kind != expected_kind:
            raise ProtobufError(f"proto: wrong wireType = {kind} for field {label}")
        if kind == VARINT:
            value, position = wire.varint(data, position, end)
            yield number, value, 0
        else:
            start, position = wire.length(data, position, end)
            yield number, start, position


def tag(name: str, data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """The number and wire type of the field at ``position`` in message ``name``, and where its content begins."""
    found, position = wire.varint(data, position, end)
    number, kind = wire.signed32(found >> 3), found & 7
    if kind == wire.END_GROUP:
        raise ProtobufError(f"proto: {name}: wiretype end group for non-group")
    if number <= 0:
        raise ProtobufError(f"proto: {name}: illegal tag {number} (wire type {found})")
    return number, kind, position


def _base64(data: bytes, start: int, stop: int) -> str:
    return base64.b64encode(data[start:stop]).decode()


_TIMESTAMP: Final = {1: ("Seconds", VARINT), 2: ("Nanos", VARINT)}


def _instant(data: bytes, start: int, stop: int) -> tuple[int, int]:
    seconds = nanos = 0
    for number, value, _ in fields("Timestamp", _TIMESTAMP, data, start, stop):
        if number == 1:
            seconds = wire.signed64(value)
        else:
            nanos = wire.signed32(value)
    if not _FIRST_S <= seconds <= _LAST_S:
        raise ProtobufError(f"no time in JSON is {seconds} seconds from 1970")
    return seconds, nanos


def _time(data: bytes, start: int, stop: int) -> str | None:
    """An empty message is no time; fractions of a second are ignored."""
    return None if start == stop else timestamps.format_time(_instant(data, start, stop)[0])


def _micro_time(data: bytes, start: int, stop: int) -> str | None:
    if start == stop:
        return None
    seconds, nanos = _instant(data, start, stop)
    micros = nanos // 1000 if nanos >= 0 else -(-nanos // 1000)  # towards zero
    return timestamps.format_micros(seconds * _MICROS_PER_S + micros)


def _duration(data: bytes, start: int, stop: int) -> str:
    nanos = 0
    for _, value, _ in fields("Duration", {1: ("Duration", VARINT)}, data, start, stop):
        nanos = wire.signed64(value)
    return timestamps.format_duration(nanos)


def _quantity(data: bytes, start: int, stop: int) -> str:
    amount = "0"
    for _, begin, end in fields("Quantity", {1: ("String_", LENGTH)}, data, start, stop):
        parsed = quantity.parse(wire.text(data, begin, end))
        if isinstance(parsed, str):
            raise ProtobufError(parsed)
        amount = parsed.canonical
    return amount


_INT_OR_STRING: Final = {1: ("Type", VARINT), 2: ("IntVal", VARINT), 3: ("StrVal", LENGTH)}


def _int_or_string(data: bytes, start: int, stop: int) -> int | str:
    kind, number, text = 0, 0, ""
    for field, value, end in fields("IntOrString", _INT_OR_STRING, data, start, stop):
        if field == 1:
            kind = wire.signed64(value)
        elif field == 2:
            number = wire.signed32(value)
        else:
            text = wire.text(data, value, end)
    if kind not in (_INT, _STRING):
        raise ProtobufError("impossible IntOrString.Type")
    return text if kind == _STRING else number


def _raw_json(message: str, default: Any = None) -> Value:
    """A message with the bytes of a JSON document. ``default`` is the value for invalid JSON.

    Without a ``default`` invalid JSON is an error. kube-apiserver accepts it and crashes later, when it encodes the
    object.
    """

    def read(data: bytes, start: int, stop: int) -> Any:
        document = b""
        for _, begin, end in fields(message, {1: ("Raw", LENGTH)}, data, start, stop):
            document = data[begin:end]
        if not document:
            return None
        parsed = decode_json(document)
        if parsed.error is None:
            return parsed.value
        if default is None:
            raise ProtobufError(parsed.error)
        return default

    return read


SCALARS: Final[dict[str, Value]] = {
    "string": wire.text,
    "bytes": _base64,
    "time": _time,
    "microtime": _micro_time,
    "duration": _duration,
    "quantity": _quantity,
    "intorstring": _int_or_string,
}
RAW: Final[dict[str, Value]] = {
    "runtime.RawExtension": _raw_json("RawExtension"),
    "v1.FieldsV1": _raw_json("FieldsV1", default={"no path": {}}),  # an invalid entry: all entries are dropped
    "v1.JSON": _raw_json("JSON"),
}
"""Decoders of arbitrary values, by the name of their Go type."""


def _is_true(value: int) -> bool:
    return value != 0


def _double(value: int) -> float:
    number: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    if not math.isfinite(number):
        raise ProtobufError(f"json: unsupported value: {str(number).replace('inf', 'Inf').replace('nan', 'NaN')}")
    return integer_if_whole(number)


NUMBERS: Final[dict[str, Callable[[int], Any]]] = {
    "int32": wire.signed32,
    "int64": wire.signed64,
    "bool": _is_true,
    "float": _double,
}
