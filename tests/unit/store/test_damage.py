"""A start finds damage and reports it; damage that it does not find changes nothing that is served."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.store.io.database_file import FILE, StoreDamagedError, StoreError
from headgate.store.io.high_water_mark_file import read_marks, refuse_rollback_journal
from headgate.store.io.journal import Journal
from headgate.store.io.salvage import salvage
from headgate.store.item import Revision
from torture import byte_flips


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    byte_flips.build(tmp_path)
    return tmp_path


def edit(folder: Path, statement: str) -> None:
    """A change that SQLite's own check accepts."""
    connection = sqlite3.connect(folder / FILE)
    with connection:
        connection.execute(statement)
    connection.close()


def refusal(folder: Path) -> str:
    with pytest.raises(StoreDamagedError) as refused:
        byte_flips.load(folder)
    return str(refused.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE log SET data = 'other' WHERE name = 'n7'", "(pods default/n7) does not match its checksum"),
        ("UPDATE log SET uid = CAST(x'ff' AS TEXT) WHERE name = 'n7'", "does not match its checksum"),
        ("UPDATE log SET revision = 100000 WHERE revision = (SELECT max(revision) FROM log)", "row 100000"),
        ("DELETE FROM log WHERE revision = (SELECT min(revision) FROM log)", "rows and should hold"),
        ("UPDATE head SET oldest = 0", "its head does not match its seal"),
        ("UPDATE head SET revision = revision + 1", "its head does not match its seal"),
        ("DELETE FROM head", "its head does not match its seal"),
        ("CREATE INDEX extra ON log (name)", "its tables are not those of a Headgate store"),
        ("DROP TABLE log", "its tables are not those of a Headgate store"),
    ],
)
def test_a_manual_change_of_the_file_is_reported(folder: Path, statement: str, message: str) -> None:
    edit(folder, statement)
    text = refusal(folder)
    assert message in text
    assert "\n" not in text
    assert "headgate restore" in text
    assert "headgate check --drop-damaged --data" in text


def test_a_row_that_replaces_another_is_detected(folder: Path) -> None:
    """Each row is sound in itself, and so is their number."""
    other = folder.parent / "other"
    byte_flips.build(other)
    journal, store = byte_flips.load(other)
    byte_flips.stage(store, "foreign", "never written here")
    byte_flips.commit(store, journal)
    journal.close(store.committed)
    edit(folder, "DELETE FROM log WHERE revision = (SELECT min(revision) FROM log)")
    connection = sqlite3.connect(folder / FILE)
    connection.execute("ATTACH ? AS other", (str(other / FILE),))
    with connection:
        connection.execute("INSERT INTO log SELECT * FROM other.log WHERE name = 'foreign'")
    connection.close()
    assert "rows are not those that were written" in refusal(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data + bytes(16384),
        lambda data: data[:16384] + data[3 * 16384 : 4 * 16384] + data[2 * 16384 :],
        lambda data: data[:200],
    ],
    ids=["half of it", "a page too many", "a page in the place of another", "not even its first page"],
)
def test_a_truncated_or_mixed_up_file_is_refused_or_served_completely(
    folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    sound = (folder / FILE).read_bytes()
    journal, store = byte_flips.load(folder)
    expected = byte_flips.content(store)
    journal.close(store.committed)
    (folder / FILE).write_bytes(damage(sound))
    with contextlib.suppress(StoreError):
        journal, store = byte_flips.load(folder)
        journal.close(store.committed)
        assert byte_flips.content(store) == expected


def test_two_thousand_flipped_bytes_are_harmless_or_detected(fast_folder: Path) -> None:
    outcome = byte_flips.run(fast_folder, 2000)
    assert outcome.tried == 2000
    assert outcome.detected > 500  # else the flips hit nothing that matters


def test_a_refused_file_releases_the_folder(folder: Path) -> None:
    sound = (folder / FILE).read_bytes()
    edit(folder, "DELETE FROM head")
    refusal(folder)
    (folder / FILE).write_bytes(sound)
    journal = Journal.open(folder)
    journal.close(journal.load().committed)


def _files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file() and each.name != "lock"}


def test_a_rollback_journal_beside_a_store_is_refused_and_nothing_is_changed(folder: Path) -> None:
    """SQLite would write the pages in the journal over those of the store."""
    journal = folder / f"{FILE}-journal"
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))
    before = _files(folder)
    for use in (Journal.open, lambda path: salvage(path, lambda done, total: None)):
        with pytest.raises(StoreError, match="is a rollback journal, which does not belong to this store"):
            use(folder)
    assert _files(folder) == before
    journal.unlink()
    loaded, store = byte_flips.load(folder)
    loaded.close(store.committed)


def test_a_store_whose_creation_was_interrupted_may_have_a_rollback_journal(tmp_path: Path) -> None:
    Journal.open(tmp_path).close(Revision(0))
    (tmp_path / f"{FILE}-journal").write_bytes(bytes.fromhex("d9d505f920a163d7"))
    marks = read_marks(tmp_path)
    assert marks is not None
    assert not marks.newest.commits
    refuse_rollback_journal(tmp_path, marks)
