"""``Committer``: writes staged changes to the disk, on behalf of the event loop (group commit).

While one commit is in progress, further writes wait, and the next commit contains all of them. A response is sent only
after ``flush`` returns, and ``flush`` returns only after the bytes are on disk. ``store/io/journal.py`` writes to the
disk in its own thread.

After a failed write, every tick checks the disk (``Journal.check_disk``), so that the store recovers without a write
of a client.
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

_DELETES_PER_COMMIT: Final = 1_000  # spreads a large compaction over several commits
_FAILURES_REMEMBERED: Final = 1_000
_IMMEDIATE_COMMIT_WAITERS: Final = 8  # with this many waiters a commit starts at once, while other requests compute
_TICK_S: Final = 2.0
_CHECKPOINT_BYTES: Final = 8 * 1024 * 1024

_log: Final = logging.getLogger(__name__)


class Committer:
    """Writes staged changes to the disk, and then makes them visible.

    Without a journal the store is only in memory, and ``flush`` commits at once.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal | None,
        *,
        publish: Callable[[Sequence[StoreChange]], None] = lambda changes: None,
        limits: RetentionLimits | None = None,
        ended: Callable[[float, int, bool], None] = lambda took_s, changes, ok: None,
    ) -> None:
        """``publish`` is called in the event loop with the visible changes before ``flush`` returns. ``ended`` is
        called after each write to the disk: how long it took, the number of its changes, and whether it succeeded."""
        self._ended: Final = ended
        self._commit_started_s = 0.0
        self.lock: Final = StoreLock()
        self._store = store
        self._journal = journal
        self._publish = publish
        self._retention = Retention(limits or RetentionLimits())
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headgate-store")
        # The commit, checkpoint or disk check in progress.
        self._job: asyncio.Future[None] | asyncio.Future[bool] | None = None
        self._starting = False
        self._closing = False
        self._health = DiskHealth()
        self._disk_check_due = False
        self._checkpoint_due = False
        self._checkpoint_blocked = False  # by a reader or the disk; the next tick tries again
        self._commit_upto = Revision(0)  # the last revision in the commit in progress
        self._current: list[asyncio.Future[None]] = []  # waiters for the commit in progress
        self._next: list[asyncio.Future[None]] = []  # waiters for the next commit
        self._superseded: deque[Revision] = deque()  # rows of compacted states, to be deleted from the log
        # Ranges of revisions that were rolled back, and why.
        self._lost: deque[tuple[Revision, Revision, CommitFailed]] = deque(maxlen=_FAILURES_REMEMBERED)

    def problem(self) -> str:
        """Why writes to the disk fail; empty if they succeed."""
        return self._health.problem or ""

    @property
    def is_busy(self) -> bool:
        """Whether a commit, a checkpoint or a disk check is in progress or about to start."""
        return self._starting or self._job is not None

    def flush(self, revision: Revision) -> Awaitable[None]:
        """Waits until the write with this revision is on disk and visible; raises ``CommitFailed`` if it was lost."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reason = self._loss_reason(revision)
        if reason is None and revision > self._store.applied:
            raise ValueError(f"revision {revision} was never staged; the newest is {self._store.applied}")
        if reason is not None:
            waiter.set_exception(_copy_error(reason))
        elif revision <= self._store.committed:
            waiter.set_result(None)
        elif self._journal is None:
            self.lock.run_when_free(lambda: self._commit_in_memory(waiter))
        elif self._job is not None and revision <= self._commit_upto:
            self._current.append(waiter)
        else:
            self._next.append(waiter)
            if len(self._next) >= _IMMEDIATE_COMMIT_WAITERS and self._job is None:
                self._start()
            else:
                self._start_soon()
        return waiter

    def tick(self, now_s: float) -> None:
        """Compacts old history, and requests a checkpoint of the commits since the last one."""
        self.lock.run_when_free(lambda: self._tick(now_s))

    def _tick(self, now_s: float) -> None:
        self._compact(self._retention.tick(now_s, self._store.committed))
        self._checkpoint_blocked = False
        if self._journal is not None and self._health.problem is not None:
            self._disk_check_due = True
        elif self._journal is not None and self._journal.uncheckpointed_bytes:
            self._checkpoint_due = True
        if self._superseded or self._checkpoint_due or self._disk_check_due:
            self._start_soon()

    async def run_ticks(self) -> None:
        """Calls ``tick`` periodically, until the task is cancelled."""
        while True:
            self.tick(time.monotonic())
            await asyncio.sleep(_TICK_S)

    async def close(self) -> None:
        """Commits staged changes, then records a clean stop. No write may be staged after this call."""
        with contextlib.suppress(CommitFailed):
            await self.flush(self._store.applied)
        self._closing = True
        while self._job is not None:
            await asyncio.wait([self._job])
            await self.lock.wait_until_free()
        self._executor.shutdown()
        if self._journal is not None:
            self._journal.close(Revision(self._store.next_revision() - 1))

    def _start_soon(self) -> None:
        """Starts the next job after every task that is ready now has staged its write."""
        if not self._starting and self._job is None:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self.lock.run_when_free(self._start_now)

    def _start_now(self) -> None:
        self._starting = False
        if self._journal is None or self._closing or self._job is not None:
            return
        loop, pending = asyncio.get_running_loop(), self._store.pending()
        if self._disk_check_due:
            self._disk_check_due = False
            check_disk = self._journal.check_disk
            disk_check = self._job = loop.run_in_executor(
                self._executor, check_disk, self._store.oldest, self._health.size
            )
            disk_check.add_done_callback(self._finish_disk_check)
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
            self._commit_upto = pending[-1].revision if pending else self._store.committed
            self._current, self._next = self._next, []
            self._commit_started_s = time.perf_counter()
            commit = self._job = loop.run_in_executor(self._executor, self._journal.write, batch)
            commit.add_done_callback(lambda done: self.lock.run_when_free(lambda: self._finish_commit(done, batch)))

    def _finish_checkpoint(self, done: asyncio.Future[bool]) -> None:
        self._job = None
        self._checkpoint_blocked = True
        try:
            self._checkpoint_blocked = not done.result()
            self._update_health(0)
        finally:  # a failed checkpoint must not delay commits
            if self._next or self._superseded:
                self._start_soon()

    def _finish_disk_check(self, done: asyncio.Future[None]) -> None:
        self._job = None
        error = done.exception()
        if error is None:
            self._update_health(self._health.size)
        elif not isinstance(error, CommitFailed):
            _log.error("the check of the disk after a failed write failed: %r", error)
        if self._next or self._superseded:
            self._start_soon()

    def _finish_commit(self, done: asyncio.Future[None], batch: log_rows.CommitBatch) -> None:
        self._job = None
        error = done.exception()
        self._ended(time.perf_counter() - self._commit_started_s, len(batch.changes), error is None)
        waiters, self._current = self._current, []
        self._update_health(sum(len(change.item.data) for change in batch.changes))
        if error is not None:
            self._superseded.extendleft(reversed(batch.superseded))
            self._roll_back(
                waiters + self._next, error if isinstance(error, CommitFailed) else CommitFailed(str(error))
            )
            self._next = []
            return
        try:
            self._before_publish()
            self._make_visible(self._commit_upto)
        finally:  # an error in ``publish`` does not undo the commit
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if self._next:  # these writers have already waited for one commit
                self._start()
            elif self._superseded or self._checkpoint_due:
                self._start_soon()

    def _update_health(self, size: int) -> None:
        """Records the outcome of a write of ``size`` bytes, and logs it if the state of the disk has changed."""
        problem = self._journal.problem if self._journal is not None else None
        line = self._health.failed(problem, size) if problem is not None else self._health.succeeded(size)
        if line is not None:
            _log.warning("%s", line)

    def _before_publish(self) -> None:
        """Called between a commit and its publication."""
        if self._journal is None:
            return
        self._journal.probe("answering")
        if self._journal.uncheckpointed_bytes > _CHECKPOINT_BYTES and not self._checkpoint_blocked:
            self._checkpoint_due = True

    def _make_visible(self, upto: Revision) -> None:
        visible = self._store.commit(upto)
        limits = self._retention.limits
        if self._store.history_count > limits.max_changes or self._store.history_bytes > limits.max_bytes:
            self._compact(self._store.compaction_target(limits.max_changes, limits.max_bytes))
        if visible:
            self._publish(visible)

    def _commit_in_memory(self, waiter: asyncio.Future[None]) -> None:
        self._make_visible(self._store.applied)
        if not waiter.done():
            waiter.set_result(None)

    def _roll_back(self, waiters: Sequence[asyncio.Future[None]], reason: CommitFailed) -> None:
        lost = self._store.rollback()
        if lost:
            self._lost.append((lost[0].revision, lost[-1].revision, reason))
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(_copy_error(reason))

    def _loss_reason(self, revision: Revision) -> CommitFailed | None:
        for first, last, reason in reversed(self._lost):
            if first <= revision <= last:
                return reason
        return None

    def _compact(self, upto: Revision) -> None:
        if upto <= self._store.oldest:
            return
        compacted = self._store.compact(upto)
        if self._journal is not None and compacted:
            self._superseded.extend(log_rows.superseded(compacted))


def _copy_error(reason: CommitFailed) -> CommitFailed:
    """A new exception for each waiter, because an exception contains the traceback of its own raise."""
    return CommitFailed(str(reason), full=reason.full, unknown=reason.unknown)
