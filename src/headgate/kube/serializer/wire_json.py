"""JSON of another program, decoded without a depth limit that its author could exploit.

The C decoder recurses, also over parts that it skips, and raises ``RecursionError`` at about a thousand levels; an API
server stores ten thousand. One deeply nested object (the ``fieldsV1`` of a pod's managers will do) must not hide all
others of a list or a watch. A document that is too deep is therefore read without the parts below
:data:`MAX_KEPT_DEPTH` levels: they become ``null``. The API server needs every level of a body and uses
``json_decoder.py``, which refuses.
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

    def __init__(self, wanted: type[T]) -> None:
        self._decode: Final = msgspec.json.Decoder(wanted).decode

    def decode(self, data: bytes | msgspec.Raw) -> T:
        try:
            return self._decode(data)
        except RecursionError:
            return self._decode_shallow(bytes(data))

    def _decode_shallow(self, data: bytes) -> T:
        try:
            return self._decode(truncate_depth(data))
        except RecursionError:  # the caller is deep itself
            raise msgspec.DecodeError("the document nests too deeply") from None


_anything: Final[WireDecoder[Any]] = WireDecoder(object)


def decode(data: bytes | msgspec.Raw) -> Any:
    """A document of any shape. Raises ``msgspec.DecodeError`` for what is not JSON."""
    return _anything.decode(data)


def truncate_depth(data: bytes, depth: int = MAX_KEPT_DEPTH) -> bytes:
    """``data`` with ``null`` in place of every list and object inside ``depth`` others. Takes linear time."""
    kept: list[bytes] = []
    level, copied = 0, 0
    for token in _TOKEN.finditer(data):
        sign = data[token.start()]
        if sign in b"[{":
            level += 1
            if level == depth + 1:
                kept += (data[copied : token.start()], b"null")
        elif sign in b"]}":
            level -= 1
            if level == depth:
                copied = token.end()
    if level > depth:  # it does not end; the decoder will say so
        return b"".join(kept)
    return b"".join((*kept, data[copied:]))
