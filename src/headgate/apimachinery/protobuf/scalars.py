"""Types that are one value in JSON and a small message in protobuf: times, quantities, raw JSON and similar.

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
_FIRST_S: Final = -62167219200  # the years 0 to 9999, which is what JSON can say
_LAST_S: Final = 253402300799


def fields(
    name: str, known: dict[int, tuple[str, int]], data: bytes, at: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """The known fields of a small message: number, then a value and 0, or the offsets of its bytes."""
    while at < end:
        start = at
        number, kind, at = tag(name, data, at, end)
        if number not in known:
            at = wire.skip(data, start, end)
            continue
        label, wanted = known[number]
        if kind != wanted:
            raise ProtobufError(f"proto: wrong wireType = {kind} for field {label}")
        if kind == VARINT:
            value, at = wire.varint(data, at, end)
            yield number, value, 0
        else:
            start, at = wire.length(data, at, end)
            yield number, start, at


def tag(name: str, data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """The number and wire type of the field of message ``name`` at ``at``, and where its content begins."""
    found, at = wire.varint(data, at, end)
    number, kind = wire.signed32(found >> 3), found & 7
    if kind == wire.END_GROUP:
        raise ProtobufError(f"proto: {name}: wiretype end group for non-group")
    if number <= 0:
        raise ProtobufError(f"proto: {name}: illegal tag {number} (wire type {found})")
    return number, kind, at


def _octets(data: bytes, start: int, stop: int) -> str:
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
    """Nothing inside means no time at all; fractions of a second are not looked at."""
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


def _raw_json(message: str, instead: Any = None) -> Value:
    """A message that holds the bytes of a JSON document; ``instead`` is what bytes that are none count as.

    Without it they are refused. The real server dies of them: it finds out when it prints the object.
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
        if instead is None:
            raise ProtobufError(parsed.error)
        return instead

    return read


SCALARS: Final[dict[str, Value]] = {
    "string": wire.text,
    "bytes": _octets,
    "time": _time,
    "microtime": _micro_time,
    "duration": _duration,
    "quantity": _quantity,
    "intorstring": _int_or_string,
}
RAW: Final[dict[str, Value]] = {
    "runtime.RawExtension": _raw_json("RawExtension"),
    "v1.FieldsV1": _raw_json("FieldsV1", instead={"no path": {}}),  # as any entry that cannot be read: all are dropped
    "v1.JSON": _raw_json("JSON"),
}
"""Readers of values that may be anything, by the name of their Go type."""


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
