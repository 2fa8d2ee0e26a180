"""The syntax error of an invalid JSON text, with the message of Go's parser.

Clients of the API server read these messages in a 400 response. This is a scanner that looks for the first error and
builds nothing; ``json_decoder.py`` calls it only when decoding failed.
"""

from __future__ import annotations

import re
from typing import Final

from headgate.kube.field_errors import quote

MAX_DEPTH: Final = 250
"""The limit for nested lists and objects. Go's limit is 10,000; real objects have at most about sixty levels."""

_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_STRING: Final = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)?(?:(?<=[0-9])\.[0-9]*)?(?:(?<=[0-9])[eE][-+]?[0-9]*)?")
_LITERALS: Final = {b"t": b"true", b"f": b"false", b"n": b"null"}
_CLOSING: Final = {b"[": b"]", b"{": b"}"}
_AFTER: Final = {b"[": "after array element", b"{": "after object key:value pair"}


class _SyntaxError(Exception):
    """Raised and caught in this module."""


def syntax_error(body: bytes) -> str:
    """The first error in ``body``; an empty text if there is none."""
    try:
        _scan(body)
    except _SyntaxError as offence:
        return str(offence)
    return ""


def _scan(body: bytes) -> None:
    open_containers: list[bytes] = []
    position = _skip(body, 0)
    while True:
        char = body[position : position + 1]
        if char in _CLOSING and char:
            open_containers.append(char)
            if len(open_containers) > MAX_DEPTH:
                raise _invalid(char, "exceeded max depth")
            position = _skip(body, position + 1)
            if body[position : position + 1] != _CLOSING[char]:
                if char == b"{":
                    position = _key(body, position)
                continue
            open_containers.pop()
            position += 1
        else:
            position = _scalar(body, position)
        position = _close_containers(body, position, open_containers)
        if not open_containers:
            position = _skip(body, position)
            if position < len(body):
                raise _invalid(body[position : position + 1], "after top-level value")
            return


def _close_containers(body: bytes, position: int, open_containers: list[bytes]) -> int:
    """After a value: closes the containers that end here, and stops before the next value."""
    while open_containers:
        position = _skip(body, position)
        container, char = open_containers[-1], body[position : position + 1]
        if char == b",":
            position = _skip(body, position + 1)
            return _key(body, position) if container == b"{" else position
        if char != _CLOSING[container]:
            raise _invalid(char, _AFTER[container])
        open_containers.pop()
        position += 1
    return position


def _key(body: bytes, position: int) -> int:
    if body[position : position + 1] != b'"':
        raise _invalid(body[position : position + 1], "looking for beginning of object key string")
    position = _skip(body, _string(body, position))
    if body[position : position + 1] != b":":
        raise _invalid(body[position : position + 1], "after object key")
    return _skip(body, position + 1)


def _scalar(body: bytes, position: int) -> int:
    char = body[position : position + 1]
    if char == b'"':
        return _string(body, position)
    if literal := _LITERALS.get(char):
        for offset, expected in enumerate(literal):
            found = body[position + offset : position + offset + 1] or b" "
            if found[0] != expected:
                raise _invalid(found, f"in literal {literal.decode()} (expecting {chr(expected)!r})")
        return position + len(literal)
    if char.isdigit() or char == b"-":
        return _number(body, position)
    raise _invalid(char, "looking for beginning of value")


def _string(body: bytes, position: int) -> int:
    match = _STRING.match(body, position)
    end = match.end() if match else position
    char = body[end : end + 1]
    if char == b'"':
        return end + 1
    if char != b"\\":
        raise _invalid(char, "in string literal")
    escape = body[end + 1 : end + 2] or b" "
    if escape != b"u":
        raise _invalid(escape, "in string escape code")
    digits = re.compile(rb"[0-9a-fA-F]*").match(body, end + 2, end + 6)
    stop = digits.end() if digits else end + 2
    raise _invalid(body[stop : stop + 1] or b" ", "in \\u hexadecimal character escape")


def _number(body: bytes, position: int) -> int:
    match = _NUMBER.match(body, position)
    end = match.end() if match else position
    last, following = body[end - 1 : end], body[end : end + 1] or b" "
    if last.isdigit():
        return end
    if last == b".":
        raise _invalid(following, "after decimal point in numeric literal")
    if last == b"-" and end == position + 1:
        raise _invalid(following, "in numeric literal")
    raise _invalid(following, "in exponent of numeric literal")


def _skip(body: bytes, position: int) -> int:
    match = _SPACE.match(body, position)
    return match.end() if match else position


def _invalid(char: bytes, context: str) -> _SyntaxError:
    if not char:
        return _SyntaxError("unexpected end of JSON input")
    return _SyntaxError(f"invalid character {_quote_char(char)} {context}")


def _quote_char(char: bytes) -> str:
    """One byte as Go quotes it: in single quotes, a byte above 127 as the character with that code."""
    if char == b"'":
        return "'\\''"
    if char == b'"':
        return "'\"'"
    return f"'{quote(chr(char[0]))[1:-1]}'"
