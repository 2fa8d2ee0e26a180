"""The high-water mark: the last acknowledged commit, recorded in a small file beside the database.

SQLite drops damaged commits from the end of its write-ahead file without an error. So each commit is numbered and
contains the seal of the one before it (``store/log_head.py``). After a commit is synced, and before it is acknowledged,
its number and seal are written to this file and synced. If the last commit of a store is older than its mark, the store
has lost acknowledged commits.

The file has two records, each in its own disk sector, which are written in turn: an interrupted write damages only the
older one. A record is written only after its commit is on disk. Therefore:

| newest record | last commit of the store | meaning |
|---|---|---|
| n | n | complete |
| n | n + 1 | the process ended between the two writes: commit n + 1 was not acknowledged, and is kept |
| n, refused | n + 1 | commit n + 1 was answered with an error: it is removed |
| n, the other record cannot be read | n + 1 | the write of the record was interrupted, or it is damaged: kept |
| n, the other record cannot be read | n | a record of a later commit is damaged, and the commit is missing: damage |
| n | anything else | damage |

This module does no I/O; ``store/io/high_water_mark_file.py`` reads and writes the file.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import Final

import msgspec

from headgate.store.item import Revision
from headgate.store.log_head import LogHead

RECORD_BYTES: Final = 512  # a disk writes so many bytes atomically
RECORDS_AT: Final = (0, 4096)
FILE_BYTES: Final = 8192

_MAGIC: Final = b"headgate mark 1\n"
_FIELDS: Final = Struct(">QqQqqQ")
_DIGEST_BYTES: Final = 32
_FOREIGN: Final = "the high-water mark beside it belongs to another store"


class HighWaterMark(msgspec.Struct, frozen=True):
    """One record."""

    number: int
    """Counts the records that were written. Even and odd numbers have different offsets."""
    store: int
    """The identity of the store: files of two stores may have been mixed up."""
    commits: int
    """The last acknowledged commit."""
    revision: Revision
    """The newest revision as of that commit."""
    seal: int
    """The seal of that commit's head."""
    refused: bool = False
    """Whether a later commit was answered with an error and must not be served."""

    def encode(self) -> bytes:
        payload = _MAGIC + _FIELDS.pack(
            self.number, self.store, self.commits, self.revision, self.seal, int(self.refused)
        )
        return (payload + sha256(payload).digest()).ljust(RECORD_BYTES, b"\0")

    @property
    def offset(self) -> int:
        """The offset of the record in the file."""
        return RECORDS_AT[self.number % 2]

    def next_for(self, head: LogHead) -> HighWaterMark:
        """The record of a commit that was synced after this one."""
        return HighWaterMark(self.number + 1, head.store, head.commits, head.revision, head.seal)

    def as_refused(self) -> HighWaterMark:
        """The record which says that commits after the acknowledged one were refused."""
        return msgspec.structs.replace(self, number=self.number + 1, refused=True)


class HighWaterMarks(msgspec.Struct, frozen=True):
    """The content of the file."""

    newest: HighWaterMark
    complete: bool = True
    """Whether both records can be read."""


def first_mark(head: LogHead) -> HighWaterMark:
    """The mark of a new store."""
    return HighWaterMark(1, head.store, head.commits, head.revision, head.seal)


def encode_file(newest: HighWaterMark) -> bytes:
    """The content of a new file with this mark."""
    before = msgspec.structs.replace(newest, number=newest.number - 1)
    data = bytearray(FILE_BYTES)
    for each in (before, newest):
        data[each.offset : each.offset + RECORD_BYTES] = each.encode()
    return bytes(data)


def read(data: bytes) -> HighWaterMarks | str:
    """The marks in the file; a ``str`` says why they cannot be read."""
    found = [
        each for offset in RECORDS_AT if (each := decode(data[offset : offset + RECORD_BYTES], offset)) is not None
    ]
    if not found:
        return "neither of its two records can be read"
    if len({each.store for each in found}) > 1:
        return "its two records belong to different stores"
    newest = max(found, key=lambda each: each.number)
    if len(found) == 2 and abs(found[0].number - found[1].number) != 1:
        return "its two records do not follow each other"
    return HighWaterMarks(newest, complete=len(found) == 2)


def decode(record: bytes, offset: int) -> HighWaterMark | None:
    """The record at ``offset``; ``None`` if it does not match its checksum or belongs at the other offset."""
    end = len(_MAGIC) + _FIELDS.size
    payload = record[:end]
    if record[end : end + _DIGEST_BYTES] != sha256(payload).digest() or not payload.startswith(_MAGIC):
        return None
    number, store, commits, revision, seal, refused = _FIELDS.unpack(payload[len(_MAGIC) :])
    mark = HighWaterMark(number, store, commits, Revision(revision), seal, bool(refused))
    return mark if mark.offset == offset else None


def mismatch(marks: HighWaterMarks, head: LogHead) -> str | None:
    """Why a store that ends at ``head`` does not match its marks; ``None`` if it does."""
    mark = marks.newest
    if head.store != mark.store:
        return _FOREIGN
    if head.commits < mark.commits:
        return _missing(head, mark)
    if head.commits == mark.commits:
        if head.seal != mark.seal:
            return f"commit {head.commits} is not the one that was acknowledged"
        if not marks.complete:
            return (
                "one record of the high-water mark cannot be read, so that the last acknowledged commit may be "
                f"missing; everything up to revision {head.revision} can be read"
            )
        return None
    if head.commits > mark.commits + 1:
        return (
            f"the high-water mark is older than the store: it records {mark.commits} commits, "
            f"and the store has {head.commits}"
        )
    return None if head.previous == mark.seal else f"commit {mark.commits} is not the one that was acknowledged"


def mismatch_while_served(marks: HighWaterMarks, head: LogHead) -> str | None:
    """Like :func:`mismatch`, for a store that a server may be writing to. ``marks`` were read before ``head``."""
    if head.store != marks.newest.store:
        return _FOREIGN
    return _missing(head, marks.newest) if head.commits < marks.newest.commits else None


def _missing(head: LogHead, mark: HighWaterMark) -> str:
    commits = mark.commits - head.commits
    count = "1 acknowledged commit is" if commits == 1 else f"{commits} acknowledged commits are"
    if mark.revision > head.revision:
        lost = f"revisions {head.revision + 1} to {mark.revision}"
        if mark.revision == head.revision + 1:
            lost = f"revision {mark.revision}"
    else:
        lost = "without new revisions"
    return f"{count} missing ({lost}); everything up to revision {head.revision} can be read"


def is_ahead(marks: HighWaterMarks, head: LogHead) -> bool:
    """Whether the store has a commit that was never acknowledged."""
    return head.commits > marks.newest.commits


def is_refused(marks: HighWaterMarks, head: LogHead) -> bool:
    """Whether the store has a commit that was answered with an error and must be removed."""
    return is_ahead(marks, head) and marks.newest.refused and marks.complete
