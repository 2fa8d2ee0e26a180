"""Decodes JSON of an API server even if it is nested deeply.

The C decoder is recursive and raises ``RecursionError`` at about a thousand levels; an API server stores up to ten
thousand. One deeply nested object (``fieldsV1`` of a pod is enough) must not make a whole list or watch unreadable. A
document that is too deep is therefore decoded without the parts below :data:`MAX_KEPT_DEPTH` levels: they become
``null``. The API server needs every level of a request body and uses ``json_decoder.py``, which rejects such a
document.
"""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar

import msgspec

MAX_KEPT_DEPTH: Final = 250

T = TypeVar("T")

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


class WireDecoder(Generic[T]):
    """Like ``msgspec.json.Decoder``; raises ``msgspec.DecodeError`` and nothing else."""

    __slots__ = ("_decode",)

    def __init__(self, type_: type[T]) -> None:
        self._decode: Final = msgspec.json.Decoder(type_).decode

    def decode(self, data: bytes | msgspec.Raw) -> T:
        try:
            return self._decode(data)
        except RecursionError:
            return self._decode_shallow(bytes(data))

    def _decode_shallow(self, data: bytes) -> T:
        try:
            return self._decode(truncate_depth(data))
        except RecursionError:  # the caller's stack is deep
            raise msgspec.DecodeError("the document nests too deeply") from None


_any_decoder: Final[WireDecoder[Any]] = WireDecoder(object)


def decode(data: bytes | msgspec.Raw) -> Any:
    """Decodes a document of any shape. Raises ``msgspec.DecodeError`` for invalid JSON."""
    return _any_decoder.decode(data)


def truncate_depth(data: bytes, depth: int = MAX_KEPT_DEPTH) -> bytes:
    """``data`` with ``null`` in place of every list and object below ``depth`` levels. Takes linear time."""
    kept: list[bytes] = []
    level, copied = 0, 0
    for token in _TOKEN.finditer(data):
        char = data[token.start()]
        if char in b"[{":
            level += 1
            if level == depth + 1:
                kept += (data[copied : token.start()], b"null")
        elif char in b"]}":
            level -= 1
            if level == depth:
                copied = token.end()
    if level > depth:  # the document is incomplete; the decoder reports that
        return b"".join(kept)
    return b"".join((*kept, data[copied:]))
