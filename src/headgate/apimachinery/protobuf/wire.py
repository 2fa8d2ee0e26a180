"""The wire format of protobuf: varints, tags, lengths, and skipping of unknown fields.

Positions are offsets into one ``bytes``; ``end`` is the end of the current message. Invalid bytes raise
:class:`ProtobufError` with the text of kube-apiserver's decoder; ``messages.py`` turns that into a value.
"""

from __future__ import annotations

from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_WORD: Final = (1 << 64) - 1
_MAX_SHIFT: Final = 63

CUT_SHORT: Final = "unexpected EOF"
_OVERFLOW: Final = "proto: integer overflow"
_NEGATIVE_LENGTH: Final = "proto: negative length found during unmarshaling"
_END_OF_GROUP: Final = "proto: unexpected end of group"


class ProtobufError(Exception):
    """Bytes that are no such message, with the complete text. Never leaves this package."""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at ``at``, of 64 bits without a sign, and where it ends."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WORD, at
        shift += 7
        if shift > _MAX_SHIFT:
            raise ProtobufError(_OVERFLOW)
    raise ProtobufError(CUT_SHORT)


def fixed64(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 8 > end:
        raise ProtobufError(CUT_SHORT)
    return int.from_bytes(data[at : at + 8], "little"), at + 8


def signed32(value: int) -> int:
    """The lower half of a number, as one with a sign."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the bytes that follow begin and end."""
    size, at = varint(data, at, end)
    if (at + size) >> 63:
        raise ProtobufError(_NEGATIVE_LENGTH)
    if at + size > end:
        raise ProtobufError(CUT_SHORT)
    return at, at + size


def skip(data: bytes, at: int, end: int) -> int:
    """Past the field whose tag is at ``at``; a group is left with all that is in it."""
    depth = 0
    while at < end:
        tag, at = varint(data, at, end)
        match tag & 7:
            case 0:
                _, at = varint(data, at, end)
            case 1:
                at += 8
            case 2:
                size, at = varint(data, at, end)
                if size >> 63 or (at + size) >> 63:
                    raise ProtobufError(_NEGATIVE_LENGTH)
                at += size
            case 3:
                depth += 1
            case 4:
                if not depth:
                    raise ProtobufError(_END_OF_GROUP)
                depth -= 1
            case 5:
                at += 4
            case other:
                raise ProtobufError(f"proto: illegal wireType {other}")
        if not depth:
            break
    if depth or at > end:
        raise ProtobufError(CUT_SHORT)
    return at


def text(data: bytes, start: int, stop: int) -> str:
    """Bytes that should be UTF-8; the ones that are not come out as in a JSON body."""
    return str(data[start:stop], "utf-8", "headgate-go")
