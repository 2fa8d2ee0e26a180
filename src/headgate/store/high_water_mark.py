"""How far a store has to reach: the last acknowledged commit, recorded in a small file beside the database.

SQLite drops damaged commits from the end of its write-ahead file without a word. So each commit is numbered and carries
the seal of the one before it (``store/log_head.py``), and after it is synced, and before it is acknowledged, its number
and seal are written and synced here. A store that ends before its mark has lost acknowledged commits.

There are two records, each in a disk sector of its own, written in turn: an interrupted write damages the older one. A
record is written only after its commit is on disk. Therefore:

| the newest record says | the store ends at | meaning |
|---|---|---|
| n | n | all is there |
| n | n + 1 | the process ended between the two writes: not acknowledged, and kept |
| n, refused | n + 1 | the commit was answered with an error: it is taken out |
| n, the other record cannot be read | n + 1 | the write of the record was interrupted, or it is damaged: kept |
| n, the other record cannot be read | n | a record of a later commit is damaged, and the commit is missing: damage |
| n | anything else | damage |

Pure; ``store/io/high_water_mark_file.py`` reads and writes the file.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import Final

import msgspec

from headgate.store.item import Revision
from headgate.store.log_head import LogHead

RECORD_BYTES: Final = 512  # what a disk writes whole
RECORDS_AT: Final = (0, 4096)
FILE_BYTES: Final = 8192

_MAGIC: Final = b"headgate mark 1\n"
_FIELDS: Final = Struct(">QqQqqQ")
_DIGEST_BYTES: Final = 32
_FOREIGN: Final = "the high-water mark beside it belongs to another store"


class HighWaterMark(msgspec.Struct, frozen=True):
    """One record."""

    number: int
    """Counts the records that were written; its parity says which of the two places it has."""
    store: int
    """Which store this is about: files of two stores may have been mixed up."""
    commits: int
    """The last acknowledged commit."""
    revision: Revision
    """The newest revision as of that commit."""
    seal: int
    """The seal of that commit's head."""
    refused: bool = False
    """A later commit was answered with an error, and must not come back."""

    def encode(self) -> bytes:
        said = _MAGIC + _FIELDS.pack(self.number, self.store, self.commits, self.revision, self.seal, int(self.refused))
        return (said + sha256(said).digest()).ljust(RECORD_BYTES, b"\0")

    @property
    def place(self) -> int:
        """Where in the file the record stands."""
        return RECORDS_AT[self.number % 2]

    def following(self, head: LogHead) -> HighWaterMark:
        """The record of a commit that was synced after this one."""
        return HighWaterMark(self.number + 1, head.store, head.commits, head.revision, head.seal)

    def refusing(self) -> HighWaterMark:
        """The record that nothing after the acknowledged commit counts."""
        return msgspec.structs.replace(self, number=self.number + 1, refused=True)


class HighWaterMarks(msgspec.Struct, frozen=True):
    """What the file says."""

    newest: HighWaterMark
    whole: bool = True
    """Whether both records can be read."""


def first(head: LogHead) -> HighWaterMark:
    """The mark of a store that is being made."""
    return HighWaterMark(1, head.store, head.commits, head.revision, head.seal)


def contents(newest: HighWaterMark) -> bytes:
    """A whole file that says this and nothing else."""
    before = msgspec.structs.replace(newest, number=newest.number - 1)
    data = bytearray(FILE_BYTES)
    for each in (before, newest):
        data[each.place : each.place + RECORD_BYTES] = each.encode()
    return bytes(data)


def read(data: bytes) -> HighWaterMarks | str:
    """What the file says, or why that cannot be told."""
    found = [each for place in RECORDS_AT if (each := decode(data[place : place + RECORD_BYTES], place)) is not None]
    if not found:
        return "neither of its two records can be read"
    if len({each.store for each in found}) > 1:
        return "its two records belong to different stores"
    newest = max(found, key=lambda each: each.number)
    if len(found) == 2 and abs(found[0].number - found[1].number) != 1:
        return "its two records do not follow each other"
    return HighWaterMarks(newest, whole=len(found) == 2)


def decode(record: bytes, place: int) -> HighWaterMark | None:
    end = len(_MAGIC) + _FIELDS.size
    said = record[:end]
    if record[end : end + _DIGEST_BYTES] != sha256(said).digest() or not said.startswith(_MAGIC):
        return None
    number, store, commits, revision, seal, refused = _FIELDS.unpack(said[len(_MAGIC) :])
    mark = HighWaterMark(number, store, commits, Revision(revision), seal, bool(refused))
    return mark if mark.place == place else None


def mismatch(marks: HighWaterMarks, head: LogHead) -> str | None:
    """What is wrong with a store that ends at ``head``, if anything is."""
    mark = marks.newest
    if head.store != mark.store:
        return _FOREIGN
    if head.commits < mark.commits:
        return _missing(head, mark)
    if head.commits == mark.commits:
        if head.seal != mark.seal:
            return f"commit {head.commits} is not the one that was acknowledged"
        if not marks.whole:
            return (
                "one record of the high-water mark cannot be read, so that the last acknowledged commit may be "
                f"missing; everything up to revision {head.revision} can be read"
            )
        return None
    if head.commits > mark.commits + 1:
        return (
            f"the high-water mark is older than the store: it knows of {mark.commits} commits, "
            f"and the store has {head.commits}"
        )
    return None if head.previous == mark.seal else f"commit {mark.commits} is not the one that was acknowledged"


def mismatch_while_served(before: HighWaterMarks, head: LogHead) -> str | None:
    """What is wrong with a store that is being written to, and that was read after its mark."""
    if head.store != before.newest.store:
        return _FOREIGN
    return _missing(head, before.newest) if head.commits < before.newest.commits else None


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
    """Whether that commit was answered with an error, and has to be taken out."""
    return is_ahead(marks, head) and marks.newest.refused and marks.whole
