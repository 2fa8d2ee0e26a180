"""Commits in SQLite's write-ahead file that SQLite will not be able to read.

After a crash SQLite takes from that file what is whole, up to the first frame whose checksum is wrong, and drops the
rest without a word. The rest of one commit is what a loss of power leaves of a write that nobody was answered. More
than one commit is not: an earlier one had been synced, and answered, before the last one began. Pure; the bytes come
from ``store/file/shell.py``. The format: https://sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from typing import Final

_HEADER_BYTES: Final = 32
_FRAME_BYTES: Final = 24  # before each page
_LITTLE: Final = 0x377F0682
_MASK: Final = 0xFFFFFFFF

Sums = tuple[int, int]


def lost_commits(data: bytes, page_bytes: int) -> int:
    """How many commits end after the last frame that can be read."""
    step = _FRAME_BYTES + page_bytes
    frames = [data[at : at + step] for at in range(_HEADER_BYTES, len(data) - step + 1, step)]
    if not frames:
        return 0
    order = "<" if struct.unpack_from(">I", data) == (_LITTLE,) else ">"
    sums = _summed((0, 0), data[:24], order)
    if sums != struct.unpack_from(">2I", data, 24):
        return _commits(frames, salt=frames[0][8:16])  # without a sound header, the first frame says who belongs here
    salt = data[16:24]
    for number, frame in enumerate(frames):
        sums = _summed(_summed(sums, frame[:8], order), frame[_FRAME_BYTES:], order)
        if frame[8:16] != salt or sums != struct.unpack_from(">2I", frame, 16):
            return _commits(frames[number:], salt)
    return 0


def _commits(frames: list[bytes], salt: bytes) -> int:
    """Frames of an earlier use of the file have another salt; the last frame of a commit has a number of pages."""
    return sum(1 for frame in frames if frame[8:16] == salt and frame[4:8] != b"\0\0\0\0")


def _summed(sums: Sums, data: bytes, order: str) -> Sums:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
