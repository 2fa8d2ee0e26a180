"""The store's hands: the SQLite file, the lock on its folder, and the group commit.

``Journal`` is the file; it blocks, and one thread uses it at a time. ``Committer`` is what the event loop sees: while
one commit is on its way to the disk, further writes gather, and the next commit takes them all. An answer leaves only
after ``flush`` returns, and ``flush`` returns only after the bytes are on disk. What a row means: ``store/log.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from headgate.store import log
from headgate.store.item import Change, Revision
from headgate.store.memory import Store
from headgate.store.retention import Limits, Retention

FILE: Final = "headgate.db"
LOCK: Final = "lock"

_LOAD_STEP: Final = 10_000
_DELETES_PER_COMMIT: Final = 5_000  # so that a large compaction is spread over commits and delays none of them much
_FAILURES_REMEMBERED: Final = 1_000
_TICK_S: Final = 30.0

Progress = Callable[[int, int], None]
"""Called with (rows done, rows in all)."""
Probe = Callable[[str], None]
"""Called in the writer's thread at the named points ``begun``, ``written`` and ``committed`` of each commit."""


class StoreProblem(Exception):
    """The data folder cannot be used; the text is one line that names the folder and the fix."""


class CommitFailed(Exception):
    """The disk refused a write. It did not happen, nor did any other write that was not yet on disk."""


class Journal:
    """The durable log in one folder."""

    def __init__(self, folder: Path, lock: int, connection: sqlite3.Connection, probe: Probe) -> None:
        self._folder = folder
        self._lock = lock
        self._connection: sqlite3.Connection | None = connection
        self._probe = probe
        self._durable = Revision(0)  # up to here, what was committed is on disk
        self._in_doubt = False  # a commit failed after that, and may be in the file all the same

    @classmethod
    def open(cls, folder: Path, probe: Probe = lambda point: None) -> Journal:
        """Takes the folder for this process, and makes it if it is new. Raises ``StoreProblem``."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = _take_lock(folder)
        except OSError as error:
            raise StoreProblem(
                f"data folder {folder} cannot be used: {error.strerror}; choose another folder"
            ) from error
        try:
            return cls(folder, lock, _connect(folder / FILE), probe)
        except BaseException:
            os.close(lock)
            raise

    def load(self, progress: Progress = lambda done, total: None) -> Store:
        """Rebuilds the store from the file, and records that a process is at work on it."""
        connection = self._connected()
        try:
            meta: dict[str, int] = dict(connection.execute(log.READ_META).fetchall())
            total, last = connection.execute(log.COUNT).fetchone()
            store = Store(revision=log.start_revision(meta, last), oldest=meta["oldest"])
            left_over: list[Revision] = []
            for done, row in enumerate(connection.execute(log.SCAN)):
                if done % _LOAD_STEP == 0:
                    progress(done, total)
                item, deleted = log.item_of(row)
                forgotten = store.restore(item, deleted=deleted)
                if forgotten is not None:
                    left_over.extend(log.superseded((forgotten,)))
            progress(total, total)
            self._record(store.committed, clean=False, superseded=left_over)
            self._durable = store.committed
        except sqlite3.Error as error:
            raise StoreProblem(f"{self._folder / FILE} cannot be read: {error}; restore it from a copy") from error
        return store

    def write(self, batch: log.Batch) -> None:
        """Puts one batch on disk, whole or not at all. Raises ``CommitFailed``."""
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            self._probe("begun")
            if self._in_doubt:
                connection.execute(log.DELETE_AFTER, (self._durable,))
            connection.executemany(log.INSERT, map(log.row_of, batch.changes))
            if batch.superseded:
                connection.executemany(log.DELETE, ((revision,) for revision in batch.superseded))
                connection.execute(log.WRITE_META, (batch.oldest, "oldest"))
            self._probe("written")
            connection.execute("COMMIT")
            self._probe("committed")
            self._in_doubt = False
            if batch.changes:
                self._durable = batch.changes[-1].revision
        except sqlite3.Error as error:
            self._in_doubt = True
            self._give_up()
            raise CommitFailed(f"the store in {self._folder} cannot be written: {error}") from error

    def close(self, revision: Revision) -> None:
        """Records a clean stop at ``revision``, the highest number handed out, and lets the folder go."""
        try:
            with contextlib.suppress(sqlite3.Error):  # then the next start is as after a crash, which is safe
                self._record(revision, clean=True)
            if self._connection is not None:
                self._connection.close()
        finally:
            os.close(self._lock)

    def _record(self, revision: Revision, *, clean: bool, superseded: Sequence[Revision] = ()) -> None:
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        if self._in_doubt:
            connection.execute(log.DELETE_AFTER, (self._durable,))
        connection.executemany(log.DELETE, ((row,) for row in superseded))
        connection.executemany(log.WRITE_META, ((revision, "revision"), (int(clean), "clean")))
        connection.execute("COMMIT")

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _connect(self._folder / FILE)
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


def _take_lock(folder: Path) -> int:
    """An open file that holds the lock as long as the process lives, however it ends."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StoreProblem(
            f"data folder {folder} is in use by process {owner}: stop that process, or choose another folder"
        ) from None
    except BaseException:
        os.close(lock)
        raise
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _connect(path: Path) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # objects may be secrets; SQLite's own files follow suit
        # The writer's thread uses the connection after this one made it; never both at once.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        _identify(connection, path)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "journal_size_limit = 67108864"):
            connection.execute(f"PRAGMA {pragma}")
        return connection
    except (OSError, sqlite3.Error, StoreProblem) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreProblem):
            raise
        why = "is not a Headgate store" if "not a database" in str(error) else f"cannot be opened: {error}"
        raise StoreProblem(f"{path} {why}; move it away, or choose another data folder") from error


def _identify(connection: sqlite3.Connection, path: Path) -> None:
    """Refuses a file that is not ours; fills one that is new."""
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    user_version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    problem = log.stranger(application_id, user_version, tables)
    if problem is not None:
        raise StoreProblem(f"{path} {problem}")
    if tables == 0:
        connection.execute("BEGIN IMMEDIATE")
        for statement in log.CREATE:
            connection.execute(statement)
        connection.execute("COMMIT")


class Committer:
    """Moves what is staged to the disk, and then makes it visible.

    Without a journal the store lives in memory only, and ``flush`` commits at once.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal | None,
        *,
        publish: Callable[[Sequence[Change]], None] = lambda changes: None,
        limits: Limits | None = None,
    ) -> None:
        """``publish`` is called in the event loop with what became visible, before any writer gets its answer."""
        self._store = store
        self._journal = journal
        self._publish = publish
        self._retention = Retention(limits or Limits())
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headgate-store")
        self._commit: asyncio.Future[None] | None = None
        self._starting = False
        self._closing = False
        self._upto = Revision(0)  # the last revision in the commit under way
        self._current: list[asyncio.Future[None]] = []  # who waits for the commit under way
        self._next: list[asyncio.Future[None]] = []  # who waits for the one after it
        self._superseded: deque[Revision] = deque()
        self._lost: deque[tuple[Revision, Revision, str]] = deque(maxlen=_FAILURES_REMEMBERED)

    def flush(self, revision: Revision) -> Awaitable[None]:
        """Waits until the write with this revision is on disk and visible; raises ``CommitFailed`` if it was lost."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reason = self._why_lost(revision)
        if reason is None and revision > self._store.applied:
            raise ValueError(f"revision {revision} was never staged; the newest is {self._store.applied}")
        if reason is not None:
            waiter.set_exception(CommitFailed(reason))
        elif revision <= self._store.committed:
            waiter.set_result(None)
        elif self._journal is None:
            self._show(self._store.applied)
            waiter.set_result(None)
        elif self._commit is not None and revision <= self._upto:
            self._current.append(waiter)
        else:
            self._next.append(waiter)
            self._start_soon()
        return waiter

    def tick(self, now_s: float) -> None:
        """Forgets the past that is too old."""
        self._compact(self._retention.tick(now_s, self._store.committed))
        if self._superseded:
            self._start_soon()

    async def keep_ticking(self) -> None:
        """Runs for ever; ends when cancelled."""
        while True:
            self.tick(time.monotonic())
            await asyncio.sleep(_TICK_S)

    async def close(self) -> None:
        """Waits for what is staged, then records a clean stop. No write may be staged any more."""
        with contextlib.suppress(CommitFailed):
            await self.flush(self._store.applied)
        self._closing = True
        while self._commit is not None:
            await asyncio.wait([self._commit])
        self._executor.shutdown()
        if self._journal is not None:
            self._journal.close(Revision(self._store.next_revision() - 1))

    def _start_soon(self) -> None:
        """Lets every task that is ready now stage its write before the commit takes what is there."""
        if not self._starting and self._commit is None:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._starting = False
        pending = self._store.pending()
        if self._journal is None or self._closing or not (pending or self._superseded):
            return
        count = min(len(self._superseded), _DELETES_PER_COMMIT)
        batch = log.Batch(
            changes=pending,
            oldest=self._store.oldest,
            superseded=[self._superseded.popleft() for _ in range(count)],
        )
        self._upto = pending[-1].revision if pending else self._store.committed
        self._current, self._next = self._next, []
        self._commit = asyncio.get_running_loop().run_in_executor(self._executor, self._journal.write, batch)
        self._commit.add_done_callback(lambda done: self._finish(done, batch))

    def _finish(self, done: asyncio.Future[None], batch: log.Batch) -> None:
        self._commit = None
        error = done.exception()
        waiters, self._current = self._current, []
        if error is not None:
            self._superseded.extendleft(reversed(batch.superseded))
            self._lose(waiters + self._next, str(error))
            self._next = []
            return
        try:
            self._show(self._upto)
        finally:  # whatever a watcher does with the news, the writers' answers are true
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if self._next or self._superseded:
                self._start_soon()

    def _show(self, upto: Revision) -> None:
        visible = self._store.commit(upto)
        limits = self._retention.limits
        if self._store.history_count > limits.max_changes or self._store.history_bytes > limits.max_bytes:
            self._compact(self._store.excess(limits.max_changes, limits.max_bytes))
        if visible:
            self._publish(visible)

    def _lose(self, waiters: Sequence[asyncio.Future[None]], reason: str) -> None:
        lost = self._store.rollback()
        if lost:
            self._lost.append((lost[0].revision, lost[-1].revision, reason))
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(CommitFailed(reason))

    def _why_lost(self, revision: Revision) -> str | None:
        for first, last, reason in reversed(self._lost):
            if first <= revision <= last:
                return reason
        return None

    def _compact(self, upto: Revision) -> None:
        if upto <= self._store.oldest:
            return
        forgotten = self._store.compact(upto)
        if self._journal is not None and forgotten:
            self._superseded.extend(log.superseded(forgotten))
