"""The frame of a recording: a first line, then blocks that are compressed and checked one by one.

A block is its length, its checksum, and the compressed records. A block is written as a whole, so a process that is
killed loses at most the block that it was collecting. A reader that finds a block that is cut off or damaged stops
there and says where: the blocks before it are sound, and later blocks depend on the lost ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

import msgspec

MAGIC: Final = b"headgate recording 1\n"
_HEAD: Final = Struct(">II")
_LEVEL: Final = 6
MAX_BLOCK_BYTES: Final = 64 * 1024 * 1024
"""A larger length is damage. The recorder closes a block far below this size."""


class RecordingDamage(msgspec.Struct, frozen=True):
    """``offset``: the first byte that could not be used. ``is_torn``: the file merely ends within a block, as after a
    kill or a power failure; a recorder that continues the file removes this rest."""

    offset: int
    problem: str
    is_torn: bool = False

    def __str__(self) -> str:
        return f"{self.problem} at byte {self.offset}; everything before it was read"


def encode_block(payload: bytes) -> bytes:
    compressed = zlib.compress(payload, _LEVEL)
    return _HEAD.pack(len(compressed), zlib.crc32(compressed)) + compressed


class BlockDecoder:
    """Takes the bytes of a file in pieces of any size, and returns the payloads of complete blocks."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._offset = 0  # of the first byte of ``_rest``
        self._has_magic = False
        self.damage: RecordingDamage | None = None

    @property
    def offset(self) -> int:
        """The end of the last complete block."""
        return self._offset

    def feed(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yields payloads, each with the offset of the end of its block."""
        if self.damage is not None:
            return
        self._rest += data
        if not self._has_magic and not self._read_magic():
            return
        while (payload := self._next()) is not None:
            yield payload, self._offset

    def finish(self) -> RecordingDamage | None:
        """Call it at the end of the file."""
        if self.damage is None and (self._rest or not self._has_magic):
            problem = "the file ends within a block" if self._has_magic else "the file ends within its first line"
            self.damage = RecordingDamage(self._offset, problem, is_torn=True)
        return self.damage

    def _read_magic(self) -> bool:
        found = bytes(self._rest[: len(MAGIC)])
        if found != MAGIC[: len(found)]:
            self.damage = RecordingDamage(0, "this is not a recording of Headgate, or of another version")
            return False
        if len(found) < len(MAGIC):
            return False
        self._has_magic = True
        self._drop(len(MAGIC))
        return True

    def _next(self) -> bytes | None:
        if len(self._rest) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack_from(self._rest)
        if not 0 < length <= MAX_BLOCK_BYTES:
            self.damage = RecordingDamage(self._offset, "the length of a block is damaged")
            return None
        if len(self._rest) < _HEAD.size + length:
            return None
        compressed = bytes(self._rest[_HEAD.size : _HEAD.size + length])
        if zlib.crc32(compressed) != checksum:
            self.damage = RecordingDamage(self._offset, "a block does not match its checksum")
            return None
        stream = zlib.decompressobj()
        try:
            payload = stream.decompress(compressed, MAX_BLOCK_BYTES)
        except zlib.error as error:
            self.damage = RecordingDamage(self._offset, f"a block cannot be decompressed ({error})")
            return None
        if not stream.eof:
            self.damage = RecordingDamage(self._offset, "a block does not end, or is too large")
            return None
        self._drop(_HEAD.size + length)
        return payload

    def _drop(self, count: int) -> None:
        del self._rest[:count]
        self._offset += count
