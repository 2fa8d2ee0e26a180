"""Backups are consistent and verified and block no writer; a restored store does not resume old watches."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from headgate.store import log_rows
from headgate.store.io.backup import BackupProgress, back_up, examine, restore
from headgate.store.io.database_file import FILE, StoreDamagedError, StoreError
from headgate.store.io.journal import Journal
from headgate.store.io.salvage import salvage
from headgate.store.item import Compacted, Item, Revision
from headgate.store.log_head import RESTORE_GAP
from headgate.store.memory import Store
from torture import byte_flips


def no_progress(done: int, total: int) -> None:
    pass


@pytest.fixture
def data(tmp_path: Path) -> Path:
    byte_flips.build(tmp_path / "data")
    return tmp_path / "data"


def names(store: Store) -> list[str]:
    return [item.name for item in store.list_applied("pods", None)]


def items(store: Store) -> list[Item]:
    return list(store.list_applied("pods", None))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_backup_is_the_store_at_one_revision_while_writes_continue(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "data")
    store = journal.load()
    for number in range(2500):
        byte_flips.stage(store, f"n{number}", "before")
    byte_flips.commit(store, journal)
    revision, before = store.committed, items(store)

    def write(point: str) -> None:
        byte_flips.stage(store, f"during-{store.next_revision()}", point)
        byte_flips.stage(store, "n7", "after")
        byte_flips.commit(store, journal)
        journal.checkpoint()

    target = tmp_path / "copy.db"
    copied = back_up(tmp_path / "data", target, BackupProgress(probe_point=write))
    assert copied.revision == revision
    assert copied.rows == 2500
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert files(tmp_path) == ["copy.db", "data"]
    journal.close(store.committed)
    restore(target, tmp_path / "again")
    journal, restored = byte_flips.load(tmp_path / "again")
    journal.close(restored.committed)
    assert items(restored) == before
    journal, original = byte_flips.load(tmp_path / "data")
    journal.close(original.committed)
    assert items(original) == items(store)


def test_a_restored_store_continues_above_every_revision_that_clients_may_have_seen(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "copy.db")
    journal, store = byte_flips.load(data)
    for number in range(20):
        byte_flips.stage(store, f"later-{number}", "x")
    byte_flips.commit(store, journal)
    seen = store.committed
    journal.close(store.committed)

    restored = restore(tmp_path / "copy.db", tmp_path / "again")
    journal, again = byte_flips.load(tmp_path / "again")
    assert again.committed == restored.revision > seen + RESTORE_GAP // 2
    assert isinstance(again.changes("pods", seen), Compacted)
    assert again.changes("pods", again.committed) == []
    change = byte_flips.stage(again, "new", "x")
    assert change.revision == again.committed + 1
    byte_flips.commit(again, journal)
    journal.close(again.committed)
    with sqlite3.connect(tmp_path / "again" / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone()[0] == again.count("pods")  # the past is gone
    connection.close()


def test_an_existing_file_is_never_replaced(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    with pytest.raises(StoreError, match="already exists"):
        back_up(data, target)
    target.unlink()

    def appear(point: str) -> None:
        target.write_text("precious")

    with pytest.raises(StoreError, match="already exists"):
        back_up(data, target, BackupProgress(probe_point=appear))
    assert target.read_text() == "precious"
    assert files(tmp_path) == ["copy.db", "data"]


@pytest.mark.parametrize("point", ["copied", "verified"])
def test_a_backup_that_is_interrupted_leaves_no_file_of_that_name(data: Path, tmp_path: Path, point: str) -> None:
    class Interrupted(Exception):
        pass

    def probe(reached: str) -> None:
        if reached == point:
            shutil.copytree(tmp_path, tmp_path.parent / "killed")  # the state after a kill
            raise Interrupted

    with pytest.raises(Interrupted):
        back_up(data, tmp_path / "copy.db", BackupProgress(probe_point=probe))
    assert files(tmp_path) == ["data"]
    killed = tmp_path.parent / "killed"
    assert "copy.db" not in files(killed)
    assert [name.endswith(".partial") for name in files(killed)] == [True, False]
    journal, store = byte_flips.load(killed / "data")
    journal.close(store.committed)
    shutil.rmtree(killed)


def test_a_damaged_store_is_not_backed_up_as_if_it_were_sound(data: Path, tmp_path: Path) -> None:
    with sqlite3.connect(data / FILE) as connection:
        connection.execute("UPDATE log SET data = 'other' WHERE name = 'n7'")
    connection.close()
    with pytest.raises(StoreDamagedError, match="n7"):
        back_up(data, tmp_path / "copy.db")
    assert files(tmp_path) == ["data"]


def test_a_damaged_backup_is_refused_and_nothing_is_left(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "copy.db")
    with sqlite3.connect(tmp_path / "copy.db") as connection:
        connection.execute("DELETE FROM log WHERE revision = (SELECT max(revision) FROM log)")
    connection.close()
    with pytest.raises(StoreDamagedError, match="use another backup"):
        restore(tmp_path / "copy.db", tmp_path / "again")
    assert files(tmp_path) == ["copy.db", "data"]
    assert examine(tmp_path / "copy.db", no_progress, at_rest=True)[0].startswith("it holds")


def test_a_folder_with_something_in_it_is_refused_and_left_alone(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "copy.db")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes").write_text("precious")
    with pytest.raises(StoreError, match="is not empty"):
        restore(tmp_path / "copy.db", folder)
    assert files(folder) == ["notes"]
    with pytest.raises(StoreError, match="is not empty"):
        restore(tmp_path / "copy.db", data)
    running = Journal.open(data)
    with pytest.raises(StoreError, match="in use by process"):
        restore(tmp_path / "copy.db", data)
    running.close(running.load().committed)


def test_a_file_that_a_server_has_open_is_not_taken_for_a_backup(data: Path, tmp_path: Path) -> None:
    journal, store = byte_flips.load(data)
    byte_flips.stage(store, "late", "x")
    byte_flips.commit(store, journal)
    with pytest.raises(StoreError, match="headgate backup"):
        restore(data / FILE, tmp_path / "again")
    journal.close(store.committed)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"hello " * 1000), "is not a Headgate store"),
    ],
)
def test_a_file_that_is_not_a_backup_is_refused(tmp_path: Path, make: object, message: str) -> None:
    assert callable(make)
    make(tmp_path / "copy.db")
    with pytest.raises(StoreError, match=message):
        restore(tmp_path / "copy.db", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_all_damaged_rows_are_listed_and_sound_rows_can_be_kept(data: Path) -> None:
    journal, store = byte_flips.load(data)
    journal.close(store.committed)
    with sqlite3.connect(data / FILE) as connection:
        newest = connection.execute("SELECT max(revision) FROM log WHERE name = 'n7'").fetchone()[0]
        connection.execute("UPDATE log SET data = 'x' WHERE revision = ?", (newest,))
        connection.execute("DELETE FROM log WHERE name = 'n8'")
    connection.close()
    assert examine(data / FILE, no_progress, at_rest=False) == [
        f"row {newest} (pods default/n7) does not match its checksum"
    ]
    result = salvage(data, no_progress)
    assert result.aside == data / "damaged-1"
    assert (data / "damaged-1" / FILE).exists()
    journal, again = byte_flips.load(data)
    journal.close(again.committed)
    lost = {item.name for item in items(store)} - {item.name for item in items(again)}
    assert "n8" in lost
    assert lost <= {"n7", "n8"}
    assert again.committed > store.committed
    assert isinstance(again.changes("pods", Revision(store.committed)), Compacted)
    assert examine(data / FILE, no_progress, at_rest=False) == []
    assert salvage(data, no_progress).problems == ()


def test_a_damaged_page_loses_only_its_own_rows(tmp_path: Path) -> None:
    data = tmp_path / "data"
    journal = Journal.open(data)
    store = journal.load()
    for number in range(200):
        byte_flips.stage(store, f"n{number:03}", "x" * 1000)
    byte_flips.commit(store, journal)
    journal.close(store.committed)
    with sqlite3.connect(data / FILE) as connection:
        size, pages = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count"))
    connection.close()
    with (data / FILE).open("r+b") as file:
        file.seek(size * (pages // 2))
        file.write(b"\xff" * 100)
    assert examine(data / FILE, no_progress, at_rest=False)
    result = salvage(data, no_progress)
    assert 150 < result.kept_rows < 200
    journal, again = byte_flips.load(data)
    journal.close(again.committed)
    assert names(again) == sorted(names(again))
    assert len(names(again)) == result.kept_rows


def test_a_store_in_use_is_not_salvaged(data: Path) -> None:
    journal, store = byte_flips.load(data)
    with pytest.raises(StoreError, match="in use"):
        salvage(data, no_progress)
    journal.write(log_rows.CommitBatch((), store.oldest, ()))
    journal.close(store.committed)
