"""Damage in the write-ahead file, where the commits since the last checkpoint are when a process is killed."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.store import high_water_mark
from headgate.store.high_water_mark import RECORDS_AT
from headgate.store.io.backup import back_up, examine, restore
from headgate.store.io.database_file import FILE, LOCK, StoreDamagedError, lock_folder
from headgate.store.io.high_water_mark_file import MARK
from headgate.store.io.journal import Journal
from headgate.store.io.salvage import salvage
from headgate.store.item import Item
from headgate.store.memory import Store
from torture import byte_flips

COMMITS = 6
WAL = FILE + "-wal"
SECTOR = 512


def killed(root: Path, *, checkpointing: bool = False, text: str = "x" * 9_000, at: str = "marked") -> Path:
    """A folder as a killed process leaves it, with some commits after the last checkpoint, or in the middle of one."""
    copy = root / "killed"
    written = 0

    def probe(point: str) -> None:
        if point == at and written == COMMITS and not copy.exists():
            shutil.copytree(root / "data", copy)
        if (
            checkpointing and copy.exists() and point == "checkpointed"
        ):  # before SQLite cut the file off, all of it is still there
            shutil.copy(root / "data" / FILE, copy / FILE)

    journal = Journal.open(root / "data", probe)
    store = journal.load()
    for number in range(COMMITS):
        written += 1
        byte_flips.stage(store, f"n{number:02}", text)
        byte_flips.commit(store, journal)
    if checkpointing:
        journal.checkpoint()
    journal.close(store.committed)
    return copy


def silent(done: int, total: int) -> None:
    pass


def names(store: Store) -> list[str]:
    return [item.name for item in items(store)]


def items(store: Store) -> list[Item]:
    return list(store.list_applied("pods", None))


ALL = [f"n{number:02}" for number in range(COMMITS)]


def test_a_sound_write_ahead_file_is_taken_whole(tmp_path: Path) -> None:
    journal, store = byte_flips.load(killed(tmp_path))
    journal.close(store.committed)
    assert names(store) == ALL


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def put_back(folder: Path, sound: dict[str, bytes]) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name, data in sound.items():
        (folder / name).write_bytes(data)


def refused_or_whole(folder: Path, where: str) -> bool:
    """Whether the start was refused; if it was not, nothing that was acknowledged may be missing."""
    damaged = files(folder)
    try:
        journal, store = byte_flips.load(folder)
    except StoreDamagedError:
        now = files(folder)
        changed = [name for name, data in damaged.items() if name != LOCK and now[name] != data]
        assert not changed, f"{where}: a refused store was changed"
        return True
    journal.close(store.committed)
    assert names(store) == ALL, f"{where}: acknowledged writes are missing, and nothing was said"
    return False


def zeroed(data: bytes, sector: int) -> bytes:
    return (
        data[: sector * SECTOR]
        + bytes(len(data[sector * SECTOR : (sector + 1) * SECTOR]))
        + data[(sector + 1) * SECTOR :]
    )


def swapped(data: bytes, sector: int) -> bytes:
    """With the next sector that has other content."""
    sectors = [data[at : at + SECTOR] for at in range(0, len(data), SECTOR)]
    whole = [number for number, each in enumerate(sectors) if len(each) == SECTOR]
    if sector not in whole:
        return data
    others = [number for number in (*whole[sector + 1 :], *whole[:sector]) if sectors[number] != sectors[sector]]
    other = others[0]
    sectors[sector], sectors[other] = sectors[other], sectors[sector]
    return b"".join(sectors)


def cut(data: bytes, sector: int) -> bytes:
    return data[: sector * SECTOR]


DAMAGE = [zeroed, swapped, cut]


def sectors(data: bytes) -> range:
    return range((len(data) + SECTOR - 1) // SECTOR)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_any_sector_after_a_kill_is_noticed_or_loses_nothing(
    fast_folder: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    folder = killed(fast_folder, text="x" * 500)
    sound = files(folder)
    for sector in sectors(sound[WAL]):
        spoiled = damage(sound[WAL], sector)
        put_back(folder, {**sound, WAL: spoiled})
        refused = refused_or_whole(folder, f"{damage.__name__}, sector {sector}")
        assert refused == (spoiled != sound[WAL])  # every byte of this file is part of what was acknowledged


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_any_sector_of_a_file_that_was_left_after_a_clean_stop_is_noticed_or_loses_nothing(
    fast_folder: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    """The write-ahead file comes from a copy that was made while the server ran."""
    folder = killed(fast_folder, text="x" * 500)
    left = (folder / WAL).read_bytes()
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    assert not (folder / WAL).exists()
    sound = files(folder)
    for sector in sectors(left):
        put_back(folder, {**sound, WAL: damage(left, sector)})
        refused_or_whole(folder, f"{damage.__name__}, sector {sector}")
    put_back(folder, {**sound, WAL: left})
    assert refused_or_whole(folder, "the whole file of an earlier time")


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_any_sector_of_the_mark_is_noticed_or_loses_nothing(
    fast_folder: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    folder = killed(fast_folder, text="x" * 500)
    sound = files(folder)
    for sector in sectors(sound[MARK]):
        put_back(folder, {**sound, MARK: damage(sound[MARK], sector)})
        refused_or_whole(folder, f"{damage.__name__}, sector {sector}")


def test_damage_to_both_files_is_noticed_or_loses_nothing(fast_folder: Path) -> None:
    """One record of the mark is damaged, and any commit is missing."""
    folder = killed(fast_folder, text="x" * 500)
    sound = files(folder)
    for place in RECORDS_AT:
        for sector in sectors(sound[WAL])[::16]:
            mark = zeroed(sound[MARK], place // SECTOR)
            put_back(folder, {**sound, MARK: mark, WAL: cut(sound[WAL], sector)})
            assert refused_or_whole(folder, f"record at {place}, cut at sector {sector}")


@pytest.mark.parametrize("checkpointing", [False, True], ids=["before a checkpoint", "after the pages were moved"])
def test_a_flipped_byte_is_noticed_or_loses_nothing(fast_folder: Path, checkpointing: bool) -> None:
    folder = killed(fast_folder, checkpointing=checkpointing)
    sound = files(folder)
    chance = random.Random(3)
    for _ in range(100):
        spoiled = bytearray(sound[WAL])
        position = chance.randrange(len(spoiled)) if chance.random() < 0.8 else chance.randrange(60)
        spoiled[position] ^= 1 << chance.randrange(8)
        put_back(folder, {**sound, WAL: bytes(spoiled)})
        refused = refused_or_whole(folder, f"byte {position}")
        assert refused or checkpointing


def test_a_missing_commit_is_named_with_its_revisions(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    size = (folder / WAL).stat().st_size
    with (folder / WAL).open("r+b") as file:
        file.truncate(size - 10_000)
    with pytest.raises(
        StoreDamagedError, match=r"1 acknowledged commit is missing \(revision 6\); everything up to revision 5 can"
    ):
        byte_flips.load(folder)
    with (folder / WAL).open("r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(
        StoreDamagedError, match=r"3 acknowledged commits are missing \(revisions 4 to 6\); everything up to revis"
    ):
        byte_flips.load(folder)
    (folder / WAL).unlink()
    (folder / f"{FILE}-shm").unlink()
    with pytest.raises(
        StoreDamagedError, match=r"6 acknowledged commits are missing \(revisions 1 to 6\); everything up to revis"
    ):
        byte_flips.load(folder)


def test_a_commit_that_a_loss_of_power_interrupted_is_dropped(tmp_path: Path) -> None:
    """Its mark was never written: it was not acknowledged."""
    folder = killed(tmp_path, at="committed")
    with (folder / WAL).open("r+b") as file:
        file.truncate((folder / WAL).stat().st_size - 10_000)
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    assert names(store) == ALL[:-1]


def test_a_commit_whose_mark_was_not_written_is_kept(tmp_path: Path) -> None:
    folder = killed(tmp_path, at="committed")
    assert examine(folder / FILE, silent, at_rest=False) == []
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    assert names(store) == ALL


def test_a_commit_whose_mark_was_written_in_part_is_kept(tmp_path: Path) -> None:
    folder = killed(tmp_path, at="committed")
    older = min(range(2), key=lambda place: number_of(folder, place))
    with (folder / MARK).open("r+b") as file:
        file.seek(RECORDS_AT[older])
        file.write(b"written in p")
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    assert names(store) == ALL


def number_of(folder: Path, place: int) -> int:
    found = high_water_mark.decode((folder / MARK).read_bytes()[RECORDS_AT[place] :][:SECTOR], RECORDS_AT[place])
    assert found is not None
    return found.number


def remove_mark(folder: Path, other: Path) -> None:
    (folder / MARK).unlink()


def remove_database(folder: Path, other: Path) -> None:
    (folder / FILE).unlink()


def remove_all_but_the_mark(folder: Path, other: Path) -> None:
    for name in (FILE, WAL, f"{FILE}-shm"):
        (folder / name).unlink()


def remove_log_and_mark(folder: Path, other: Path) -> None:
    for name in (WAL, f"{FILE}-shm", MARK):
        (folder / name).unlink()


def mix_up(*suffixes: str) -> Callable[[Path, Path], None]:
    def copy(folder: Path, other: Path) -> None:
        for suffix in suffixes:
            shutil.copy(other / f"{FILE}{suffix}", folder / f"{FILE}{suffix}")

    return copy


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (remove_mark, "headgate.db-mark is missing"),
        (remove_database, "6 commits|7 commits"),
        (remove_all_but_the_mark, "it is missing or empty, but 7 commits up to revision 6 were acknowledged"),
        (remove_log_and_mark, "headgate.db-mark is missing"),
        (mix_up("-mark"), "belongs to another store"),
        (mix_up("-wal", "-shm"), "belongs to another store"),
        (mix_up("", "-wal", "-shm"), "belongs to another store"),
    ],
)
def test_a_file_that_is_missing_or_of_another_store_is_noticed(
    tmp_path: Path, spoil: Callable[[Path, Path], None], words: str
) -> None:
    folder, other = killed(tmp_path / "one"), killed(tmp_path / "other")
    spoil(folder, other)
    with pytest.raises(StoreDamagedError, match=words):
        byte_flips.load(folder)
    if (folder / FILE).exists():
        assert re.search(words, examine(folder / FILE, silent, at_rest=False)[0])


def test_an_older_copy_beside_the_mark_of_a_later_time_is_noticed(tmp_path: Path) -> None:
    older = tmp_path / "older"
    byte_flips.build(tmp_path / "data")
    shutil.copytree(tmp_path / "data", older)
    journal, store = byte_flips.load(tmp_path / "data")
    byte_flips.stage(store, "later", "x")
    byte_flips.commit(store, journal)
    journal.close(store.committed)
    shutil.copy(tmp_path / "data" / MARK, older / MARK)
    with pytest.raises(StoreDamagedError, match="acknowledged commits are missing"):
        byte_flips.load(older)


def test_a_mark_of_an_earlier_time_is_noticed(tmp_path: Path) -> None:
    byte_flips.build(tmp_path / "data")
    earlier = (tmp_path / "data" / MARK).read_bytes()
    journal, store = byte_flips.load(tmp_path / "data")
    byte_flips.stage(store, "later", "x")
    byte_flips.commit(store, journal)
    journal.close(store.committed)
    (tmp_path / "data" / MARK).write_bytes(earlier)
    with pytest.raises(StoreDamagedError, match="the high-water mark is older than the store"):
        byte_flips.load(tmp_path / "data")


@pytest.mark.parametrize("later", [0, 1], ids=["the last commit", "the one before the last"])
def test_a_commit_that_is_not_the_acknowledged_one_is_noticed(tmp_path: Path, later: int) -> None:
    """Two copies of one store went on apart: the numbers of their commits are equal, the commits are not."""
    byte_flips.build(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    for name, commits in (("one", 1), ("other", 1 + later)):
        journal, store = byte_flips.load(tmp_path / name)
        for number in range(commits):
            byte_flips.stage(store, f"{name}-{number}", "x")
            byte_flips.commit(store, journal)
        journal.close(store.committed)
    shutil.copy(tmp_path / "one" / MARK, tmp_path / "other" / MARK)
    with pytest.raises(StoreDamagedError, match=r"commit \d+ is not the one that was acknowledged"):
        byte_flips.load(tmp_path / "other")


def test_a_running_store_is_sound_for_a_reader_beside_it(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "data")
    store = journal.load()
    for number in range(3):
        byte_flips.stage(store, f"n{number}", "x")
        byte_flips.commit(store, journal)
        assert examine(tmp_path / "data" / FILE, silent, at_rest=False) == []
        back_up(tmp_path / "data", tmp_path / f"copy-{number}.db")
    journal.close(store.committed)


def test_missing_commits_are_named_to_a_reader_beside_a_running_server(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    with (folder / WAL).open("r+b") as file:
        file.truncate((folder / WAL).stat().st_size // 2)
    server = lock_folder(folder)
    try:
        (problem,) = examine(folder / FILE, silent, at_rest=False)
        assert problem.startswith("3 acknowledged commits are missing (revisions 4 to 6)")
        with pytest.raises(StoreDamagedError, match="3 acknowledged commits are missing"):
            back_up(folder, tmp_path / "copy.db")
    finally:
        os.close(server)
    assert not (tmp_path / "copy.db").exists()


def test_a_database_file_without_its_log_is_not_taken_for_a_backup(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    shutil.copy(folder / FILE, tmp_path / "alone.db")
    assert "did not stop in order" in examine(tmp_path / "alone.db", silent, at_rest=True)[0]
    with pytest.raises(StoreDamagedError, match="did not stop in order"):
        restore(tmp_path / "alone.db", tmp_path / "again")
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    shutil.copy(folder / FILE, tmp_path / "whole.db")
    restore(tmp_path / "whole.db", tmp_path / "again")
    journal, again = byte_flips.load(tmp_path / "again")
    journal.close(again.committed)
    assert items(again) == items(store)


@pytest.mark.parametrize("checkpointing", [False, True], ids=["before a checkpoint", "after the pages were moved"])
def test_what_can_be_read_around_the_damage_is_kept(tmp_path: Path, checkpointing: bool) -> None:
    folder = killed(tmp_path, checkpointing=checkpointing)
    with (folder / WAL).open("r+b") as file:
        file.seek((folder / WAL).stat().st_size // 2)
        file.write(b"damaged")
    with pytest.raises(StoreDamagedError, match="3 acknowledged commits are missing"):
        byte_flips.load(folder)
    with pytest.raises(StoreDamagedError, match="are missing"):
        back_up(folder, tmp_path / "copy.db")
    assert "are missing" in examine(folder / FILE, silent, at_rest=False)[0]
    done = salvage(folder, silent)
    assert "are missing" in done.problems[0]
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    # The damaged page was written again by the next commit, or is in the database file: nothing is lost after all.
    assert (names(store), list(done.lost)) == (ALL, [])


def test_a_log_that_is_cut_short_costs_what_was_behind_the_cut(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    with (folder / WAL).open("r+b") as file:
        file.truncate((folder / WAL).stat().st_size // 2)
    done = salvage(folder, silent)
    assert list(done.lost) == ["revisions 4 to 6 were acknowledged, and nothing of them is in the files"]
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    assert names(store) == ALL[:3]
    assert salvage(folder, silent).problems == ()
