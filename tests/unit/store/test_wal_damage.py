"""Damage in the write-ahead file, where the commits since the last checkpoint are when a process is killed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from headgate.store.backup.shell import back_up, examine
from headgate.store.file.shell import FILE, Damaged
from headgate.store.item import Item
from headgate.store.journal.shell import Journal
from headgate.store.memory import Store
from headgate.store.salvage.shell import salvage
from torture import flips

COMMITS = 6
WAL = FILE + "-wal"


def killed(root: Path, *, checkpointing: bool = False) -> Path:
    """A folder as a killed process leaves it, with some commits after the last checkpoint, or in the middle of one."""
    copy = root / "killed"

    def probe(point: str) -> None:
        if copy.exists() and point == "checkpointed":  # before SQLite cut the file off, all of it is still there
            shutil.copy(root / "data" / FILE, copy / FILE)

    journal = Journal.open(root / "data", probe)
    store = journal.load()
    for number in range(COMMITS):
        flips.stage(store, f"n{number:02}", "x" * 9_000)
        flips.commit(store, journal)
    shutil.copytree(root / "data", copy)
    if checkpointing:
        journal.checkpoint()
    journal.close(store.committed)
    return copy


def silent(done: int, total: int) -> None:
    pass


def names(store: Store) -> list[str]:
    return [item.name for item in items(store)]


def items(store: Store) -> list[Item]:
    return list(store.peek_all("pods", None))


ALL = [f"n{number:02}" for number in range(COMMITS)]


def test_a_sound_write_ahead_file_is_taken_whole(tmp_path: Path) -> None:
    journal, store = flips.load(killed(tmp_path))
    journal.close(store.committed)
    assert names(store) == ALL


def test_a_flipped_byte_costs_at_most_the_last_commit_or_is_detected(fast_folder: Path) -> None:
    folder = killed(fast_folder)
    sound = {path.name: path.read_bytes() for path in folder.iterdir()}
    chance = random.Random(3)
    detected = 0
    for _ in range(100):
        for name, data in sound.items():
            (folder / name).write_bytes(data)
        spoiled = bytearray(sound[WAL])
        position = chance.randrange(len(spoiled)) if chance.random() < 0.8 else chance.randrange(60)
        spoiled[position] ^= 1 << chance.randrange(8)
        (folder / WAL).write_bytes(spoiled)
        try:
            journal, store = flips.load(folder)
        except Damaged:
            detected += 1
            assert (folder / WAL).read_bytes() == bytes(spoiled)  # SQLite did not get to touch it
            continue
        journal.close(store.committed)
        assert names(store) in (ALL, ALL[:-1]), f"byte {position}"
    assert detected > 60


def test_a_half_written_commit_is_dropped_as_it_should_be(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    with (folder / WAL).open("r+b") as file:
        file.truncate((folder / WAL).stat().st_size - 10_000)
    journal, store = flips.load(folder)
    journal.close(store.committed)
    assert names(store) == ALL[:-1]


@pytest.mark.parametrize("checkpointing", [False, True], ids=["before a checkpoint", "after the pages were moved"])
def test_what_comes_before_the_damage_can_be_kept(tmp_path: Path, checkpointing: bool) -> None:
    folder = killed(tmp_path, checkpointing=checkpointing)
    with (folder / WAL).open("r+b") as file:
        file.seek((folder / WAL).stat().st_size // 2)
        file.write(b"damaged")
    with pytest.raises(Damaged, match=r"commits in headgate\.db-wal cannot be read"):
        flips.load(folder)
    with pytest.raises(Damaged, match="cannot be read"):
        back_up(folder, tmp_path / "copy.db")
    assert "cannot be read" in examine(folder / FILE, silent, at_rest=False)[0]
    done = salvage(folder, silent)
    assert "cannot be read" in done.problems[0]
    journal, store = flips.load(folder)
    journal.close(store.committed)
    kept = names(store)
    assert kept == (ALL if checkpointing else ALL[: len(kept)])
    assert len(kept) >= COMMITS // 3
