"""The head of the log: one row with the newest revision, the number of rows and the sum of their checksums. Every
commit rewrites it, and it contains a *seal*, which is a checksum of the head itself.

With these totals the server detects a row that is lost, changed, or present again after its deletion. When rows are
added or removed, only their own checksums are added to or subtracted from the sum, so the cost of a commit does not
grow with the log. Commits are numbered, and each head contains the seal of the head before it:
``store/high_water_mark.py`` compares both with the last acknowledged commit.

**Revisions after a crash.** A process may end after it issued revisions that are not recorded. The next process
therefore starts ``CRASH_GAP`` above the last recorded revision, and records that before it serves (``first_revision``).
A clean stop records the exact revision and leaves no gap. A restored copy starts ``RESTORE_GAP`` above its own
revision: the original store continued, and clients have seen revisions that the copy does not contain.
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
"""The format before commits were numbered. Its files can be read, and the start of a server upgrades them."""
CRASH_GAP: Final = 1 << 16
RESTORE_GAP: Final = 1 << 40  # years of writes at the highest rate of this server; thousands of restores are possible

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
_MODULUS: Final = 1 << 64


class LogTotals(msgspec.Struct, frozen=True):
    """How many rows there are, and the sum of their checksums."""

    rows: int = 0
    digest: int = 0  # signed, in 64 bits

    def plus(self, checksums: Iterable[int]) -> LogTotals:
        return self._add(checksums, 1)

    def minus(self, checksums: Iterable[int]) -> LogTotals:
        return self._add(checksums, -1)

    def _add(self, checksums: Iterable[int], sign: int) -> LogTotals:
        rows, digest = self.rows, self.digest
        for checksum in checksums:
            rows, digest = rows + sign, digest + sign * checksum
        return LogTotals(rows, (digest + _MODULUS // 2) % _MODULUS - _MODULUS // 2)


class LogHead(msgspec.Struct, frozen=True):
    revision: Revision = Revision(0)
    """The highest revision that is known to be issued."""
    oldest: Revision = Revision(0)
    clean: bool = True
    """Whether the last process stopped cleanly, so that no revision above ``revision`` was issued."""
    totals: LogTotals = LogTotals()
    store: int = 0
    """The random identity of the store; 0 in a file of the format without numbered commits."""
    commits: int = 0
    """The number of commits since the store was created."""
    previous: int = 0
    """The seal of the head before this one."""

    @property
    def seal(self) -> int:
        return _seal(self._values())

    def row(self) -> tuple[int, ...]:
        values = self._values()
        return (*values, _seal(values))

    def _values(self) -> tuple[int, ...]:
        return (
            self.revision,
            self.oldest,
            int(self.clean),
            self.totals.rows,
            self.totals.digest,
            self.store,
            self.commits,
            self.previous,
        )

    def first_revision(self) -> Revision:
        """The revision from which a process that opens the file continues."""
        return self.revision if self.clean else Revision(self.revision + CRASH_GAP)

    def restored(self, store: int) -> LogHead:
        """The head of a restored copy. No watch of the original can be resumed in it."""
        revision = Revision(self.revision + RESTORE_GAP)
        return LogHead(revision, oldest=revision, clean=True, totals=self.totals, store=store)

    def mismatch(self, found: LogTotals) -> str | None:
        """Why the totals of the rows in the file are wrong; ``None`` if they are right."""
        if found.rows != self.totals.rows:
            return f"it holds {found.rows} rows and should hold {self.totals.rows}"
        if found.digest != self.totals.digest:
            return f"its {found.rows} rows are not those that were written"
        return None


def read(rows: Sequence[Sequence[Any]]) -> LogHead | None:
    """The head in the rows of its table; ``None`` if it does not match its seal."""
    if len(rows) != 1 or len(rows[0]) - 2 not in (_UNCHAINED_COLUMNS, _COLUMNS):
        return None
    identity, *values, seal = rows[0]
    if identity != 1 or not all(isinstance(value, int) for value in values) or seal != _seal(values):
        return None
    revision, oldest, clean, count, digest, *chain = values
    return LogHead(Revision(revision), Revision(oldest), bool(clean), LogTotals(count, digest), *chain)


def foreign_file_problem(application_id: int, user_version: int, tables: int) -> str | None:
    """Why this file must not be changed, or ``None`` if it is a store or empty."""
    if application_id == 0 and user_version == 0 and tables == 0:
        return None
    if application_id != APPLICATION_ID:
        return "is not a Headgate store: move it away, or choose another data folder"
    if user_version > FORMAT:
        return f"has format {user_version}, and this Headgate reads up to {FORMAT}: install a newer Headgate"
    if user_version < UNCHAINED:
        return f"has format {user_version}, which no release has written: move it away, or choose another data folder"
    return None


def _seal(values: Sequence[int]) -> int:
    digest = sha256(b",".join([b"%d" % value for value in values])).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
