"""``Journal``: the file as the one process that serves it uses it. It blocks, and one thread uses it at a time.

A batch goes in whole or not at all: one transaction, synced, and then its high-water mark, synced too
(``store/high_water_mark.py``); only then it counts. What is committed lies in SQLite's write-ahead file until a
checkpoint moves it into the database file, where every byte is covered by a check (``store/io/database_file.py``). What
a row means: ``store/log_rows.py``."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.store import high_water_mark, log_head, log_rows
from headgate.store.high_water_mark import HighWaterMark, HighWaterMarks
from headgate.store.io.database_file import (
    FILE,
    UNREADABLE,
    Progress,
    StoreDamagedError,
    StoreError,
    bring_up_to_date,
    connect,
    explained,
    is_full,
    is_there,
    read_head,
    sound_rows,
    take_folder,
)
from headgate.store.io.high_water_mark_file import (
    MARK,
    HighWaterMarkFile,
    check_reached,
    create_mark,
    new_identity,
    read_marks,
)
from headgate.store.item import Revision
from headgate.store.log_head import LogHead, LogTotals
from headgate.store.memory import Store

_ROW_BYTES: Final = 200  # what a row takes beside its object, roughly
_SHRINK_FROM_PAGES: Final = 500
_SHRINK_STEP_PAGES: Final = 500
_DISK_ERRORS: Final = (OSError, StoreError, sqlite3.OperationalError)
"""What a failing disk raises; anything else is about the write itself."""
_SCRATCH: Final = FILE + "-scratch"
_SCRATCH_BYTES: Final = 16 * 1024 * 1024

Probe = Callable[[str], None]
"""Called at the named points of the file's life: ``begun``, ``compacted``, ``written`` and ``committed`` of each
commit, ``marking`` and ``marked`` of its high-water mark, ``checkpointing`` and ``checkpointed``, and ``answering``, in
the event loop, before a commit is seen."""


class CommitFailed(Exception):
    """The disk refused a write. It did not happen, nor did any other write that was not yet on disk.

    If the disk refused even the record of that, the outcome is ``unknown``: the process does not show the write, and
    takes it out as soon as it can, but one that is killed before may leave it behind.
    """

    def __init__(self, reason: str, *, full: bool = False, unknown: bool = False) -> None:
        super().__init__(reason)
        self.full: Final = full
        self.unknown: Final = unknown


class Journal:
    """The durable log in one folder."""

    def __init__(
        self, folder: Path, lock: int, connection: sqlite3.Connection, marks: HighWaterMarks | None, probe: Probe
    ) -> None:
        self.probe: Final = probe
        self._folder = folder
        self._lock = lock
        self._connection: sqlite3.Connection | None = connection
        self._marks = marks  # as found; None in a file of the format without numbered commits
        self._mark: HighWaterMarkFile | None = None
        self._head = LogHead()  # as it was acknowledged
        self._in_doubt = False  # the file may hold a commit that was not acknowledged
        self._unsettled = False  # and that it was refused could not be recorded
        self._suspect = False  # a sync failed: what was written before it may not be on disk
        self._unsaved_bytes = 0
        self._commit_trouble: str | None = None
        self._checkpoint_trouble: str | None = None

    @classmethod
    def open(cls, folder: Path, probe: Probe = lambda point: None) -> Journal:
        """Takes the folder for this process, and makes it if it is new. Raises ``StoreError``."""
        lock = take_folder(folder)
        try:
            marks = check_reached(folder)
            new = LogHead(store=marks.newest.store if marks is not None else new_identity())
            if marks is None and not is_there(folder / FILE):
                create_mark(folder, high_water_mark.first(new))  # first: whoever finds the file finds the mark
                marks = read_marks(folder)
            return cls(folder, lock, connect(folder / FILE, new), marks, probe)
        except BaseException:
            os.close(lock)
            raise

    @property
    def trouble(self) -> str | None:
        """Why the disk did not carry out the last commit or checkpoint; ``None`` if it did."""
        return self._commit_trouble or self._checkpoint_trouble

    @property
    def unsaved_bytes(self) -> int:
        """Roughly how much was committed since the last checkpoint."""
        return self._unsaved_bytes

    def load(self, progress: Progress = lambda done, total: None) -> Store:
        """Rebuilds the store from the file, and records that a process is at work on it; if it cannot, lets it go."""
        gc.disable()  # everything that is made here stays
        try:
            return self._load(progress)
        except BaseException:
            self._abandon()
            raise
        finally:
            gc.enable()

    def _load(self, progress: Progress) -> Store:
        connection, path = self._connected(), self._folder / FILE
        try:
            found = read_head(connection, path)
            self._take_mark(found)
            last = self._marked().newest.revision if self._in_doubt else None
            store = Store(revision=found.start(), oldest=found.oldest)
            rows = (
                (stored.item, stored.deleted)
                for stored in sound_rows(connection, path, found, progress)
                if last is None or stored.item.revision <= last
            )
            left_over = log_rows.superseded(store.restore(rows))
            self._record(store.committed, clean=False, superseded=left_over)
            self.checkpoint()
        except UNREADABLE as error:
            raise explained(error, path) from error
        except OSError as error:
            raise StoreError(f"{self._folder / MARK} cannot be written: {error.strerror}; see to the disk") from error
        return store

    def _take_mark(self, found: LogHead) -> None:
        """Compares the file with its mark, and decides about a commit that was never acknowledged."""
        marks, self._head = self._marks, found
        if not found.store:  # the first commit brings it to the present format
            store = marks.newest.store if marks is not None else new_identity()
            create_mark(self._folder, HighWaterMark(1, store, 0, found.revision, seal=0))
            marks = read_marks(self._folder)
            self._mark = HighWaterMarkFile(self._folder, marks.newest) if marks is not None else None
            return
        problem = high_water_mark.mismatch(marks, found) if marks is not None else "it has no high-water mark"
        if marks is None or problem is not None:
            raise StoreDamagedError(self._folder / FILE, problem or "")
        self._mark = HighWaterMarkFile(self._folder, marks.newest)
        if high_water_mark.is_refused(marks, found):
            self._in_doubt = True
        elif high_water_mark.is_ahead(marks, found):
            self._mark.acknowledge(found)

    def write(self, batch: log_rows.CommitBatch) -> None:
        """Puts one batch on disk, whole or not at all. Raises ``CommitFailed``."""
        tried = False
        try:
            self._make_certain()
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            self.probe("begun")
            before = self._certain_head(connection)
            rows = [log_rows.row_of(change.item, change.deleted) for change in batch.changes]
            connection.executemany(log_rows.INSERT, rows)
            removed = _remove(connection, batch.superseded)
            if batch.superseded:
                self.probe("compacted")
            after = self._following(
                revision=batch.changes[-1].revision if batch.changes else before.revision,
                oldest=batch.oldest,
                tally=before.tally.plus(row[1] for row in rows).minus(removed),
            )
            connection.execute(log_head.WRITE, after.row())
            self.probe("written")
            tried = True
            connection.execute("COMMIT")
            self.probe("committed")
            self._acknowledge(after)
        except Exception as error:
            raise self._failed(error, tried=tried) from error
        self._commit_trouble = None
        self._unsaved_bytes += sum(_ROW_BYTES + len(row[-1]) for row in rows) + _ROW_BYTES * len(removed)

    def checkpoint(self) -> bool:
        """Moves what was committed into the database file; ``False`` if a reader or the disk is in the way."""
        try:
            connection = self._connected()
            self.probe("checkpointing")
            _shrink(connection)
            # A backup may be reading: writers do not wait for it, the next checkpoint takes the rest.
            connection.execute("PRAGMA busy_timeout = 0")
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute("PRAGMA busy_timeout = 5000")
            self.probe("checkpointed")
        except (sqlite3.Error, StoreError) as error:
            self._checkpoint_trouble = "the disk is full" if is_full(error) else str(error)
            return False
        self._checkpoint_trouble = None
        if not busy:
            self._unsaved_bytes = 0
            self._suspect = False
        return not busy

    def try_again(self, oldest: Revision, size: int) -> None:
        """Does after a failure what shows that the disk works again: writes so many bytes, a commit, a checkpoint.

        Raises ``CommitFailed``.
        """
        scratch = self._folder / _SCRATCH
        try:
            with scratch.open("wb") as file:
                file.write(bytes(min(size, _SCRATCH_BYTES)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failed(error, tried=False) from error
        finally:
            with contextlib.suppress(OSError):
                scratch.unlink()
        self.write(log_rows.CommitBatch((), oldest, ()))
        self.checkpoint()

    def close(self, revision: Revision) -> None:
        """Records a clean stop at ``revision``, the highest number handed out, and lets the folder go."""
        try:
            with contextlib.suppress(sqlite3.Error, OSError, StoreError):  # then the next start is as after a crash
                self._record(revision, clean=True)
            self.checkpoint()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._mark is not None:
            self._mark.close()
        os.close(self._lock)

    def _record(self, revision: Revision, *, clean: bool, superseded: Sequence[Revision] = ()) -> None:
        self._make_certain()
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        before = self._certain_head(connection)
        removed = _remove(connection, superseded)
        after = self._following(revision, before.oldest, before.tally.minus(removed), clean=clean)
        if self._head.store:
            connection.execute(log_head.WRITE, after.row())
        else:
            bring_up_to_date(connection, after)
        connection.execute("COMMIT")
        self._acknowledge(after)

    def _following(self, revision: Revision, oldest: Revision, tally: LogTotals, *, clean: bool = False) -> LogHead:
        """The head of the next commit."""
        mark = self._marked().newest
        return LogHead(revision, oldest, clean, tally, mark.store, mark.commits + 1, mark.seal)

    def _acknowledge(self, after: LogHead) -> None:
        """Records that a commit is on disk. From here on it must not get lost."""
        self.probe("marking")
        self._marked().acknowledge(after)
        self.probe("marked")
        self._head, self._in_doubt = after, False

    def _make_certain(self) -> None:
        """Settles what a failed commit left open, before anything is written after it."""
        if self._unsettled:
            self._record_refusal()
        if self._suspect and not self.checkpoint():
            # After a failed sync the system may take pages for written that are not, and the next sync says nothing of
            # them. A checkpoint writes all of them again, elsewhere, and cuts the write-ahead file off.
            raise StoreError(self._checkpoint_trouble or "a reader keeps the write-ahead file from being written anew")

    def _certain_head(self, connection: sqlite3.Connection) -> LogHead:
        """The head in the file, after a commit that was not acknowledged has been taken out of it."""
        if not self._in_doubt:
            return self._head
        durable = self._marked().newest.revision
        found = read_head(connection, self._folder / FILE)
        phantoms = [checksum for (checksum,) in connection.execute(log_rows.CHECKSUMS_AFTER, (durable,))]
        connection.execute(log_rows.DELETE_AFTER, (durable,))
        return msgspec.structs.replace(found, revision=durable, tally=found.tally.minus(phantoms))

    def _marked(self) -> HighWaterMarkFile:
        if self._mark is None:
            raise StoreError(f"{self._folder / FILE} was not loaded")
        return self._mark

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._folder / FILE)
        return self._connection

    def _failed(self, error: Exception, *, tried: bool) -> CommitFailed:
        """Makes sure, if the disk lets it, that a commit that is answered with an error does not exist later."""
        self._give_up()
        unknown = False
        if tried:
            self._in_doubt = True
            self._suspect = self._suspect or not is_full(error)
            try:
                self._record_refusal()
            except Exception:
                unknown = True
        full = is_full(error)
        if isinstance(error, _DISK_ERRORS):
            self._commit_trouble = "the disk is full" if full else str(error)
        return self._refusal(error, full=full, unknown=unknown)

    def _record_refusal(self) -> None:
        """Records that nothing after the last acknowledged commit counts. Raises ``OSError``."""
        self._unsettled = True
        self.probe("marking")
        self._marked().refuse()
        self._unsettled = False

    def _give_up(self) -> None:
        """Leaves the failed transaction; if even that fails, the next write starts on a new connection."""
        connection = self._connection
        if connection is None or not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection = None
            self._suspect = True
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _refusal(self, error: Exception, *, full: bool, unknown: bool) -> CommitFailed:
        outcome = (
            "the outcome of this write is unknown: it is not served now, and may exist after a restart"
            if unknown
            else "nothing was written"
        )
        if full:
            text = f"the disk that holds {self._folder} is full: {outcome}; make room and try again"
        else:
            text = f"the store in {self._folder} cannot be written: {error}; {outcome}"
        return CommitFailed(text, full=full, unknown=unknown)


def _remove(connection: sqlite3.Connection, revisions: Iterable[Revision]) -> list[int]:
    """Deletes rows of the past; returns their checksums. A row that is gone already counts for nothing."""
    removed: list[int] = []
    for revision in revisions:
        found = connection.execute(log_rows.CHECKSUM, (revision,)).fetchone()
        if found is not None:
            connection.execute(log_rows.DELETE, (revision,))
            removed.append(found[0])
    return removed


def _shrink(connection: sqlite3.Connection) -> None:
    """Gives some room back to the disk if much of the file is empty; what little is empty is used again."""
    pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    if free > max(_SHRINK_FROM_PAGES, pages // 4):
        # Not execute: the pragma gives back one page for each step, and execute takes one step.
        connection.executescript(f"PRAGMA incremental_vacuum({_SHRINK_STEP_PAGES})")
