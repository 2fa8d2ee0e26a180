"""The journal: what it keeps, what it refuses, and what remains after a crash."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.store import log_head, log_rows
from headgate.store.io.database_file import FILE, StoreError
from headgate.store.io.journal import CommitFailed, Journal
from headgate.store.item import Compacted, Item, Revision, StoreChange
from headgate.store.memory import Store


def put(store: Store, name: str, text: str = "x", *, delete: bool = False) -> StoreChange:
    item = Item("pods", "a", name, f"uid-{name}", store.next_revision(), {"l": name}, {"f": text}, text.encode())
    return store.stage(item, delete=delete)


def save(store: Store, journal: Journal, superseded: list[Revision] | None = None) -> None:
    batch = log_rows.CommitBatch(store.pending(), store.oldest, superseded or [])
    journal.write(batch)
    store.commit(store.applied)


def contents(store: Store) -> dict[str, Item]:
    return {item.name: item for item in store.list_applied("pods", None)}


def reopen(folder: Path) -> Store:
    journal = Journal.open(folder)
    store = journal.load()
    journal.close(store.committed)
    return store


def test_objects_and_history_survive_a_restart(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    store = journal.load()
    put(store, "one")
    put(store, "two")
    put(store, "one", "y")
    put(store, "two", "gone", delete=True)
    save(store, journal)
    journal.close(store.committed)

    again = reopen(tmp_path)
    assert contents(again) == contents(store)
    assert again.changes("pods", Revision(0)) == store.changes("pods", Revision(0))
    assert again.page("pods", None, at=Revision(2)) == store.page("pods", None, at=Revision(2))
    assert again.committed == store.committed == 4


def test_a_clean_stop_leaves_no_gap_and_a_crash_starts_a_new_block(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    store = journal.load()
    put(store, "one")
    save(store, journal)
    journal.close(store.committed)
    journal = Journal.open(tmp_path)
    assert journal.load().next_revision() == 2
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path, crashed)
    journal.close(Revision(1))

    journal = Journal.open(crashed)
    assert journal.load().next_revision() == 2 + log_head.CRASH_GAP
    crashed_again = tmp_path / "again"
    shutil.copytree(crashed, crashed_again)
    journal.close(Revision(1))
    assert reopen(crashed_again).next_revision() == 2 + 2 * log_head.CRASH_GAP


def test_compacted_history_stays_compacted_and_its_rows_are_deleted(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    store = journal.load()
    put(store, "one")
    put(store, "one", "y")
    put(store, "two")
    put(store, "two", "gone", delete=True)
    put(store, "three")
    save(store, journal)
    compacted = log_rows.superseded(store.compact(Revision(4)))
    save(store, journal, compacted)
    journal.close(store.committed)

    with sqlite3.connect(tmp_path / FILE) as connection:
        assert [row[0] for row in connection.execute("SELECT revision FROM log ORDER BY revision")] == [2, 5]
    connection.close()
    again = reopen(tmp_path)
    assert again.changes("pods", Revision(3)) == Compacted(Revision(4))
    assert again.changes("pods", Revision(4)) == store.changes("pods", Revision(4))
    assert contents(again) == contents(store)


def test_rows_left_by_an_unfinished_compaction_are_removed_at_the_next_start(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    store = journal.load()
    put(store, "one")
    put(store, "one", "y")
    put(store, "two")
    put(store, "two", "gone", delete=True)
    save(store, journal)
    compacted = log_rows.superseded(store.compact(Revision(4)))
    assert compacted == [1, 3, 4]
    save(store, journal, compacted[:1])  # the process ends before it deletes the rest
    journal.close(store.committed)

    assert contents(reopen(tmp_path)) == contents(store)
    with sqlite3.connect(tmp_path / FILE) as connection:
        assert [row[0] for row in connection.execute("SELECT revision FROM log")] == [2]
    connection.close()


@pytest.mark.parametrize(("point", "survives"), [("begun", False), ("written", False), ("committed", True)])
def test_a_crash_keeps_every_commit_that_ended_and_none_that_did_not(
    tmp_path: Path, point: str, survives: bool
) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    crash_at: list[str] = []

    def probe(name: str) -> None:
        if name in crash_at:
            shutil.copytree(source, copy)  # the state if the process is killed here

    journal = Journal.open(source, probe)
    store = journal.load()
    put(store, "one")
    save(store, journal)
    before = contents(store)
    crash_at.append(point)
    put(store, "one", "y")
    put(store, "two")
    save(store, journal)
    journal.close(store.committed)

    again = reopen(copy)
    assert contents(again) == (contents(store) if survives else before)
    changes = again.changes("pods", Revision(0))
    assert not isinstance(changes, Compacted)
    assert len(changes) == (3 if survives else 1)


def full_disk(journal: Journal, pages: int | None) -> None:
    """Limits the size of the file, as a full disk would; ``None`` removes the limit."""
    connection = journal._open_connection()
    limit = connection.execute("PRAGMA page_count").fetchone()[0] + pages if pages is not None else 1 << 30
    connection.execute(f"PRAGMA max_page_count = {limit}")


def test_a_full_disk_fails_the_whole_write_and_later_writes_succeed(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    store = journal.load()
    put(store, "one")
    save(store, journal)
    full_disk(journal, 0)
    put(store, "small")
    put(store, "large", "x" * 100_000)
    with pytest.raises(CommitFailed, match="full"):
        save(store, journal)
    store.rollback()
    assert list(contents(store)) == ["one"]

    full_disk(journal, None)
    put(store, "large", "x" * 100_000)
    save(store, journal)
    journal.close(store.committed)
    again = reopen(tmp_path)
    assert contents(again) == contents(store)
    assert sorted(contents(again)) == ["large", "one"]


def test_a_commit_that_failed_but_reached_the_disk_is_undone_by_the_next_one(tmp_path: Path) -> None:
    fail: list[str] = []

    def probe(name: str) -> None:
        if name in fail:
            fail.clear()
            raise sqlite3.OperationalError("disk I/O error")

    journal = Journal.open(tmp_path, probe)
    store = journal.load()
    put(store, "one")
    save(store, journal)
    fail.append("committed")  # the bytes are on disk, but the commit reports an error
    put(store, "phantom")
    with pytest.raises(CommitFailed):
        save(store, journal)
    store.rollback()
    put(store, "two")
    save(store, journal)
    journal.close(store.committed)
    assert sorted(contents(reopen(tmp_path))) == ["one", "two"]


def test_a_second_process_is_refused_with_a_hint(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    with pytest.raises(StoreError) as refusal:
        Journal.open(tmp_path)
    assert str(refusal.value) == (
        f"data folder {tmp_path} is in use by process {os.getpid()}: stop that process, or choose another folder"
    )
    journal.close(Revision(0))
    Journal.open(tmp_path).close(Revision(0))


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def newer_format(path: Path) -> None:
    Journal.open(path.parent).close(Revision(0))
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {log_head.FORMAT + 1}")
    connection.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (foreign_database, "is not a Headgate store"),
        (lambda path: path.write_bytes(b"notes of mine\n" * 100), "is not a Headgate store"),
        (newer_format, "has format 5, and this Headgate reads up to 4"),
    ],
)
def test_a_foreign_file_is_refused_and_not_changed(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / FILE
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as refusal:
        Journal.open(tmp_path)
    assert "\n" not in str(refusal.value)
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match=message):  # and the lock was given back
        Journal.open(tmp_path)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        Journal.open(tmp_path / "data")


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "data")
    store = journal.load()
    put(store, "secret")
    save(store, journal)
    for file in (tmp_path / "data").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
    journal.close(store.committed)


def test_load_reports_progress(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    store = journal.load()
    for number in range(12_000):
        put(store, f"n{number}")
    save(store, journal)
    journal.close(store.committed)
    journal = Journal.open(tmp_path)
    reports: list[tuple[int, int]] = []
    loaded = journal.load(lambda done, total: reports.append((done, total)))
    journal.close(loaded.committed)
    assert reports == [(0, 12_000), (10_000, 12_000), (12_000, 12_000)]


WRITER = """
import asyncio, sys
from pathlib import Path
from headgate.store.item import Item
from headgate.store.io.journal import Journal
from headgate.store.io.committer import Committer

async def main():
    journal = Journal.open(Path(sys.argv[1]))
    store = journal.load()
    committer = Committer(store, journal)
    async def writer(number):
        count = 0
        while True:
            revision = store.next_revision()
            store.stage(Item("pods", "a", f"{number}-{count}", "u", revision, {}, {}, b"x" * 500))
            await committer.flush(revision)
            print(revision, f"{number}-{count}", flush=True)
            count += 1
    await asyncio.gather(*(writer(number) for number in range(8)))

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [1, 50, 400])
def test_no_acknowledged_write_is_lost_after_sigkill(tmp_path: Path, lines: int) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        answered = [process.stdout.readline().split() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        answered += [line.split() for line in process.stdout if line.endswith("\n")]
    store = reopen(tmp_path)
    kept = contents(store)
    for revision, name in answered:
        assert kept[name].revision == int(revision)
    last = max(item.revision for item in kept.values())
    assert sorted(item.revision for item in kept.values()) == list(range(1, last + 1))
    assert store.next_revision() > last + 8
