"""JSON that another program wrote, decoded without a limit that its author could use against us.

The C decoder recurses, also over parts that it skips, and gives up with ``RecursionError`` at about a thousand levels;
an API server stores ten thousand. One object that nests that deeply (the ``fieldsV1`` of a pod's managers will do) must
not hide all the others of a list or a watch. So a document that is too deep is read without what lies deeper than
:data:`DEPTH` levels: ``null`` stands there. Whoever must see every level (the API server reading a body) uses
``json_text.py`` instead, which refuses.
"""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar

import msgspec

DEPTH: Final = 250

T = TypeVar("T")

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


class Decoder(Generic[T]):
    """As ``msgspec.json.Decoder``; raises ``msgspec.DecodeError`` and nothing else."""

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
            return self._decode(shallow(data))
        except RecursionError:  # the caller is deep itself
            raise msgspec.DecodeError("the document nests too deeply") from None


_anything: Final[Decoder[Any]] = Decoder(object)


def decode(data: bytes | msgspec.Raw) -> Any:
    """A document of any shape. Raises ``msgspec.DecodeError`` for what is not JSON."""
    return _anything.decode(data)


def shallow(data: bytes, depth: int = DEPTH) -> bytes:
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
