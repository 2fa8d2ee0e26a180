"""Reads SQLite's write-ahead file: the frames that SQLite will apply, and those that it will drop.

After a crash SQLite applies the complete commits before the first frame with a wrong checksum, and drops the rest
without an error. The checksum of a frame is computed from that of the frame before it, and both are stored; so frames
after the wrong one can still be verified. This module does no I/O; the bytes come from
``store/io/high_water_mark_file.py``. The format: https://sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

_HEADER_BYTES: Final = 32
_FRAME_BYTES: Final = 24  # before each page
_BIG_ENDIAN_MAGIC: Final = 0x377F0683  # the magic number of a file whose checksums use big-endian words
_MASK: Final = 0xFFFFFFFF

Checksum = tuple[int, int]


class PageImage(msgspec.Struct, frozen=True):
    """The content of a page in one frame."""

    page: int
    content: bytes


class WALContents(msgspec.Struct, frozen=True):
    """The content of the file, including frames that SQLite drops."""

    pages: Mapping[int, bytes] = {}
    """What SQLite applies: the newest image of each page in the commits before the first wrong frame."""
    lost_commits: int = 0
    """How many commits that SQLite drops end in the file, as far as their frames can be recognized."""
    images: Sequence[PageImage] = ()
    """With ``every_frame``: all frames with a right checksum, oldest first, up to the end of the last commit."""
    doubtful: frozenset[int] = frozenset()
    """The page numbers in frames with a wrong checksum."""


def read(data: bytes, page_bytes: int, *, every_frame: bool = False) -> WALContents:
    """The content of the write-ahead file ``data``. With ``every_frame``, also of frames after the first wrong one."""
    step = _FRAME_BYTES + page_bytes
    count = max(len(data) - _HEADER_BYTES, 0) // step
    if not count:
        return WALContents()
    frames = [data[offset : offset + step] for offset in range(_HEADER_BYTES, _HEADER_BYTES + count * step, step)]
    byte_order = ">" if struct.unpack_from(">I", data) == (_BIG_ENDIAN_MAGIC,) else "<"
    first = _checksum((0, 0), data[:24], byte_order)
    sound = first == _stored_checksum(data, 24)  # whether the header of the file matches its checksum
    salt = data[16:24] if sound else frames[0][8:16]  # each frame repeats the salt of the header
    committed_frames = _committed_frames(frames, first, salt, byte_order) if sound else 0
    pages = {_page(frame): frame[_FRAME_BYTES:] for frame in frames[:committed_frames]}
    rest = frames[committed_frames:]
    lost = sum(1 for frame in rest if frame[8:16] == salt and _ends_commit(frame))
    if not every_frame:
        return WALContents(pages, lost)
    before = first if sound else None
    images, doubtful = _sound_frames(frames[: _frames_to_last_commit(frames, salt)], before, salt, byte_order)
    return WALContents(pages, lost, images, doubtful)


def _committed_frames(frames: Sequence[bytes], checksum: Checksum, salt: bytes, byte_order: str) -> int:
    """The number of frames in the complete commits before the first wrong frame."""
    committed_frames = 0
    for number, frame in enumerate(frames, 1):
        if not _is_valid_frame(frame, checksum, salt, byte_order):
            break
        checksum = _stored_checksum(frame, 16)
        if _ends_commit(frame):
            committed_frames = number
    return committed_frames


def _frames_to_last_commit(frames: Sequence[bytes], salt: bytes) -> int:
    """The number of frames up to the end of the last commit."""
    ends = (number for number, frame in enumerate(frames, 1) if frame[8:16] == salt and _ends_commit(frame))
    return max(ends, default=0)


def _sound_frames(
    frames: Sequence[bytes], checksum: Checksum | None, salt: bytes, byte_order: str
) -> tuple[list[PageImage], frozenset[int]]:
    """The frames with a right checksum, and the page numbers of the others."""
    images: list[PageImage] = []
    doubtful: set[int] = set()
    for frame in frames:
        if checksum is not None and _is_valid_frame(frame, checksum, salt, byte_order):
            images.append(PageImage(_page(frame), frame[_FRAME_BYTES:]))
        else:
            doubtful.add(_page(frame))
        checksum = _stored_checksum(frame, 16)
    return images, frozenset(doubtful)


def _is_valid_frame(frame: bytes, checksum: Checksum, salt: bytes, byte_order: str) -> bool:
    found = _checksum(_checksum(checksum, frame[:8], byte_order), frame[_FRAME_BYTES:], byte_order)
    return frame[8:16] == salt and _page(frame) > 0 and found == _stored_checksum(frame, 16)


def _stored_checksum(data: bytes, offset: int) -> Checksum:
    first, second = struct.unpack_from(">2I", data, offset)
    return int(first), int(second)


def _page(frame: bytes) -> int:
    return int.from_bytes(frame[:4], "big")


def _ends_commit(frame: bytes) -> bool:
    """The last frame of a commit has the size of the database in pages."""
    return frame[4:8] != b"\0\0\0\0"


def _checksum(checksum: Checksum, data: bytes, byte_order: str) -> Checksum:
    first, second = checksum
    words = struct.unpack(f"{byte_order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second
