"""Group commit: which writes share a commit, when a writer is answered, and what a failure rolls back."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headgate.store.io.committer import Committer
from headgate.store.io.journal import CommitFailed, Journal
from headgate.store.item import Compacted, Item, Revision, StoreChange
from headgate.store.memory import Store
from headgate.store.retention import Retention, RetentionLimits


def put(store: Store, name: str, text: str = "x") -> Revision:
    return store.stage(Item("pods", "a", name, "u", store.next_revision(), {}, {}, text.encode())).revision


class Disk:
    """A probe that can delay a commit, fail it, and count commits."""

    def __init__(self) -> None:
        self.commits = 0
        self.broken = False
        self.reached = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def __call__(self, point: str) -> None:
        if point == "written":
            self.reached.set()
            self.go.wait()
            if self.broken:
                raise sqlite3.OperationalError("disk I/O error")
        if point == "committed":
            self.commits += 1


Scenario = Callable[[Store, Committer, Disk], Coroutine[Any, Any, None]]


def run_scenario(folder: Path, scenario: Scenario, limits: RetentionLimits | None = None) -> list[StoreChange]:
    """Runs a scenario on a store in ``folder``; returns what was published."""
    published: list[StoreChange] = []

    async def run() -> None:
        disk = Disk()
        journal = Journal.open(folder, disk)
        store = journal.load()
        committer = Committer(store, journal, publish=published.extend, limits=limits)
        await scenario(store, committer, disk)
        await committer.close()

    asyncio.run(run())
    return published


@pytest.mark.parametrize(("writers", "commits"), [(7, 1), (50, 2)])
def test_writers_that_are_ready_together_share_commits(tmp_path: Path, writers: int, commits: int) -> None:
    """A few share one commit. With many, the first commit starts early and runs while the others compute."""

    async def scenario(store: Store, committer: Committer, disk: Disk) -> None:
        async def writer(name: str) -> None:
            await committer.flush(put(store, name))
            assert store.read("pods", "a", name) is not None

        await asyncio.gather(*(writer(f"n{number}") for number in range(writers)))
        assert disk.commits == commits

    assert len(run_scenario(tmp_path, scenario)) == writers


def test_writes_that_arrive_during_a_commit_share_the_next_one(tmp_path: Path) -> None:
    async def scenario(store: Store, committer: Committer, disk: Disk) -> None:
        disk.go.clear()
        first = committer.flush(put(store, "first"))
        await asyncio.to_thread(disk.reached.wait)
        later = [committer.flush(put(store, f"n{number}")) for number in range(20)]
        assert store.committed == 0
        assert store.read("pods", "a", "first") is None
        assert store.read_applied("pods", "a", "first") is not None
        disk.go.set()
        await first
        assert store.committed == 1
        await asyncio.gather(*later)
        assert store.committed == 21
        assert disk.commits == 2

    assert [change.revision for change in run_scenario(tmp_path, scenario)] == list(range(1, 22))


def test_a_failed_commit_rolls_back_all_staged_writes_and_the_next_write_succeeds(tmp_path: Path) -> None:
    async def scenario(store: Store, committer: Committer, disk: Disk) -> None:
        await committer.flush(put(store, "kept"))
        disk.reached.clear()
        disk.go.clear()
        disk.broken = True
        lost = [committer.flush(put(store, "lost"))]
        await asyncio.to_thread(disk.reached.wait)
        lost.append(committer.flush(put(store, "built-on-lost")))
        unflushed = put(store, "staged-only")
        disk.go.set()
        for error in await asyncio.gather(*lost, return_exceptions=True):
            assert isinstance(error, CommitFailed)
            assert "disk I/O error" in str(error)
        disk.broken = False
        assert store.applied == store.committed == 1
        new = put(store, "new")
        assert new == 5
        await committer.flush(new)
        with pytest.raises(CommitFailed):
            await committer.flush(unflushed)  # a later commit must not make a lost write look safe
        assert [item.name for item in store.list_applied("pods", None)] == ["kept", "new"]

    assert [change.item.name for change in run_scenario(tmp_path, scenario)] == ["kept", "new"]


def test_a_cancelled_waiter_does_not_affect_the_others(tmp_path: Path) -> None:
    async def scenario(store: Store, committer: Committer, disk: Disk) -> None:
        async def write(name: str) -> None:
            await committer.flush(put(store, name))

        disk.go.clear()
        tasks = [asyncio.create_task(write(name)) for name in ("one", "two")]
        await asyncio.to_thread(disk.reached.wait)
        tasks[0].cancel()
        disk.go.set()
        await tasks[1]
        assert tasks[0].cancelled()
        assert store.read("pods", "a", "one") is not None

    run_scenario(tmp_path, scenario)


def test_changes_are_published_before_the_writer_is_answered(tmp_path: Path) -> None:
    order: list[str] = []

    async def run() -> None:
        store = Store()
        committer = Committer(store, None, publish=lambda changes: order.append("published"))
        await committer.flush(put(store, "one"))
        order.append("answered")
        await committer.close()

    asyncio.run(run())
    assert order == ["published", "answered"]


def test_close_waits_for_staged_writes(tmp_path: Path) -> None:
    async def scenario(store: Store, committer: Committer, disk: Disk) -> None:
        put(store, "one")

    assert len(run_scenario(tmp_path, scenario)) == 1

    async def look(store: Store, committer: Committer, disk: Disk) -> None:
        assert store.read("pods", "a", "one") is not None
        assert store.next_revision() == 2

    run_scenario(tmp_path, look)


def test_flush_of_a_revision_that_was_never_staged_raises() -> None:
    async def run() -> None:
        committer = Committer(Store(), None)
        with pytest.raises(ValueError, match="never staged"):
            await committer.flush(Revision(1))
        await committer.close()

    asyncio.run(run())


def test_history_is_limited_by_count_and_the_file_is_compacted(tmp_path: Path) -> None:
    async def scenario(store: Store, committer: Committer, disk: Disk) -> None:
        for number in range(40):
            await committer.flush(put(store, "same", f"{number}"))
        assert store.history_count == 10
        assert store.oldest == 30

    run_scenario(tmp_path, scenario, RetentionLimits(max_changes=10))

    async def look(store: Store, committer: Committer, disk: Disk) -> None:
        assert store.committed == 40
        assert store.history_count in (10, 11)  # the last deletion may have come after the last commit

    run_scenario(tmp_path, look)


def test_history_is_limited_by_bytes() -> None:
    async def run() -> None:
        store = Store()
        committer = Committer(store, None, limits=RetentionLimits(max_bytes=1000))
        for _ in range(20):
            await committer.flush(put(store, "same", "x" * 300))
        assert store.history_bytes == 900
        await committer.close()

    asyncio.run(run())


def test_history_is_limited_by_age(tmp_path: Path) -> None:
    async def scenario(store: Store, committer: Committer, disk: Disk) -> None:
        await committer.flush(put(store, "one"))
        committer.tick(0.0)
        await committer.flush(put(store, "one", "y"))
        committer.tick(299.0)
        assert not isinstance(store.changes("pods", Revision(0)), Compacted)
        committer.tick(300.0)
        assert store.oldest == 1
        committer.tick(599.0)
        assert store.oldest == 2

    run_scenario(tmp_path, scenario)


def test_retention_keeps_a_change_for_at_least_its_age() -> None:
    retention = Retention(RetentionLimits(max_age_s=10))
    assert retention.tick(0, Revision(5)) == 0
    assert retention.tick(4, Revision(8)) == 0
    assert retention.tick(9, Revision(8)) == 0
    assert retention.tick(10, Revision(9)) == 5
    assert retention.tick(13, Revision(9)) == 5
    assert retention.tick(14, Revision(9)) == 8
    assert retention.tick(100, Revision(9)) == 9
