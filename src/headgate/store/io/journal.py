"""``Journal``: the durable log of a running server. Its calls block; one thread uses it at a time.

A batch is written completely or not at all: one transaction is synced, and then its high-water mark
(``store/high_water_mark.py``); only then the batch is acknowledged. Commits are in SQLite's write-ahead file until a
checkpoint moves them into the database file, where every byte is covered by a check (``store/io/database_file.py``).
``store/log_rows.py`` defines the rows.
"""

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
    connect,
    has_content,
    is_full,
    lock_folder,
    read_head,
    store_error,
    upgrade_format,
    verified_rows,
)
from headgate.store.io.high_water_mark_file import (
    MARK,
    HighWaterMarkFile,
    check_high_water_mark,
    create_mark,
    new_identity,
    read_marks,
)
from headgate.store.item import Revision
from headgate.store.log_head import LogHead, LogTotals
from headgate.store.memory import Store

_ROW_BYTES: Final = 200  # roughly what a row takes in addition to its object
_SHRINK_FROM_PAGES: Final = 500
_SHRINK_STEP_PAGES: Final = 500
_DISK_ERRORS: Final = (OSError, StoreError, sqlite3.OperationalError)
"""The errors of a failing disk. Any other error is a problem of the write itself."""
_SCRATCH: Final = FILE + "-scratch"
_SCRATCH_BYTES: Final = 16 * 1024 * 1024

Probe = Callable[[str], None]
"""Called at named points, for tests: ``begun``, ``compacted``, ``written`` and ``committed`` of each commit,
``marking`` and ``marked`` of its high-water mark, ``checkpointing`` and ``checkpointed``, and, in the event loop before
a commit is visible, ``answering``."""


class CommitFailed(Exception):
    """A write to the disk failed. This write and all other writes that were not yet on disk are rolled back.

    If the refusal could not be recorded either, the outcome is ``unknown``: the process does not serve the write and
    removes it as soon as it can, but if the process is killed before that, the write may exist after a restart.
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
        self._marks = marks  # as they were at the start; None in a file of the format without numbered commits
        self._mark_file: HighWaterMarkFile | None = None
        self._head = LogHead()  # of the last acknowledged commit
        self._in_doubt = False  # the file may hold a commit that was not acknowledged
        self._refusal_unrecorded = False  # the refusal of that commit could not be recorded
        self._sync_failed = False  # so bytes that were written earlier may not be on disk
        self._uncheckpointed_bytes = 0
        self._commit_problem: str | None = None
        self._checkpoint_problem: str | None = None

    @classmethod
    def open(cls, folder: Path, probe: Probe = lambda point: None) -> Journal:
        """Locks the folder for this process, and creates it if necessary. Raises ``StoreError``."""
        lock = lock_folder(folder)
        try:
            marks = check_high_water_mark(folder)
            new_head = LogHead(store=marks.newest.store if marks is not None else new_identity())
            if marks is None and not has_content(folder / FILE):
                # Before the database is created, because a database without a mark counts as damaged.
                create_mark(folder, high_water_mark.first_mark(new_head))
                marks = read_marks(folder)
            return cls(folder, lock, connect(folder / FILE, new_head), marks, probe)
        except BaseException:
            os.close(lock)
            raise

    @property
    def problem(self) -> str | None:
        """Why the last commit or checkpoint failed; ``None`` if it succeeded."""
        return self._commit_problem or self._checkpoint_problem

    @property
    def uncheckpointed_bytes(self) -> int:
        """Roughly how many bytes were committed since the last checkpoint."""
        return self._uncheckpointed_bytes

    def load(self, progress: Progress = lambda done, total: None) -> Store:
        """Rebuilds the store from the file, and records that a process uses it. Closes the file after an error."""
        gc.disable()  # no garbage arises: all objects that are created here are kept
        try:
            return self._load(progress)
        except BaseException:
            self._release()
            raise
        finally:
            gc.enable()

    def _load(self, progress: Progress) -> Store:
        connection, path = self._open_connection(), self._folder / FILE
        try:
            head = read_head(connection, path)
            self._check_mark(head)
            last = self._open_mark_file().newest.revision if self._in_doubt else None
            store = Store(revision=head.first_revision(), oldest=head.oldest)
            rows = (
                (stored.item, stored.deleted)
                for stored in verified_rows(connection, path, head, progress)
                if last is None or stored.item.revision <= last
            )
            left_over = log_rows.superseded(store.restore(rows))
            self._record(store.committed, clean=False, superseded=left_over)
            self.checkpoint()
        except UNREADABLE as error:
            raise store_error(error, path) from error
        except OSError as error:
            raise StoreError(f"{self._folder / MARK} cannot be written: {error.strerror}; check the disk") from error
        return store

    def _check_mark(self, head: LogHead) -> None:
        """Compares the file with its mark. A last commit that was never acknowledged is acknowledged now, or removed
        if it was refused."""
        marks, self._head = self._marks, head
        if not head.store:  # the first commit upgrades the format
            store = marks.newest.store if marks is not None else new_identity()
            create_mark(self._folder, HighWaterMark(1, store, 0, head.revision, seal=0))
            marks = read_marks(self._folder)
            self._mark_file = HighWaterMarkFile(self._folder, marks.newest) if marks is not None else None
            return
        problem = high_water_mark.mismatch(marks, head) if marks is not None else "it has no high-water mark"
        if marks is None or problem is not None:
            raise StoreDamagedError(self._folder / FILE, problem or "")
        self._mark_file = HighWaterMarkFile(self._folder, marks.newest)
        if high_water_mark.is_refused(marks, head):
            self._in_doubt = True
        elif high_water_mark.is_ahead(marks, head):
            self._mark_file.acknowledge(head)

    def write(self, batch: log_rows.CommitBatch) -> None:
        """Writes one batch to the disk, completely or not at all. Raises ``CommitFailed``."""
        commit_attempted = False
        try:
            self._settle_failed_commit()
            connection = self._open_connection()
            connection.execute("BEGIN IMMEDIATE")
            self.probe("begun")
            before = self._acknowledged_head(connection)
            rows = [log_rows.encode_row(change.item, change.deleted) for change in batch.changes]
            connection.executemany(log_rows.INSERT, rows)
            removed = _delete_rows(connection, batch.superseded)
            if batch.superseded:
                self.probe("compacted")
            head = self._next_head(
                revision=batch.changes[-1].revision if batch.changes else before.revision,
                oldest=batch.oldest,
                totals=before.totals.plus(row[1] for row in rows).minus(removed),
            )
            connection.execute(log_head.WRITE, head.row())
            self.probe("written")
            commit_attempted = True
            connection.execute("COMMIT")
            self.probe("committed")
            self._acknowledge(head)
        except Exception as error:
            raise self._handle_failure(error, commit_attempted=commit_attempted) from error
        self._commit_problem = None
        self._uncheckpointed_bytes += sum(_ROW_BYTES + len(row[-1]) for row in rows) + _ROW_BYTES * len(removed)

    def checkpoint(self) -> bool:
        """Moves commits into the database file; ``False`` if a reader blocks it or the disk fails."""
        try:
            connection = self._open_connection()
            self.probe("checkpointing")
            _shrink(connection)
            # A backup may be reading. Writers do not wait for it; the next checkpoint moves the rest.
            connection.execute("PRAGMA busy_timeout = 0")
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            connection.execute("PRAGMA busy_timeout = 5000")
            self.probe("checkpointed")
        except (sqlite3.Error, StoreError) as error:
            self._checkpoint_problem = "the disk is full" if is_full(error) else str(error)
            return False
        self._checkpoint_problem = None
        if not busy:
            self._uncheckpointed_bytes = 0
            self._sync_failed = False
        return not busy

    def check_disk(self, oldest: Revision, size: int) -> None:
        """Checks after a failure whether the disk works again: writes ``size`` bytes, a commit and a checkpoint.

        Raises ``CommitFailed``.
        """
        scratch = self._folder / _SCRATCH
        try:
            with scratch.open("wb") as file:
                file.write(bytes(min(size, _SCRATCH_BYTES)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._handle_failure(error, commit_attempted=False) from error
        finally:
            with contextlib.suppress(OSError):
                scratch.unlink()
        self.write(log_rows.CommitBatch((), oldest, ()))
        self.checkpoint()

    def close(self, revision: Revision) -> None:
        """Records a clean stop at ``revision``, the highest revision that was issued, and unlocks the folder."""
        try:
            # If this fails, the next start is as after a crash.
            with contextlib.suppress(sqlite3.Error, OSError, StoreError):
                self._record(revision, clean=True)
            self.checkpoint()
        finally:
            self._release()

    def _release(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._mark_file is not None:
            self._mark_file.close()
        os.close(self._lock)

    def _record(self, revision: Revision, *, clean: bool, superseded: Sequence[Revision] = ()) -> None:
        """Commits a head without new rows: that the process has started, or that it stops cleanly."""
        self._settle_failed_commit()
        connection = self._open_connection()
        connection.execute("BEGIN IMMEDIATE")
        before = self._acknowledged_head(connection)
        removed = _delete_rows(connection, superseded)
        head = self._next_head(revision, before.oldest, before.totals.minus(removed), clean=clean)
        if self._head.store:
            connection.execute(log_head.WRITE, head.row())
        else:
            upgrade_format(connection, head)
        connection.execute("COMMIT")
        self._acknowledge(head)

    def _next_head(self, revision: Revision, oldest: Revision, totals: LogTotals, *, clean: bool = False) -> LogHead:
        """The head of the next commit."""
        mark = self._open_mark_file().newest
        return LogHead(revision, oldest, clean, totals, mark.store, mark.commits + 1, mark.seal)

    def _acknowledge(self, head: LogHead) -> None:
        """Records that a commit is on disk. From now on its loss is damage."""
        self.probe("marking")
        self._open_mark_file().acknowledge(head)
        self.probe("marked")
        self._head, self._in_doubt = head, False

    def _settle_failed_commit(self) -> None:
        """Completes the handling of a failed commit before anything else is written."""
        if self._refusal_unrecorded:
            self._record_refusal()
        if self._sync_failed and not self.checkpoint():
            # After a failed sync the kernel may count pages as written that are not on disk, and the next sync does
            # not report them. A checkpoint writes them again into the database file and truncates the write-ahead file.
            raise StoreError(self._checkpoint_problem or "a reader prevents the checkpoint after a failed sync")

    def _acknowledged_head(self, connection: sqlite3.Connection) -> LogHead:
        """The head of the last acknowledged commit. Deletes the rows of a commit that was not acknowledged."""
        if not self._in_doubt:
            return self._head
        durable = self._open_mark_file().newest.revision
        head = read_head(connection, self._folder / FILE)
        checksums = [checksum for (checksum,) in connection.execute(log_rows.CHECKSUMS_AFTER, (durable,))]
        connection.execute(log_rows.DELETE_AFTER, (durable,))
        return msgspec.structs.replace(head, revision=durable, totals=head.totals.minus(checksums))

    def _open_mark_file(self) -> HighWaterMarkFile:
        if self._mark_file is None:
            raise StoreError(f"{self._folder / FILE} was not loaded")
        return self._mark_file

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._folder / FILE)
        return self._connection

    def _handle_failure(self, error: Exception, *, commit_attempted: bool) -> CommitFailed:
        """Rolls back, and records that the commit was refused, so that it does not exist after a restart."""
        self._roll_back()
        unknown = False
        if commit_attempted:
            self._in_doubt = True
            self._sync_failed = self._sync_failed or not is_full(error)
            try:
                self._record_refusal()
            except Exception:
                unknown = True
        full = is_full(error)
        if isinstance(error, _DISK_ERRORS):
            self._commit_problem = "the disk is full" if full else str(error)
        return self._commit_error(error, full=full, unknown=unknown)

    def _record_refusal(self) -> None:
        """Records that commits after the acknowledged one were refused. Raises ``OSError``."""
        self._refusal_unrecorded = True
        self.probe("marking")
        self._open_mark_file().refuse()
        self._refusal_unrecorded = False

    def _roll_back(self) -> None:
        """Rolls the failed transaction back. If that fails, the next write opens a new connection."""
        connection = self._connection
        if connection is None or not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection = None
            self._sync_failed = True
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _commit_error(self, error: Exception, *, full: bool, unknown: bool) -> CommitFailed:
        outcome = (
            "the outcome of this write is unknown: it is not served now, and may exist after a restart"
            if unknown
            else "nothing was written"
        )
        if full:
            text = f"the disk that holds {self._folder} is full: {outcome}; free some space and try again"
        else:
            text = f"the store in {self._folder} cannot be written: {error}; {outcome}"
        return CommitFailed(text, full=full, unknown=unknown)


def _delete_rows(connection: sqlite3.Connection, revisions: Iterable[Revision]) -> list[int]:
    """Deletes superseded rows; returns the checksums of those that existed."""
    removed: list[int] = []
    for revision in revisions:
        found = connection.execute(log_rows.CHECKSUM, (revision,)).fetchone()
        if found is not None:
            connection.execute(log_rows.DELETE, (revision,))
            removed.append(found[0])
    return removed


def _shrink(connection: sqlite3.Connection) -> None:
    """Shrinks the file if many of its pages are free. SQLite reuses a small number of free pages."""
    pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    if free > max(_SHRINK_FROM_PAGES, pages // 4):
        # Not execute: the pragma frees one page per step, and execute does one step.
        connection.executescript(f"PRAGMA incremental_vacuum({_SHRINK_STEP_PAGES})")
