"""Decodes JSON to plain values, as the API server does.

The fast path is one C decoder. It detects everything that the server decodes differently (repeated keys, invalid UTF-8,
lone surrogates, huge numbers), and then a slow decoder is used. Integers stay integers.
``apimachinery/codec/decoder.py`` interprets a value for a kind.
"""

from __future__ import annotations

import codecs
import gc
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from headgate.kube.field_errors import quote
from headgate.kube.serializer.json_syntax import MAX_DEPTH, syntax_error

MAX_REPORTED_DUPLICATES: Final = 100
INT64: Final = range(-(1 << 63), 1 << 63)
_MAX_WHOLE: Final = 1e21  # from this number on Go writes an exponent
_MAX_EXPLAINED_BYTES: Final = 1 << 17  # a longer body gets a general message: finding the first error is slow
_HUGE_INTEGER: Final = re.compile(rb"[0-9]{4000}")  # Python's int raises above 4,300 digits
MAX_JSON_VALUES: Final = 250_000
"""The maximum number of keys and values (objects and lists included) in a document that is longer than
:data:`MAX_UNCOUNTED_BYTES`. The C decoder takes 0.1 to 0.2 microseconds for each of them, and no other thread can run
meanwhile."""
MAX_UNCOUNTED_BYTES: Final = 1536 * 1024
"""In a document up to this length, keys and values are not counted. The length is the maximum size of a stored
object."""
_LONG_BYTES: Final = 64 * 1024
TOO_MANY_JSON_VALUES: Final = (
    f"limit is {MAX_JSON_VALUES} keys and values in a document of more than {MAX_UNCOUNTED_BYTES} bytes"
)
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,:\[{]', re.DOTALL)


_QUOTE: Final = ord('"')


class ParsedBody(msgspec.Struct, frozen=True):
    """A body as a plain value, or its error.

    ``duplicate_errors``: messages about repeated keys (``duplicate field "spec.x"``), for callers that do not call
    ``codec.convert``, such as patches. ``codec.convert`` does not read them: a JSON object with repeated keys is a
    :class:`DuplicateKeysObject` in ``value``, and ``codec.convert`` makes its messages from that.
    """

    value: Any = None
    duplicate_errors: tuple[str, ...] = ()
    error: str | None = None
    is_yaml: bool = False


class DuplicateKeysObject(dict[str, Any]):
    """A JSON object with repeated keys. The dict has the last value of each key; ``pairs`` has all, in order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class NumberLiteral(float):
    """A number whose text differs from the one that Python writes for it (``1e3``, ``1.50``), with its original
    text."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> NumberLiteral:
        self = super().__new__(cls, text)
        self.text = text
        return self


class _TooLarge(ValueError):
    """A number that is too large for a float."""


Numbers = Literal["plain", "literal", "whole"]  # see decode_json


def decode_json(body: bytes, *, numbers: Numbers = "plain") -> ParsedBody:
    """Decodes ``body``.

    ``numbers``: ``literal`` makes a :class:`NumberLiteral` of a number that Python would write differently, because
    ``codec.convert`` shows the original text in its errors; ``whole`` converts floats without a fraction to integers,
    as decoding YAML does.
    """
    if _has_too_many_values(body):
        return ParsedBody(error=TOO_MANY_JSON_VALUES)
    decoder, read_float = _DECODERS[numbers]
    try:
        value = _decode_without_collection(decoder, body)
        encoded = _encode(value)
        # The C decoder keeps only the last value of a repeated key. If the value, encoded again, has as many strings as
        # the body, then no key is repeated.
        if encoded == body.rstrip() or _count_delimiters(encoded) == _count_delimiters(body):
            return _check_depth(body, value)
    except (ValueError, RecursionError, TypeError):  # TypeError: a NumberLiteral cannot be encoded
        pass
    return _decode_slowly(body, read_float)


def _decode_without_collection(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Decoding makes no garbage. A collection of many new objects would make this step, which keeps the interpreter
    lock, about twice as long; it comes later, as a step of its own."""
    if not gc.isenabled() or len(body) <= _LONG_BYTES:
        return decoder.decode(body)
    gc.disable()
    try:
        return decoder.decode(body)
    finally:
        gc.enable()


def _has_too_many_values(body: bytes) -> bool:
    """Counts keys and values without decoding: one for each ``,``, ``:``, ``[`` and ``{`` that is not in a string."""
    if len(body) <= MAX_UNCOUNTED_BYTES or sum(map(body.count, (b",", b":", b"[", b"{"))) <= MAX_JSON_VALUES:
        return False
    remaining = MAX_JSON_VALUES
    for token in _TOKEN.finditer(body):
        if token[0][0] != _QUOTE:
            remaining -= 1
            if remaining < 0:
                return True
    return False


def integer_if_whole(number: float) -> float | int:
    """A number without a fraction as an integer, if Go writes it without an exponent."""
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < _MAX_WHOLE else number


def with_go_numbers(value: Any) -> Any:
    """A deep copy with numbers as Go writes them: a float without a fraction becomes an integer, and an integer that
    does not fit in 64 bits becomes a float."""
    if isinstance(value, dict):  # a fast path for texts, which are the most frequent values
        return {name: inner if inner.__class__ is str else with_go_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_go_numbers(item) for item in value]
    if value.__class__ is int and value not in INT64:
        return integer_if_whole(float(value))
    return integer_if_whole(value) if isinstance(value, float) else value


def has_floats(value: Any) -> bool:
    """Whether :func:`with_go_numbers` could change anything in a decoded value. Nothing is copied."""
    found = [value]
    while found:
        each = found.pop()
        if each.__class__ is float:
            return True
        if each.__class__ is dict:
            found.extend(each.values())
        elif each.__class__ is list:
            found.extend(each)
    return False


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _TooLarge(text)
    return number


def _read_literal(text: str) -> float:
    number = _read_float(text)
    return number if repr(number) == text else NumberLiteral(text)


def _read_whole(text: str) -> float | int:
    return integer_if_whole(_read_float(text))


_DECODERS: Final = {
    name: (msgspec.json.Decoder(float_hook=read), read)
    for name, read in (("plain", _read_float), ("literal", _read_literal), ("whole", _read_whole))
}
_encode: Final = msgspec.json.Encoder().encode


def _count_delimiters(text: bytes) -> int:
    """The number of string delimiters. A decoded value that lost a repeated key has fewer than its text."""
    if b"\\" not in text:
        return text.count(b'"')
    text = text.replace(b"\\\\", b"")
    return text.count(b'"') - text.count(b'\\"')


def _check_depth(body: bytes, value: Any) -> ParsedBody:
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return ParsedBody(value)
    too_deep = _below_max_depth(value)
    if not too_deep:
        return ParsedBody(value)
    return ParsedBody(error=f"invalid character '{'{' if isinstance(too_deep[0], dict) else '['}' exceeded max depth")


def exceeds_max_depth(value: Any) -> bool:
    """Whether lists and objects are nested more deeply than ``MAX_DEPTH``."""
    return bool(_below_max_depth(value))


def _below_max_depth(value: Any) -> list[Any]:
    """The lists and objects of the first level that is too deep."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return []
    return level


def _decode_slowly(body: bytes, read_float: Callable[[str], float | int]) -> ParsedBody:
    read_int = read_float if _HUGE_INTEGER.search(body) else None
    try:
        text = _without_lone_surrogates(body.decode("utf-8", "headgate-go"))
        value = json.loads(
            text, object_pairs_hook=_object, parse_float=read_float, parse_int=read_int, parse_constant=_reject_constant
        )
    except _TooLarge as problem:
        return _malformed(body, f"json: cannot unmarshal number {problem} into Go value of type float64")
    except ValueError as problem:
        return _malformed(body, f"invalid JSON: {problem}")
    except RecursionError:
        return _malformed(body, "exceeded max depth")
    parsed = _check_depth(body, value)
    if parsed.error is not None:
        return parsed
    paths = _duplicates(value, "") if isinstance(value, (dict, list)) else iter(())
    duplicates = tuple(dict.fromkeys(f"duplicate field {quote(path)}" for path in paths))
    return ParsedBody(value, duplicates[:MAX_REPORTED_DUPLICATES])


def _malformed(body: bytes, default: str) -> ParsedBody:
    return ParsedBody(error=(syntax_error(body) if len(body) <= _MAX_EXPLAINED_BYTES else "") or default)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else DuplicateKeysObject(pairs)


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _duplicates(value: dict[str, Any] | list[Any], path: str) -> Iterator[str]:
    if isinstance(value, dict):
        seen = set()
        for key, item in value.pairs if isinstance(value, DuplicateKeysObject) else value.items():
            inner = f"{path}.{key}" if path else key
            if key in seen:
                yield inner
            seen.add(key)
            if isinstance(item, (dict, list)):
                yield from _duplicates(item, inner)
    else:
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                yield from _duplicates(item, f"{path}[{index}]")


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    """Go replaces every single byte that is not UTF-8, Python whole sequences."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("headgate-go", _replace_each_byte)

_SURROGATES: Final = re.compile(
    r"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def _without_lone_surrogates(text: str) -> str:
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _SURROGATES.sub(lambda match: "\\ufffd" if match[2] else match[0], text)
