"""``Journal``: the file as the one process that serves it uses it. It blocks, and one thread uses it at a time.

A batch goes in whole or not at all. What is committed lies in SQLite's write-ahead file until a checkpoint moves it
into the database file, where every byte is covered by a check (``store/file/shell.py``). What a row means:
``store/log.py``.
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

from headgate.store import head, log
from headgate.store.file.shell import (
    FILE,
    UNREADABLE,
    Damaged,
    Progress,
    StoreProblem,
    connect,
    dropped_problem,
    explained,
    is_full,
    read_head,
    sound_rows,
    take_folder,
)
from headgate.store.head import Head
from headgate.store.item import Revision
from headgate.store.memory import Store

_ROW_BYTES: Final = 200  # what a row takes beside its object, roughly
_SHRINK_FROM_PAGES: Final = 500
_SHRINK_STEP_PAGES: Final = 500

Probe = Callable[[str], None]
"""Called at the named points of the file's life: ``begun``, ``compacted``, ``written`` and ``committed`` of each
commit, ``checkpointing`` and ``checkpointed``, and ``answering``, in the event loop, before a commit is seen."""


class CommitFailed(Exception):
    """The disk refused a write. It did not happen, nor did any other write that was not yet on disk."""

    def __init__(self, reason: str, *, full: bool = False) -> None:
        super().__init__(reason)
        self.full: Final = full


class Journal:
    """The durable log in one folder."""

    def __init__(self, folder: Path, lock: int, connection: sqlite3.Connection, probe: Probe) -> None:
        self.probe: Final = probe
        self._folder = folder
        self._lock = lock
        self._connection: sqlite3.Connection | None = connection
        self._head = Head()  # as it is on disk, unless in doubt
        self._in_doubt = False  # a commit failed, and may be in the file all the same
        self._unsaved_bytes = 0

    @classmethod
    def open(cls, folder: Path, probe: Probe = lambda point: None) -> Journal:
        """Takes the folder for this process, and makes it if it is new. Raises ``StoreProblem``."""
        lock = take_folder(folder)
        try:
            problem = dropped_problem(folder / FILE)
            if problem is not None:
                raise Damaged(folder / FILE, problem)
            return cls(folder, lock, connect(folder / FILE, create=True), probe)
        except BaseException:
            os.close(lock)
            raise

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
            self._head = read_head(connection, path)
            store = Store(revision=self._head.start(), oldest=self._head.oldest)
            rows = sound_rows(connection, path, self._head, progress)
            left_over = log.superseded(store.restore((stored.item, stored.deleted) for stored in rows))
            self._record(store.committed, clean=False, superseded=left_over)
            self.checkpoint()
        except UNREADABLE as error:
            raise explained(error, path) from error
        return store

    def write(self, batch: log.Batch) -> None:
        """Puts one batch on disk, whole or not at all. Raises ``CommitFailed``."""
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            self.probe("begun")
            before = self._certain_head(connection)
            rows = [log.row_of(change.item, change.deleted) for change in batch.changes]
            connection.executemany(log.INSERT, rows)
            removed = _remove(connection, batch.superseded)
            if batch.superseded:
                self.probe("compacted")
            after = Head(
                revision=batch.changes[-1].revision if batch.changes else before.revision,
                oldest=batch.oldest,
                clean=False,
                tally=before.tally.plus(row[1] for row in rows).minus(removed),
            )
            connection.execute(head.WRITE, after.row())
            self.probe("written")
            connection.execute("COMMIT")
            self.probe("committed")
        except Exception as error:
            self._in_doubt = True
            self._give_up()
            raise self._refusal(error) from error
        self._head, self._in_doubt = after, False
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
        except (sqlite3.Error, StoreProblem):
            return False
        if not busy:
            self._unsaved_bytes = 0
        return not busy

    def close(self, revision: Revision) -> None:
        """Records a clean stop at ``revision``, the highest number handed out, and lets the folder go."""
        try:
            with contextlib.suppress(sqlite3.Error, StoreProblem):  # then the next start is as after a crash
                self._record(revision, clean=True)
            self.checkpoint()
            if self._connection is not None:
                self._connection.close()
        finally:
            os.close(self._lock)

    def _abandon(self) -> None:
        if self._connection is not None:
            self._connection.close()
        os.close(self._lock)

    def _record(self, revision: Revision, *, clean: bool, superseded: Sequence[Revision] = ()) -> None:
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        before = self._certain_head(connection)
        removed = _remove(connection, superseded)
        after = Head(revision, before.oldest, clean, before.tally.minus(removed))
        connection.execute(head.WRITE, after.row())
        connection.execute("COMMIT")
        self._head, self._in_doubt = after, False

    def _certain_head(self, connection: sqlite3.Connection) -> Head:
        """The head in the file, after a failed commit that reached the disk all the same has been taken out of it."""
        if not self._in_doubt:
            return self._head
        durable = self._head.revision
        found = read_head(connection, self._folder / FILE)
        phantoms = [checksum for (checksum,) in connection.execute(log.CHECKSUMS_AFTER, (durable,))]
        connection.execute(log.DELETE_AFTER, (durable,))
        return msgspec.structs.replace(found, revision=durable, tally=found.tally.minus(phantoms))

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._folder / FILE, create=False)
        return self._connection

    def _give_up(self) -> None:
        """Leaves the failed transaction; if even that fails, the next write starts on a new connection."""
        connection = self._connection
        if connection is None or not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._connection = None
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _refusal(self, error: Exception) -> CommitFailed:
        if is_full(error):
            return CommitFailed(
                f"the disk that holds {self._folder} is full: nothing was written; make room and try again", full=True
            )
        return CommitFailed(f"the store in {self._folder} cannot be written: {error}")


def _remove(connection: sqlite3.Connection, revisions: Iterable[Revision]) -> list[int]:
    """Deletes rows of the past; returns their checksums. A row that is gone already counts for nothing."""
    removed: list[int] = []
    for revision in revisions:
        found = connection.execute(log.CHECKSUM, (revision,)).fetchone()
        if found is not None:
            connection.execute(log.DELETE, (revision,))
            removed.append(found[0])
    return removed


def _shrink(connection: sqlite3.Connection) -> None:
    """Gives some room back to the disk if much of the file is empty; what little is empty is used again."""
    pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    if free > max(_SHRINK_FROM_PAGES, pages // 4):
        # Not execute: the pragma gives back one page for each step, and execute takes one step.
        connection.executescript(f"PRAGMA incremental_vacuum({_SHRINK_STEP_PAGES})")
