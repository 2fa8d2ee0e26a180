"""Decodes JSON to plain values, as the API server does.

The fast path is one C decoder. It detects everything that the server decodes differently (repeated keys, invalid UTF-8,
lone surrogates, huge numbers), and then a slow decoder is used. Integers stay integers.
``apimachinery/codec/decoder.py`` interprets a value for a kind.
"""

from __future__ import annotations

import codecs
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
_MAX_WHOLE: Final = 1e21  # from this number on JSON prints an exponent
_MAX_EXPLAINED_BYTES: Final = 1 << 17  # finding the first error with Go's message is slow
_HUGE_INTEGER: Final = re.compile(rb"[0-9]{4000}")  # Python's int raises above 4,300 digits
MAX_NODES: Final = 250_000
"""The limit for keys, values and containers of a long document. No other thread runs during the C decoder, which takes
0.1 to 0.2 microseconds per node."""
MAX_DENSE_BYTES: Final = 1536 * 1024
"""A document up to this length, which is the limit of the store, may have any number of nodes."""
TOO_MANY_NODES: Final = f"limit is {MAX_NODES} keys and values in a document of more than {MAX_DENSE_BYTES} bytes"
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,:\[{]', re.DOTALL)


_QUOTE: Final = ord('"')


class ParsedBody(msgspec.Struct, frozen=True):
    """A body as a plain value, or its error.

    ``duplicates`` are complete messages (``duplicate field "spec.x"``) for callers that use the value directly, such as
    patches. An object with repeated keys is a :class:`DuplicateKeysObject`, from which ``codec.convert`` makes its own
    messages.
    """

    value: Any = None
    duplicates: tuple[str, ...] = ()
    error: str | None = None
    is_yaml: bool = False


class DuplicateKeysObject(dict[str, Any]):
    """A JSON object with repeated keys. As a dict the last one wins; ``pairs`` has them all, in order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class NumberLiteral(float):
    """A number that would be printed differently than it was written (``1e3``, ``1.50``), with its original text."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> NumberLiteral:
        self = super().__new__(cls, text)
        self.text = text
        return self


class _TooLarge(ValueError):
    """A number that is too large for a float."""


Numbers = Literal["plain", "spelled", "whole"]


def decode_json(body: bytes, *, numbers: Numbers = "plain") -> ParsedBody:
    """Decodes ``body``.

    ``numbers``: ``spelled`` keeps unusual spellings as :class:`NumberLiteral`, for ``convert``, which quotes them;
    ``whole`` converts floats without a fraction to integers, as decoding YAML does.
    """
    if _has_too_many_nodes(body):
        return ParsedBody(error=TOO_MANY_NODES)
    decoder, read_float = _DECODERS[numbers]
    try:
        value = decoder.decode(body)
        encoded = _encode(value)
        if encoded == body.rstrip() or _count_delimiters(encoded) == _count_delimiters(body):
            return _check_depth(body, value)
    except (ValueError, RecursionError, TypeError):  # TypeError: a NumberLiteral cannot be encoded
        pass
    return _decode_slowly(body, read_float)


def _has_too_many_nodes(body: bytes) -> bool:
    """Counts nodes without decoding: one for each token that begins a node. Tokens in strings do not count."""
    if len(body) <= MAX_DENSE_BYTES or sum(map(body.count, (b",", b":", b"[", b"{"))) <= MAX_NODES:
        return False
    remaining = MAX_NODES
    for token in _TOKEN.finditer(body):
        if token[0][0] != _QUOTE:
            remaining -= 1
            if remaining < 0:
                return True
    return False


def integer_if_whole(number: float) -> float | int:
    """Converts a number without a fraction to the integer that JSON prints for it."""
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < _MAX_WHOLE else number


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _TooLarge(text)
    return number


def _read_spelled(text: str) -> float:
    number = _read_float(text)
    return number if repr(number) == text else NumberLiteral(text)


def _read_whole(text: str) -> float | int:
    return integer_if_whole(_read_float(text))


_DECODERS: Final = {
    name: (msgspec.json.Decoder(float_hook=read), read)
    for name, read in (("plain", _read_float), ("spelled", _read_spelled), ("whole", _read_whole))
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
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return ParsedBody(value)
    return ParsedBody(error=f"invalid character '{'{' if isinstance(level[0], dict) else '['}' exceeded max depth")


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
