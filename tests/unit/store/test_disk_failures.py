"""A failing disk: a write that was answered with an error does not exist later, or the error says that it may."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from headgate.store.disk_health import DiskHealth
from headgate.store.io.backup import back_up, examine, restore
from headgate.store.io.committer import Committer
from headgate.store.io.database_file import FILE
from headgate.store.io.journal import CommitFailed, Journal
from headgate.store.memory import Store
from torture import byte_flips

WAL = FILE + "-wal"


class FailingDisk:
    """Raises an error at the named points, ``times`` times, or until it is repaired."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.reached: list[str] = []

    def fail(self, *points: str, times: int = 1_000_000) -> None:
        self.failing = dict.fromkeys(points, times)

    def repair(self) -> None:
        self.failing = {}

    def __call__(self, point: str) -> None:
        self.reached.append(point)
        if self.failing.get(point, 0) > 0:
            self.failing[point] -= 1
            if point == "marking":
                raise OSError(errno.EIO, "Input/output error")
            raise sqlite3.OperationalError("disk I/O error")


class StoreHarness:
    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.disk = FailingDisk()
        self.journal = Journal.open(self.folder, self.disk)
        self.store = self.journal.load()
        self._root = root
        self._kills = 0

    def write(self, name: str) -> None:
        byte_flips.stage(self.store, name, "x" * 500)
        try:
            byte_flips.commit(self.store, self.journal)
        except CommitFailed:
            self.store.rollback()
            raise

    def refused(self, name: str) -> CommitFailed:
        with pytest.raises(CommitFailed) as refusal:
            self.write(name)
        return refusal.value

    def after_a_kill(self) -> list[str]:
        """What the next process finds if this one is killed now."""
        self._kills += 1
        copy = self._root / f"killed-{self._kills}"
        shutil.copytree(self.folder, copy)
        assert examine(copy / FILE, lambda done, total: None, at_rest=False) == []
        return names(copy)


def names(folder: Path) -> list[str]:
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    return [item.name for item in store.list_applied("pods", None)]


@pytest.fixture
def harness(fast_folder: Path) -> Iterable[StoreHarness]:
    opened = StoreHarness(fast_folder)
    opened.write("kept")
    yield opened
    opened.disk.repair()
    opened.journal.close(opened.store.committed)


@pytest.mark.parametrize("point", ["begun", "written", "committed"])
def test_a_refused_write_does_not_exist_after_a_kill(harness: StoreHarness, point: str) -> None:
    harness.disk.fail(point)
    refusal = harness.refused("refused")
    assert not refusal.unknown
    assert "nothing was written" in str(refusal)
    assert harness.after_a_kill() == ["kept"]
    harness.refused("refused-too")
    assert harness.after_a_kill() == ["kept"]


def test_a_write_whose_mark_could_not_be_written_is_refused_by_the_next_record(harness: StoreHarness) -> None:
    harness.disk.fail("marking", times=1)
    assert not harness.refused("refused").unknown
    assert harness.after_a_kill() == ["kept"]


def test_the_outcome_is_unknown_if_the_refusal_cannot_be_recorded(harness: StoreHarness) -> None:
    harness.disk.fail("marking")
    refusal = harness.refused("unknown")
    assert refusal.unknown
    assert "the outcome of this write is unknown" in str(refusal)
    assert harness.after_a_kill() == ["kept", "unknown"]
    # Later writes are not attempted, so their outcome is known.
    later = harness.refused("later")
    assert not later.unknown
    assert harness.after_a_kill() == ["kept", "unknown"]
    harness.disk.repair()
    harness.write("after")
    assert harness.after_a_kill() == ["after", "kept"]


def test_a_refused_write_does_not_come_back_while_the_disk_keeps_failing(harness: StoreHarness) -> None:
    harness.disk.fail("committed", times=1)
    harness.refused("refused")
    harness.disk.fail("marking")
    harness.refused("refused-too")
    assert "refused" not in harness.after_a_kill()
    harness.disk.repair()
    harness.write("after")
    assert harness.after_a_kill() == ["after", "kept"]


def test_a_stop_after_a_failure_keeps_acknowledged_writes(harness: StoreHarness) -> None:
    harness.disk.fail("committed", times=1)
    harness.refused("refused")
    harness.journal.close(harness.store.committed)
    assert names(harness.folder) == ["kept"]
    harness.journal = Journal.open(harness.folder)
    harness.store = harness.journal.load()


def test_a_backup_does_not_contain_a_refused_write(harness: StoreHarness, tmp_path: Path) -> None:
    harness.disk.fail("committed")
    harness.refused("refused")
    copy = tmp_path / "killed"
    shutil.copytree(harness.folder, copy)
    for number, source in enumerate((harness.folder, copy)):  # of a running server, and of one that was killed
        back_up(source, tmp_path / f"copy-{number}.db")
        restore(tmp_path / f"copy-{number}.db", tmp_path / f"again-{number}")
        assert names(tmp_path / f"again-{number}") == ["kept"]


def test_after_a_failed_sync_the_write_ahead_file_is_rewritten_before_the_next_commit(harness: StoreHarness) -> None:
    """The kernel may count pages as written after a failed sync, so the write-ahead file is rewritten first."""
    salt = (harness.folder / WAL).read_bytes()[16:24]
    harness.disk.fail("committed", times=1)
    harness.refused("refused")
    harness.disk.reached.clear()
    harness.write("after")
    assert harness.disk.reached.index("checkpointed") < harness.disk.reached.index("begun")
    assert (harness.folder / WAL).read_bytes()[16:24] != salt
    harness.disk.fail("committed", times=1)
    harness.refused("refused")
    harness.disk.fail("checkpointing")
    assert not harness.refused("refused").unknown  # nothing is attempted while the write-ahead file cannot be rewritten


class CommitterHarness:
    def __init__(self, harness: StoreHarness) -> None:
        self.world = harness
        self.committer = Committer(harness.store, harness.journal)

    async def put(self, name: str, size: int = 10) -> None:
        await self.committer.flush(byte_flips.stage(self.world.store, name, "x" * size).revision)

    async def tick(self) -> None:
        self.committer.tick(0.0)
        while self.committer.is_busy:
            await asyncio.sleep(0)


def test_a_failing_disk_is_logged_once_and_once_when_it_works_again(
    fast_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="headgate.store")
    harness = StoreHarness(fast_folder)

    async def scenario() -> None:
        served = CommitterHarness(harness)
        await served.put("kept")
        assert served.committer.problem() == ""
        harness.disk.fail("written")
        for number in range(5):
            with pytest.raises(CommitFailed):
                await served.put(f"refused-{number}")
            await served.tick()
        assert served.committer.problem() == "disk I/O error"
        assert len(caplog.records) == 1
        assert "the disk fails: disk I/O error" in caplog.text
        harness.disk.repair()
        await served.tick()  # without a write of a client
        assert served.committer.problem() == ""
        assert [each.getMessage() for each in caplog.records][1:] == ["the disk works again: writes are accepted"]
        await served.put("after")
        assert len(caplog.records) == 2
        await served.committer.close()

    asyncio.run(scenario())
    assert names(harness.folder) == ["after", "kept"]


def test_a_checkpoint_that_fails_is_a_failing_disk_too(fast_folder: Path) -> None:
    harness = StoreHarness(fast_folder)

    async def scenario() -> None:
        served = CommitterHarness(harness)
        await served.put("kept")
        harness.disk.fail("checkpointing")
        await served.tick()
        assert served.committer.problem() == "disk I/O error"
        await served.put("also-kept")  # it is in the write-ahead file
        assert served.committer.problem() == "disk I/O error"
        harness.disk.repair()
        await served.tick()
        assert served.committer.problem() == ""
        await served.committer.close()

    asyncio.run(scenario())
    assert names(harness.folder) == ["also-kept", "kept"]


def test_a_successful_small_write_does_not_end_a_failure_of_large_ones() -> None:
    health = DiskHealth()
    lines = [health.failed("the disk is full", 100_000), health.failed("the disk is full", 50), health.succeeded(50)]
    problems = [health.problem]
    lines += [health.succeeded(100_000), health.succeeded(1)]
    problems += [health.problem]
    assert [line is not None for line in lines] == [True, False, False, True, False]
    assert problems == ["the disk is full", None]


def test_after_a_refused_write_the_next_revision_is_above_it(fast_folder: Path) -> None:
    harness = StoreHarness(fast_folder)
    harness.disk.fail("committed")
    harness.refused("refused")
    shutil.copytree(harness.folder, fast_folder / "killed")
    journal, again = byte_flips.load(fast_folder / "killed")
    journal.close(again.committed)
    assert isinstance(again, Store)
    assert again.next_revision() > harness.store.next_revision()
    harness.disk.repair()
    harness.journal.close(harness.store.committed)
