"""Files of the format before commits were numbered: a sound file is upgraded."""

from __future__ import annotations

import shutil
import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from headgate.store import log_head
from headgate.store.io.backup import back_up, examine, restore
from headgate.store.io.database_file import FILE, StoreDamagedError
from headgate.store.io.high_water_mark_file import MARK
from headgate.store.io.journal import Journal
from headgate.store.io.salvage import salvage
from headgate.store.item import Item
from torture import byte_flips


def no_progress(done: int, total: int) -> None:
    pass


def make_unchained(folder: Path) -> None:
    """Turns a store of the present format into one of the format before it."""
    connection = sqlite3.connect(folder / FILE)
    with connection:
        lines = connection.execute("SELECT revision, oldest, clean, rows, digest FROM head").fetchone()
        seal = int.from_bytes(sha256(",".join(map(str, lines)).encode()).digest()[:8], "big", signed=True)
        connection.execute("DROP TABLE head")
        connection.execute(log_head.CREATE_UNCHAINED)
        connection.execute("INSERT INTO head VALUES (1, ?, ?, ?, ?, ?, ?)", (*lines, seal))
        connection.execute(f"PRAGMA user_version = {log_head.UNCHAINED}")
    connection.close()
    (folder / MARK).unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    byte_flips.build(tmp_path / "data")
    return tmp_path / "data"


def content(folder: Path) -> object:
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    return byte_flips.content(store)


def objects(folder: Path) -> list[Item]:
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    return list(store.list_applied("pods", None))


def version(folder: Path) -> int:
    connection = sqlite3.connect(folder / FILE)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(found)


def test_a_sound_file_is_upgraded_and_serves_the_same_content(folder: Path) -> None:
    before = content(folder)
    make_unchained(folder)
    assert (version(folder), examine(folder / FILE, no_progress, at_rest=False)) == (3, [])
    assert content(folder) == before
    assert version(folder) == 4
    journal, store = byte_flips.load(folder)
    byte_flips.stage(store, "later", "x")
    byte_flips.commit(store, journal)
    after = byte_flips.content(store)
    journal.close(store.committed)
    assert content(folder) == after
    assert examine(folder / FILE, no_progress, at_rest=False) == []


@pytest.mark.parametrize("point", ["begun", "marking", "marked"])
def test_an_interrupted_upgrade_is_repeated_at_the_next_start(folder: Path, point: str) -> None:
    before = objects(folder)
    make_unchained(folder)
    killed = folder.parent / "killed"

    def probe(reached: str) -> None:
        if reached == point and not killed.exists():
            shutil.copytree(folder, killed)

    journal = Journal.open(folder, probe)
    store = journal.load()
    byte_flips.stage(store, "later", "x")
    byte_flips.commit(store, journal)
    journal.close(store.committed)
    assert objects(killed) == before
    assert version(killed) == 4


def test_damage_in_an_old_file_is_reported_and_sound_rows_can_be_kept(folder: Path) -> None:
    make_unchained(folder)
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE log SET data = 'other' WHERE name = 'n7'")
    connection.close()
    with pytest.raises(StoreDamagedError, match="n7"):
        byte_flips.load(folder)
    assert version(folder) == 3
    assert salvage(folder, no_progress).kept_rows > 10
    assert version(folder) == 4
    content(folder)


def test_an_old_file_with_a_newer_high_water_mark_is_refused(folder: Path) -> None:
    mark = (folder / MARK).read_bytes()
    make_unchained(folder)
    (folder / MARK).write_bytes(mark)
    with pytest.raises(StoreDamagedError, match="it is older than headgate"):
        byte_flips.load(folder)


def test_an_old_file_can_still_be_restored(folder: Path, tmp_path: Path) -> None:
    before = objects(folder)
    make_unchained(folder)
    back_up(folder, tmp_path / "copy.db")
    for source in (folder / FILE, tmp_path / "copy.db"):
        target = tmp_path / f"of-{source.parent.name}"
        restore(source, target)
        assert objects(target) == before
