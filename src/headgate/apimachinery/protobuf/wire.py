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

_UINT64_MASK: Final = (1 << 64) - 1
_MAX_SHIFT: Final = 63

UNEXPECTED_EOF: Final = "unexpected EOF"
_OVERFLOW: Final = "proto: integer overflow"
_NEGATIVE_LENGTH: Final = "proto: negative length found during unmarshaling"
_END_OF_GROUP: Final = "proto: unexpected end of group"


class ProtobufError(Exception):
    """Invalid bytes, with the complete text. Raised and caught in this package."""


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The unsigned 64-bit number at ``position``, and where it ends."""
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64_MASK, position
        shift += 7
        if shift > _MAX_SHIFT:
            raise ProtobufError(_OVERFLOW)
    raise ProtobufError(UNEXPECTED_EOF)


def fixed64(data: bytes, position: int, end: int) -> tuple[int, int]:
    if position + 8 > end:
        raise ProtobufError(UNEXPECTED_EOF)
    return int.from_bytes(data[position : position + 8], "little"), position + 8


def signed32(value: int) -> int:
    """The lower 32 bits as a signed number."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def length(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The start and the end of a length-delimited field."""
    size, position = varint(data, position, end)
    if (position + size) >> 63:
        raise ProtobufError(_NEGATIVE_LENGTH)
    if position + size > end:
        raise ProtobufError(UNEXPECTED_EOF)
    return position, position + size


def skip(data: bytes, position: int, end: int) -> int:
    """The position after the field whose tag is at ``position``; a group is skipped with its content."""
    depth = 0
    while position < end:
        tag, position = varint(data, position, end)
        match tag & 7:
            case 0:
                _, position = varint(data, position, end)
            case 1:
                position += 8
            case 2:
                size, position = varint(data, position, end)
                if size >> 63 or (position + size) >> 63:
                    raise ProtobufError(_NEGATIVE_LENGTH)
                position += size
            case 3:
                depth += 1
            case 4:
                if not depth:
                    raise ProtobufError(_END_OF_GROUP)
                depth -= 1
            case 5:
                position += 4
            case other:
                raise ProtobufError(f"proto: illegal wireType {other}")
        if not depth:
            break
    if depth or position > end:
        raise ProtobufError(UNEXPECTED_EOF)
    return position


def text(data: bytes, start: int, stop: int) -> str:
    """UTF-8 text; invalid bytes are replaced as in a JSON body."""
    return str(data[start:stop], "utf-8", "headgate-go")
