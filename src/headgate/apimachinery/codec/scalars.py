"""Decodes JSON scalars: checks ranges, and writes quantities, times and base64 as Kubernetes does.

A parser returns the value as Kubernetes writes it (``1000m`` becomes ``1``), or raises one of three errors. They differ
in what Go's decoder does next, and in whether ``decoder.py`` adds the name of the field to the text. A zero time is
None.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from headgate.kube import quantity, timestamps
from headgate.kube.serializer.json_decoder import DuplicateKeysObject, NumberLiteral


class FatalScalarError(Exception):
    """A value that the parser of its type rejects, with the complete text. Decoding stops."""


class ScalarError(Exception):
    """An invalid value of the right JSON type, with the complete text. Decoding continues."""


class UnmarshalTypeError(Exception):
    """A value of the wrong JSON type. ``fatal``: the parser of the type found it, so decoding stops."""

    def __init__(self, found: str, go_type: str = "", fatal: bool = False) -> None:
        super().__init__(found)
        self.found = found
        self.go_type = go_type
        self.fatal = fatal


ZEROS: Final[dict[str, Any]] = {
    "int32": 0,
    "int64": 0,
    "float": 0,
    "bool": False,
    "bytes": "",
    "quantity": "0",
    "duration": "0s",
    "intorstring": 0,
}
GO_TYPES: Final = {
    "bytes": "[]uint8",
    "float": "float64",
    "raw": "interface {}",
    "quantity": "resource.Quantity",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "duration": "v1.Duration",
    "intorstring": "intstr.IntOrString",
}


def json_kind(value: Any) -> str:
    """The name of a JSON type in Go's messages."""
    match value:
        case str():
            return "string"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case list():
            return "array"
        case None:
            return "null"
        case _:
            return "object"


def number_text(value: Any) -> str:
    """The original text of a number."""
    return value.text if isinstance(value, NumberLiteral) else repr(value)


def _exact_kind(value: Any) -> str:
    kind = json_kind(value)
    return f"number {number_text(value)}" if kind == "number" else kind


def _string(value: Any) -> str:
    if value.__class__ is str:
        return str(value)
    raise UnmarshalTypeError(json_kind(value))


def _bool(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    raise UnmarshalTypeError(json_kind(value))


INTEGERS: Final = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
"""The ranges of the kinds that are integers."""


def _integer(kind: str) -> Callable[[Any], int]:
    low, high = INTEGERS[kind]

    def parse(value: Any) -> int:
        if value.__class__ is int and low <= value <= high:
            return int(value)
        raise UnmarshalTypeError(_exact_kind(value))

    return parse


def _float(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if isinstance(value, float) else value
    raise UnmarshalTypeError(json_kind(value))


def _quantity(value: Any) -> str:
    if value.__class__ is not str:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise FatalScalarError(quantity.FORMAT_ERROR)
        value = number_text(value)
    parsed = quantity.parse(value)
    if isinstance(parsed, str):
        raise FatalScalarError(parsed)
    return parsed.canonical


def _time(value: Any) -> str | None:
    return _canonical_time(_fatal_string(value))


def _microtime(value: Any) -> str | None:
    return _canonical_microtime(_fatal_string(value))


def _fatal_string(value: Any) -> str:
    if value.__class__ is str:
        return str(value)
    raise UnmarshalTypeError(json_kind(value), "string", fatal=True)


@lru_cache(maxsize=4096)
def _canonical_time(text: str) -> str | None:
    seconds = timestamps.parse_time(text)
    if isinstance(seconds, str):
        raise FatalScalarError(seconds)
    return None if seconds == timestamps.ZERO_TIME_S else timestamps.format_time(seconds)


@lru_cache(maxsize=4096)
def _canonical_microtime(text: str) -> str | None:
    micros = timestamps.parse_micro_time(text)
    if isinstance(micros, str):
        raise FatalScalarError(micros)
    return None if micros == timestamps.ZERO_TIME_S * 1_000_000 else timestamps.format_micros(micros)


def _duration(value: Any) -> str:
    nanos = timestamps.parse_duration(_fatal_string(value))
    if isinstance(nanos, str):
        raise FatalScalarError(nanos)
    return timestamps.format_duration(nanos)


_int32: Final = _integer("int32")


def _int_or_string(value: Any) -> int | str:
    if value.__class__ is str:
        return str(value)
    try:
        return _int32(value)
    except UnmarshalTypeError as problem:
        raise UnmarshalTypeError(problem.found, "int32", fatal=True) from None


_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DIGIT: Final = re.compile(r"[A-Za-z0-9+/]")


def _bytes(value: Any) -> str:
    if isinstance(value, list):
        return base64.b64encode(bytes(_byte(item) for item in value)).decode()
    if value.__class__ is not str:
        raise UnmarshalTypeError(json_kind(value))
    text = value.replace("\r", "").replace("\n", "")
    if _BASE64.fullmatch(text) is None:
        raise ScalarError(f"illegal base64 data at input byte {_error_offset(value)}")
    return base64.b64encode(base64.b64decode(text)).decode()


def _byte(value: Any) -> int:
    if value is None:
        return 0
    if value.__class__ is int and 0 <= value <= 255:
        return int(value)
    raise UnmarshalTypeError(_exact_kind(value), "uint8")


def _error_offset(text: str) -> int:
    """The byte offset in Go's error: the first invalid byte, or the start of an incomplete last group."""
    digits = 0
    for position, char in enumerate(text):
        if char in "\r\n":
            continue
        if _DIGIT.fullmatch(char):
            digits = (digits + 1) % 4
            continue
        if char != "=" or digits < 2:
            return len(text[:position].encode())
        rest = text[position + 1 :].lstrip("\r\n")
        if digits == 2:
            if not rest.startswith("="):
                return len(text) - len(rest) - bool(rest)
            rest = rest[1:].lstrip("\r\n")
        return len(text[: len(text) - len(rest)].encode())
    return len(text) - digits


def _raw(value: Any) -> Any:
    """Any JSON value, without the special types of the JSON decoder. A value without them is not copied."""
    return value if _is_plain(value) else _to_plain(value)


def _is_plain(value: Any) -> bool:
    pending: list[Any] = [[value]]
    for container in pending:
        for item in container.values() if container.__class__ is dict else container:
            found = item.__class__
            if found is dict or found is list:
                if item:
                    pending.append(item)
            elif found is DuplicateKeysObject or found is NumberLiteral:
                return False
    return True


def _to_plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _to_plain(item) for key, item in value.items()}
        case list():
            return [_to_plain(item) for item in value]
        case NumberLiteral():
            return float(value)
        case _:
            return value


PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _string,
    "bool": _bool,
    "int32": _int32,
    "int64": _integer("int64"),
    "float": _float,
    "bytes": _bytes,
    "quantity": _quantity,
    "time": _time,
    "microtime": _microtime,
    "duration": _duration,
    "intorstring": _int_or_string,
    "raw": _raw,
}
