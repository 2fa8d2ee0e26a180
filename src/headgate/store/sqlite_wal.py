"""What SQLite's write-ahead file holds: what SQLite will take from it, and what it will leave out.

After a crash SQLite takes the commits that are whole, up to the first frame whose checksum is wrong, and drops the rest
without a word. The checksum of a frame goes on from that of the frame before it, which is stored too; so a frame behind
the wrong one can still be told to be sound by itself. Pure; the bytes come from ``store/io/database_file.py``.
The format: https://sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

_HEADER_BYTES: Final = 32
_FRAME_BYTES: Final = 24  # before each page
_BIG: Final = 0x377F0683  # in the header of a file whose checksums are of big-endian words
_MASK: Final = 0xFFFFFFFF

Sums = tuple[int, int]


class PageImage(msgspec.Struct, frozen=True):
    """A page as one frame has it."""

    page: int
    content: bytes


class WALContents(msgspec.Struct, frozen=True):
    """The file, read as SQLite reads it, and beyond."""

    pages: Mapping[int, bytes] = {}
    """What SQLite takes: the newest image of each page in the commits before the first wrong frame."""
    lost_commits: int = 0
    """How many commits seem to end behind the last one that SQLite takes."""
    images: Sequence[PageImage] = ()
    """Every frame that is sound by itself, oldest first, up to the end of the last commit; if it was asked for."""
    doubtful: frozenset[int] = frozenset()
    """Pages of frames that are not sound, as far as their numbers can be read."""


def read(data: bytes, page_bytes: int, *, every_frame: bool = False) -> WALContents:
    """With ``every_frame`` also what lies behind the first wrong frame."""
    step = _FRAME_BYTES + page_bytes
    count = max(len(data) - _HEADER_BYTES, 0) // step
    if not count:
        return WALContents()
    frames = [data[at : at + step] for at in range(_HEADER_BYTES, _HEADER_BYTES + count * step, step)]
    order = ">" if struct.unpack_from(">I", data) == (_BIG,) else "<"
    first = _summed((0, 0), data[:24], order)
    sound = first == _stored(data, 24)
    salt = data[16:24] if sound else frames[0][8:16]  # the first frame says as well which frames belong to the file
    whole = _whole_commits(frames, first, salt, order) if sound else 0
    pages = {_page(frame): frame[_FRAME_BYTES:] for frame in frames[:whole]}
    rest = frames[whole:]
    lost = sum(1 for frame in rest if frame[8:16] == salt and _ends_commit(frame))
    if not every_frame:
        return WALContents(pages, lost)
    before = first if sound else None
    images, doubtful = _each(frames[: _last_end(frames, salt)], before, salt, order)
    return WALContents(pages, lost, images, doubtful)


def _whole_commits(frames: Sequence[bytes], sums: Sums, salt: bytes, order: str) -> int:
    """How many frames belong to commits before the first wrong frame."""
    whole = 0
    for number, frame in enumerate(frames, 1):
        if not _follows(frame, sums, salt, order):
            break
        sums = _stored(frame, 16)
        if _ends_commit(frame):
            whole = number
    return whole


def _last_end(frames: Sequence[bytes], salt: bytes) -> int:
    """How many frames there are up to the end of the last commit."""
    ends = (number for number, frame in enumerate(frames, 1) if frame[8:16] == salt and _ends_commit(frame))
    return max(ends, default=0)


def _each(
    frames: Sequence[bytes], sums: Sums | None, salt: bytes, order: str
) -> tuple[list[PageImage], frozenset[int]]:
    """The sound frames, and the pages of the others."""
    images: list[PageImage] = []
    doubtful: set[int] = set()
    for frame in frames:
        if sums is not None and _follows(frame, sums, salt, order):
            images.append(PageImage(_page(frame), frame[_FRAME_BYTES:]))
        else:
            doubtful.add(_page(frame))
        sums = _stored(frame, 16)
    return images, frozenset(doubtful)


def _follows(frame: bytes, sums: Sums, salt: bytes, order: str) -> bool:
    found = _summed(_summed(sums, frame[:8], order), frame[_FRAME_BYTES:], order)
    return frame[8:16] == salt and _page(frame) > 0 and found == _stored(frame, 16)


def _stored(data: bytes, at: int) -> Sums:
    first, second = struct.unpack_from(">2I", data, at)
    return int(first), int(second)


def _page(frame: bytes) -> int:
    return int.from_bytes(frame[:4], "big")


def _ends_commit(frame: bytes) -> bool:
    """The last frame of a commit has a number of pages."""
    return frame[4:8] != b"\0\0\0\0"


def _summed(sums: Sums, data: bytes, order: str) -> Sums:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
