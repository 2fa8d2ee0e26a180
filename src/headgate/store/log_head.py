"""The one row that says what the log as a whole must be: its newest revision, its number of rows, the sum of their
checksums. It is rewritten in the transaction of every commit and carries a seal over itself.

So a row that vanished, came back or changed is noticed even if all others are sound. Adding and removing rows changes
the sum by their checksums only, so keeping it costs nothing that grows with the log. Commits are numbered, and each
head carries the seal of the one before it: ``store/high_water_mark.py`` compares them with what was acknowledged.

**Numbers after a crash.** A process may die with revisions handed out and not recorded. The next one therefore starts
``BLOCK`` above the last recorded revision, and records that before it serves (``start``). A clean stop records the
exact number and leaves no gap. A restored copy starts ``RESTORED`` above its own: the store that it was taken from went
on, and its clients have seen numbers that the copy does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from headgate.store.item import Revision

APPLICATION_ID: Final = 0x48474154  # "HGAT", in the header of the file
FORMAT: Final = 4
UNCHAINED: Final = 3
"""The format before commits were numbered. Its files can be read, and are brought to the present format at a start."""
BLOCK: Final = 1 << 16
RESTORED: Final = 1 << 40  # years of writes at any rate this server reaches, and room for thousands of restores

CREATE: Final = """CREATE TABLE head (
        id INTEGER PRIMARY KEY,
        revision INTEGER NOT NULL,
        oldest INTEGER NOT NULL,
        clean INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        digest INTEGER NOT NULL,
        store INTEGER NOT NULL,
        commits INTEGER NOT NULL,
        previous INTEGER NOT NULL,
        seal INTEGER NOT NULL
    )"""
CREATE_UNCHAINED: Final = """CREATE TABLE head (
        id INTEGER PRIMARY KEY,
        revision INTEGER NOT NULL,
        oldest INTEGER NOT NULL,
        clean INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        digest INTEGER NOT NULL,
        seal INTEGER NOT NULL
    )"""
READ: Final = "SELECT * FROM head"
WRITE: Final = "INSERT OR REPLACE INTO head VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_COLUMNS: Final = 8
_UNCHAINED_COLUMNS: Final = 5
_WRAP: Final = 1 << 64


class LogTotals(msgspec.Struct, frozen=True):
    """How many rows there are, and the sum of their checksums."""

    rows: int = 0
    digest: int = 0  # signed, in 64 bits

    def plus(self, checksums: Iterable[int]) -> LogTotals:
        return self._moved(checksums, 1)

    def minus(self, checksums: Iterable[int]) -> LogTotals:
        return self._moved(checksums, -1)

    def _moved(self, checksums: Iterable[int], sign: int) -> LogTotals:
        rows, digest = self.rows, self.digest
        for checksum in checksums:
            rows, digest = rows + sign, digest + sign * checksum
        return LogTotals(rows, (digest + _WRAP // 2) % _WRAP - _WRAP // 2)


class LogHead(msgspec.Struct, frozen=True):
    revision: Revision = Revision(0)
    """The highest number that is known to be handed out."""
    oldest: Revision = Revision(0)
    clean: bool = True
    """Whether the last process stopped in order, so that no higher number than ``revision`` was ever handed out."""
    tally: LogTotals = LogTotals()
    store: int = 0
    """A random number that tells this store from any other; 0 in a file of the format without numbered commits."""
    commits: int = 0
    """How many commits there have been since the store was made."""
    previous: int = 0
    """The seal of the head before this one."""

    @property
    def seal(self) -> int:
        return _seal(self._said())

    def row(self) -> tuple[int, ...]:
        said = self._said()
        return (*said, _seal(said))

    def _said(self) -> tuple[int, ...]:
        return (
            self.revision,
            self.oldest,
            int(self.clean),
            self.tally.rows,
            self.tally.digest,
            self.store,
            self.commits,
            self.previous,
        )

    def start(self) -> Revision:
        """Where a process that opens the file begins to count."""
        return self.revision if self.clean else Revision(self.revision + BLOCK)

    def restored(self, store: int) -> LogHead:
        """The head of a copy that goes on where the original went on without it: no watch may be resumed in it."""
        revision = Revision(self.revision + RESTORED)
        return LogHead(revision, oldest=revision, clean=True, tally=self.tally, store=store)

    def mismatch(self, found: LogTotals) -> str | None:
        """What is wrong with the rows that were found, each of them sound."""
        if found.rows != self.tally.rows:
            return f"it holds {found.rows} rows and should hold {self.tally.rows}"
        if found.digest != self.tally.digest:
            return f"its {found.rows} rows are not those that were written"
        return None


def read(rows: Sequence[Sequence[Any]]) -> LogHead | None:
    """The head, or ``None`` if it is not what was written."""
    if len(rows) != 1 or len(rows[0]) - 2 not in (_UNCHAINED_COLUMNS, _COLUMNS):
        return None
    identity, *said, seal = rows[0]
    if identity != 1 or not all(isinstance(value, int) for value in said) or seal != _seal(said):
        return None
    revision, oldest, clean, count, digest, *chain = said
    return LogHead(Revision(revision), Revision(oldest), bool(clean), LogTotals(count, digest), *chain)


def foreign_file_problem(application_id: int, user_version: int, tables: int) -> str | None:
    """Why this file must not be touched, or ``None`` if it is ours or empty."""
    if application_id == 0 and user_version == 0 and tables == 0:
        return None
    if application_id != APPLICATION_ID:
        return "is not a Headgate store: move it away, or choose another data folder"
    if user_version > FORMAT:
        return f"has format {user_version}, and this Headgate reads up to {FORMAT}: install the newer Headgate again"
    if user_version < UNCHAINED:
        return f"has format {user_version}, which no release has written: move it away, or choose another data folder"
    return None


def _seal(said: Sequence[int]) -> int:
    digest = sha256(b",".join([b"%d" % value for value in said])).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
