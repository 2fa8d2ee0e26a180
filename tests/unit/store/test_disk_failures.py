"""A disk that fails: what was answered with an error does not exist later, or the answer says that it may."""

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
from torture import flips

WAL = FILE + "-wal"


class FailingDisk:
    """Raises an error at the named points, so often as is said there, or until it is mended."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.reached: list[str] = []

    def fail(self, *points: str, times: int = 1_000_000) -> None:
        self.failing = dict.fromkeys(points, times)

    def mend(self) -> None:
        self.failing = {}

    def __call__(self, point: str) -> None:
        self.reached.append(point)
        if self.failing.get(point, 0) > 0:
            self.failing[point] -= 1
            if point == "marking":
                raise OSError(errno.EIO, "Input/output error")
            raise sqlite3.OperationalError("disk I/O error")


class World:
    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.disk = FailingDisk()
        self.journal = Journal.open(self.folder, self.disk)
        self.store = self.journal.load()
        self._root = root
        self._kills = 0

    def write(self, name: str) -> None:
        flips.stage(self.store, name, "x" * 500)
        try:
            flips.commit(self.store, self.journal)
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
    journal, store = flips.load(folder)
    journal.close(store.committed)
    return [item.name for item in store.peek_all("pods", None)]


@pytest.fixture
def world(fast_folder: Path) -> Iterable[World]:
    made = World(fast_folder)
    made.write("kept")
    yield made
    made.disk.mend()
    made.journal.close(made.store.committed)


@pytest.mark.parametrize("point", ["begun", "written", "committed"])
def test_a_refused_write_does_not_exist_after_a_kill(world: World, point: str) -> None:
    world.disk.fail(point)
    refusal = world.refused("refused")
    assert not refusal.unknown
    assert "nothing was written" in str(refusal)
    assert world.after_a_kill() == ["kept"]
    world.refused("refused-too")
    assert world.after_a_kill() == ["kept"]


def test_a_write_whose_mark_could_not_be_written_is_refused_by_the_next_record(world: World) -> None:
    world.disk.fail("marking", times=1)
    assert not world.refused("refused").unknown
    assert world.after_a_kill() == ["kept"]


def test_if_even_the_refusal_cannot_be_recorded_the_answer_says_that_the_outcome_is_unknown(world: World) -> None:
    world.disk.fail("marking")
    refusal = world.refused("unknown")
    assert refusal.unknown
    assert "the outcome of this write is unknown" in str(refusal)
    assert world.after_a_kill() == ["kept", "unknown"]
    # What comes after it is not even tried, and that is known.
    later = world.refused("later")
    assert not later.unknown
    assert world.after_a_kill() == ["kept", "unknown"]
    world.disk.mend()
    world.write("after")
    assert world.after_a_kill() == ["after", "kept"]


def test_a_refused_write_stays_out_while_the_disk_goes_on_failing(world: World) -> None:
    world.disk.fail("committed", times=1)
    world.refused("refused")
    world.disk.fail("marking")
    world.refused("refused-too")
    assert "refused" not in world.after_a_kill()
    world.disk.mend()
    world.write("after")
    assert world.after_a_kill() == ["after", "kept"]


def test_a_stop_after_a_failure_leaves_what_was_acknowledged(world: World) -> None:
    world.disk.fail("committed", times=1)
    world.refused("refused")
    world.journal.close(world.store.committed)
    assert names(world.folder) == ["kept"]
    world.journal = Journal.open(world.folder)
    world.store = world.journal.load()


def test_a_backup_leaves_a_refused_write_out(world: World, tmp_path: Path) -> None:
    world.disk.fail("committed")
    world.refused("refused")
    copy = tmp_path / "killed"
    shutil.copytree(world.folder, copy)
    for number, source in enumerate((world.folder, copy)):  # of a server that runs, and of one that was killed
        back_up(source, tmp_path / f"copy-{number}.db")
        restore(tmp_path / f"copy-{number}.db", tmp_path / f"again-{number}")
        assert names(tmp_path / f"again-{number}") == ["kept"]


def test_after_a_failed_sync_nothing_is_appended_to_what_may_not_be_on_disk(world: World) -> None:
    """The system may count pages as written after a failed sync. The log is written anew before it is relied on."""
    salt = (world.folder / WAL).read_bytes()[16:24]
    world.disk.fail("committed", times=1)
    world.refused("refused")
    world.disk.reached.clear()
    world.write("after")
    assert world.disk.reached.index("checkpointed") < world.disk.reached.index("begun")
    assert (world.folder / WAL).read_bytes()[16:24] != salt
    world.disk.fail("committed", times=1)
    world.refused("refused")
    world.disk.fail("checkpointing")
    assert not world.refused("refused").unknown  # as long as the log cannot be written anew, nothing is tried


class Served:
    def __init__(self, world: World) -> None:
        self.world = world
        self.committer = Committer(world.store, world.journal)

    async def put(self, name: str, size: int = 10) -> None:
        await self.committer.flush(flips.stage(self.world.store, name, "x" * size).revision)

    async def tick(self) -> None:
        self.committer.tick(0.0)
        while self.committer.is_busy:
            await asyncio.sleep(0)


def test_a_failing_disk_is_logged_once_and_once_when_it_works_again(
    fast_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="headgate.store")
    world = World(fast_folder)

    async def scenario() -> None:
        served = Served(world)
        await served.put("kept")
        assert served.committer.problem() == ""
        world.disk.fail("written")
        for number in range(5):
            with pytest.raises(CommitFailed):
                await served.put(f"refused-{number}")
            await served.tick()
        assert served.committer.problem() == "disk I/O error"
        assert len(caplog.records) == 1
        assert "the disk fails: disk I/O error" in caplog.text
        world.disk.mend()
        await served.tick()  # no client has to try
        assert served.committer.problem() == ""
        assert [each.getMessage() for each in caplog.records][1:] == ["the disk works again: writes are accepted"]
        await served.put("after")
        assert len(caplog.records) == 2
        await served.committer.close()

    asyncio.run(scenario())
    assert names(world.folder) == ["after", "kept"]


def test_a_checkpoint_that_fails_is_a_failing_disk_too(fast_folder: Path) -> None:
    world = World(fast_folder)

    async def scenario() -> None:
        served = Served(world)
        await served.put("kept")
        world.disk.fail("checkpointing")
        await served.tick()
        assert served.committer.problem() == "disk I/O error"
        await served.put("also-kept")  # it lies in the write-ahead file
        assert served.committer.problem() == "disk I/O error"
        world.disk.mend()
        await served.tick()
        assert served.committer.problem() == ""
        await served.committer.close()

    asyncio.run(scenario())
    assert names(world.folder) == ["also-kept", "kept"]


def test_a_small_write_that_succeeds_does_not_end_a_failure_of_large_ones() -> None:
    health = DiskHealth()
    said = [health.failed("the disk is full", 100_000), health.failed("the disk is full", 50), health.succeeded(50)]
    problems = [health.problem]
    said += [health.succeeded(100_000), health.succeeded(1)]
    problems += [health.problem]
    assert [line is not None for line in said] == [True, False, False, True, False]
    assert problems == ["the disk is full", None]


def test_the_store_of_a_refused_write_goes_on_above_its_revision(fast_folder: Path) -> None:
    world = World(fast_folder)
    world.disk.fail("committed")
    world.refused("refused")
    shutil.copytree(world.folder, fast_folder / "killed")
    journal, again = flips.load(fast_folder / "killed")
    journal.close(again.committed)
    assert isinstance(again, Store)
    assert again.next_revision() > world.store.next_revision()
    world.disk.mend()
    world.journal.close(world.store.committed)
