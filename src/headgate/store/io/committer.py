"""``Committer``: the event loop's interface to the disk.

While one commit is in progress, further writes gather, and the next commit takes them all. A response is sent only
after ``flush`` returns, and ``flush`` returns only after the bytes are on disk. ``store/io/journal.py`` writes to the
disk in a thread of its own.

After a failed write, every tick tries again (``Journal.try_again``), so that the store recovers without a write of a
client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headgate.store import log_rows
from headgate.store.disk_health import DiskHealth
from headgate.store.io.journal import CommitFailed, Journal
from headgate.store.io.store_lock import StoreLock
from headgate.store.item import Revision, StoreChange
from headgate.store.memory import Store
from headgate.store.retention import Retention, RetentionLimits

_DELETES_PER_COMMIT: Final = 1_000  # so that a large compaction is spread over commits and delays none of them much
_FAILURES_REMEMBERED: Final = 1_000
_EARLY: Final = 8  # so many waiting writers are worth a sync of their own: the disk works while others compute
_TICK_S: Final = 2.0
_CHECKPOINT_BYTES: Final = 8 * 1024 * 1024

_log: Final = logging.getLogger(__name__)


class Committer:
    """Moves what is staged to the disk, and then makes it visible.

    Without a journal the store lives in memory only, and ``flush`` commits at once.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal | None,
        *,
        publish: Callable[[Sequence[StoreChange]], None] = lambda changes: None,
        limits: RetentionLimits | None = None,
    ) -> None:
        """``publish`` is called in the event loop with what became visible, before any writer gets its answer."""
        self.exclusion: Final = StoreLock()
        self._store = store
        self._journal = journal
        self._publish = publish
        self._retention = Retention(limits or RetentionLimits())
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headgate-store")
        self._job: asyncio.Future[None] | asyncio.Future[bool] | None = None  # the commit or checkpoint under way
        self._starting = False
        self._closing = False
        self._health = DiskHealth()
        self._retry_due = False
        self._checkpoint_due = False
        self._checkpoint_blocked = False  # by a reader, or by the disk: not tried again before the next tick
        self._upto = Revision(0)  # the last revision in the commit under way
        self._current: list[asyncio.Future[None]] = []  # who waits for the commit under way
        self._next: list[asyncio.Future[None]] = []  # who waits for the one after it
        self._superseded: deque[Revision] = deque()
        self._lost: deque[tuple[Revision, Revision, CommitFailed]] = deque(maxlen=_FAILURES_REMEMBERED)

    def problem(self) -> str:
        """Why the disk takes no writes at present; empty if it does."""
        return self._health.problem or ""

    @property
    def is_busy(self) -> bool:
        """Whether a commit, a checkpoint or an attempt after a failure is under way or about to start."""
        return self._starting or self._job is not None

    def flush(self, revision: Revision) -> Awaitable[None]:
        """Waits until the write with this revision is on disk and visible; raises ``CommitFailed`` if it was lost."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reason = self._why_lost(revision)
        if reason is None and revision > self._store.applied:
            raise ValueError(f"revision {revision} was never staged; the newest is {self._store.applied}")
        if reason is not None:
            waiter.set_exception(_again(reason))
        elif revision <= self._store.committed:
            waiter.set_result(None)
        elif self._journal is None:
            self.exclusion.run_when_free(lambda: self._show_at_once(waiter))
        elif self._job is not None and revision <= self._upto:
            self._current.append(waiter)
        else:
            self._next.append(waiter)
            if len(self._next) >= _EARLY and self._job is None:
                self._start()
            else:
                self._start_soon()
        return waiter

    def tick(self, now_s: float) -> None:
        """Forgets the past that is too old, and asks for a checkpoint of what was committed since the last one."""
        self.exclusion.run_when_free(lambda: self._tick(now_s))

    def _tick(self, now_s: float) -> None:
        self._compact(self._retention.tick(now_s, self._store.committed))
        self._checkpoint_blocked = False
        if self._journal is not None and self._health.problem is not None:
            self._retry_due = True
        elif self._journal is not None and self._journal.unsaved_bytes:
            self._checkpoint_due = True
        if self._superseded or self._checkpoint_due or self._retry_due:
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
        while self._job is not None:
            await asyncio.wait([self._job])
            await self.exclusion.wait_until_free()
        self._executor.shutdown()
        if self._journal is not None:
            self._journal.close(Revision(self._store.next_revision() - 1))

    def _start_soon(self) -> None:
        """Lets every task that is ready now stage its write before the commit takes what is there."""
        if not self._starting and self._job is None:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self.exclusion.run_when_free(self._start_now)

    def _start_now(self) -> None:
        self._starting = False
        if self._journal is None or self._closing or self._job is not None:
            return
        loop, pending = asyncio.get_running_loop(), self._store.pending()
        if self._retry_due:
            self._retry_due = False
            trying = self._journal.try_again
            retry = self._job = loop.run_in_executor(self._executor, trying, self._store.oldest, self._health.size)
            retry.add_done_callback(self._finish_retry)
        elif self._checkpoint_due:
            self._checkpoint_due = False
            checkpoint = self._job = loop.run_in_executor(self._executor, self._journal.checkpoint)
            checkpoint.add_done_callback(self._finish_checkpoint)
        elif pending or self._superseded:
            count = min(len(self._superseded), _DELETES_PER_COMMIT)
            batch = log_rows.CommitBatch(
                changes=pending,
                oldest=self._store.oldest,
                superseded=[self._superseded.popleft() for _ in range(count)],
            )
            self._upto = pending[-1].revision if pending else self._store.committed
            self._current, self._next = self._next, []
            commit = self._job = loop.run_in_executor(self._executor, self._journal.write, batch)
            commit.add_done_callback(
                lambda done: self.exclusion.run_when_free(lambda: self._finish_commit(done, batch))
            )

    def _finish_checkpoint(self, done: asyncio.Future[bool]) -> None:
        self._job = None
        self._checkpoint_blocked = True
        try:
            self._checkpoint_blocked = not done.result()
            self._note_health(0)
        finally:  # a checkpoint that went wrong is no reason to keep writers waiting
            if self._next or self._superseded:
                self._start_soon()

    def _finish_retry(self, done: asyncio.Future[None]) -> None:
        self._job = None
        error = done.exception()
        if error is None:
            self._note_health(self._health.size)
        elif not isinstance(error, CommitFailed):
            _log.error("the disk could not be tried again: %r", error)
        if self._next or self._superseded:
            self._start_soon()

    def _finish_commit(self, done: asyncio.Future[None], batch: log_rows.CommitBatch) -> None:
        self._job = None
        error = done.exception()
        waiters, self._current = self._current, []
        self._note_health(sum(len(change.item.data) for change in batch.changes))
        if error is not None:
            self._superseded.extendleft(reversed(batch.superseded))
            self._lose(waiters + self._next, error if isinstance(error, CommitFailed) else CommitFailed(str(error)))
            self._next = []
            return
        try:
            self._reached_answering()
            self._show(self._upto)
        finally:  # whatever a watcher does with the news, the writers' answers are true
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if self._next:  # they have waited for a whole commit already
                self._start()
            elif self._superseded or self._checkpoint_due:
                self._start_soon()

    def _note_health(self, size: int) -> None:
        trouble = self._journal.trouble if self._journal is not None else None
        line = self._health.failed(trouble, size) if trouble is not None else self._health.succeeded(size)
        if line is not None:
            _log.warning("%s", line)

    def _reached_answering(self) -> None:
        if self._journal is None:
            return
        self._journal.probe("answering")
        if self._journal.unsaved_bytes > _CHECKPOINT_BYTES and not self._checkpoint_blocked:
            self._checkpoint_due = True

    def _show(self, upto: Revision) -> None:
        visible = self._store.commit(upto)
        limits = self._retention.limits
        if self._store.history_count > limits.max_changes or self._store.history_bytes > limits.max_bytes:
            self._compact(self._store.excess(limits.max_changes, limits.max_bytes))
        if visible:
            self._publish(visible)

    def _show_at_once(self, waiter: asyncio.Future[None]) -> None:
        self._show(self._store.applied)
        if not waiter.done():
            waiter.set_result(None)

    def _lose(self, waiters: Sequence[asyncio.Future[None]], reason: CommitFailed) -> None:
        lost = self._store.rollback()
        if lost:
            self._lost.append((lost[0].revision, lost[-1].revision, reason))
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(_again(reason))

    def _why_lost(self, revision: Revision) -> CommitFailed | None:
        for first, last, reason in reversed(self._lost):
            if first <= revision <= last:
                return reason
        return None

    def _compact(self, upto: Revision) -> None:
        if upto <= self._store.oldest:
            return
        forgotten = self._store.compact(upto)
        if self._journal is not None and forgotten:
            self._superseded.extend(log_rows.superseded(forgotten))


def _again(reason: CommitFailed) -> CommitFailed:
    """One exception for each that waits: an exception carries the trace of its own raising."""
    return CommitFailed(str(reason), full=reason.full, unknown=reason.unknown)
