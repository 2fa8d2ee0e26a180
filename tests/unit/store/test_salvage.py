"""Salvage keeps every readable row of a damaged file and lists the others."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from headgate.store import log_rows
from headgate.store.io.backup import examine
from headgate.store.io.database_file import FILE, PAGE_BYTES, StoreDamagedError
from headgate.store.io.high_water_mark_file import MARK, read_files
from headgate.store.io.journal import Journal
from headgate.store.io.salvage import salvage
from headgate.store.item import Item
from headgate.store.salvaged_rows import collect, is_within, merged_gaps
from headgate.store.sqlite_btree import Pages, UnreadableKeyRange
from headgate.store.sqlite_contents import head_of, log_of, rows_with_keys
from torture import byte_flips

ROWS = 600


def no_progress(done: int, total: int) -> None:
    pass


def build(folder: Path, rows: int = ROWS) -> list[Item]:
    """A tree of two levels, with rows of all sizes, some on several pages."""
    rng = random.Random(11)
    journal = Journal.open(folder)
    store = journal.load()
    for number in range(rows):
        byte_flips.stage(store, f"n{number:04}", "x" * rng.choice((10, 300, 2_000, 9_000, 50_000)))
        if number % 50 == 0:
            byte_flips.commit(store, journal)
    byte_flips.commit(store, journal)
    journal.close(store.committed)
    return list(store.list_applied("pods", None))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Item]]:
    folder = tmp_path_factory.mktemp("sound") / "data"
    return folder, build(folder)


def items(folder: Path) -> list[Item]:
    journal, store = byte_flips.load(folder)
    journal.close(store.committed)
    return list(store.list_applied("pods", None))


def lost_revisions(lost: Sequence[str], highest: int) -> set[int]:
    """The revisions that are listed as lost."""
    named: set[int] = set()
    for line in lost:
        found = re.match(r"revisions? (\d+)(?: to (\d+))?:", line)
        if found is not None:
            named.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return {each for each in named if each <= highest}


def test_a_sound_file_is_read_as_sqlite_reads_it(sound: tuple[Path, list[Item]], tmp_path: Path) -> None:
    folder, _ = sound
    data, taken = read_files(folder, every_frame=True)
    pages = Pages(data, taken.pages, PAGE_BYTES)
    table = log_of(pages, frozenset())
    connection = sqlite3.connect(folder / FILE)
    connection.text_factory = bytes
    assert rows_with_keys(table) == connection.execute("SELECT * FROM log ORDER BY revision").fetchall()
    found = head_of(pages)
    assert found is not None
    assert [(1, *found.row())] == connection.execute("SELECT * FROM head").fetchall()
    connection.close()
    assert table.gaps == ()


def test_the_rows_before_a_truncation_are_kept(sound: tuple[Path, list[Item]], tmp_path: Path) -> None:
    source, before = sound
    folder = shutil.copytree(source, tmp_path / "data")
    size = (folder / FILE).stat().st_size
    with (folder / FILE).open("r+b") as file:
        file.truncate(size * 9 // 10)
    with pytest.raises(StoreDamagedError):
        byte_flips.load(folder)
    result = salvage(folder, no_progress)
    kept = items(folder)
    assert len(kept) == result.kept_rows >= ROWS * 0.85
    assert result.lost[0] == f"{ROWS - len(kept)} of {ROWS} rows cannot be read"
    assert {item.revision: item for item in kept}.items() <= {item.revision: item for item in before}.items()
    missing = {item.revision for item in before} - {item.revision for item in kept}
    assert missing <= lost_revisions(result.lost, before[-1].revision)
    assert examine(folder / FILE, no_progress, at_rest=False) == []


def test_a_frame_whose_page_number_is_damaged_may_have_changed_any_row(sound: tuple[Path, list[Item]]) -> None:
    folder, before = sound
    data, wal = read_files(folder, every_frame=True)
    table = log_of(Pages(data, wal.pages, PAGE_BYTES), frozenset())
    damaged = msgspec.structs.replace(wal, doubtful=frozenset({1 << 30}))
    result = collect(data, damaged, PAGE_BYTES, last_revision=None)
    assert [each.item.revision for each in result.rows] == [each.revision for each in before] == sorted(table.rows)
    assert result.lost == []  # the head counts all rows, and all are there
    short = collect(data[: len(data) * 9 // 10], damaged, PAGE_BYTES, last_revision=None)
    assert "a commit cannot be read" in "\n".join(short.lost)


def page_of(name: str) -> Callable[[Path], int]:
    def root(folder: Path) -> int:
        connection = sqlite3.connect(folder / FILE)
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
        connection.close()
        return int(page)

    return root


@pytest.mark.parametrize(
    "page", [lambda folder: 1, page_of("log"), page_of("head")], ids=["the first page", "the root", "the head"]
)
def test_a_lost_interior_page_loses_no_rows(
    sound: tuple[Path, list[Item]], tmp_path: Path, page: Callable[[Path], int]
) -> None:
    source, before = sound
    folder = shutil.copytree(source, tmp_path / "data")
    number = page(folder)
    with (folder / FILE).open("r+b") as file:
        file.seek((number - 1) * PAGE_BYTES)
        file.write(bytes(PAGE_BYTES))
    result = salvage(folder, no_progress)
    assert result.kept_rows == ROWS
    assert items(folder) == before


def test_a_lost_page_loses_only_its_own_rows_and_they_are_listed(
    sound: tuple[Path, list[Item]], fast_folder: Path
) -> None:
    source, before = sound
    known = {item.revision: item for item in before}
    pages = (source / FILE).stat().st_size // PAGE_BYTES
    for number in random.Random(5).sample(range(1, pages + 1), 12):
        folder = shutil.copytree(source, fast_folder / f"page-{number}")
        with (folder / FILE).open("r+b") as file:
            file.seek((number - 1) * PAGE_BYTES)
            file.write(b"\xff" * PAGE_BYTES)
        result = salvage(folder, no_progress)
        kept = {item.revision: item for item in items(folder)}
        assert kept.items() <= known.items(), f"page {number}"
        missing = known.keys() - kept.keys()
        assert len(missing) < 60, f"page {number}"
        assert missing <= lost_revisions(result.lost, max(known)), f"page {number}"
        shutil.rmtree(folder)


def test_deleted_objects_do_not_come_back(tmp_path: Path) -> None:
    """Their rows may still be on free pages."""
    folder = tmp_path / "data"
    journal = Journal.open(folder)
    store = journal.load()
    for number in range(300):
        byte_flips.stage(store, f"n{number:03}", "x" * 2_000)
    byte_flips.commit(store, journal)
    for number in range(150):
        byte_flips.stage(store, f"n{number:03}", "gone", delete=True)
    byte_flips.commit(store, journal)
    byte_flips.commit(store, journal, log_rows.superseded(store.compact(store.committed)))
    journal.close(store.committed)
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE log SET data = 'x' WHERE name = 'n200'")
    connection.close()
    result = salvage(folder, no_progress)
    assert [item.name for item in items(folder)] == [f"n{number:03}" for number in range(150, 300) if number != 200]
    assert result.lost[0] == "1 of 150 rows cannot be read"
    assert "(pods default/n200) does not match its checksum" in result.lost[1]


def test_gap_lookup_is_fast_with_many_gaps(tmp_path: Path) -> None:
    """Rows are compared with the gaps by binary search."""
    gaps = [UnreadableKeyRange(number * 10, number * 10 + 5, "") for number in range(50_000)]
    spans = merged_gaps(gaps)
    assert len(spans) == 50_000
    inside = [key for key in range(1, 500_001) if is_within(spans, key)]
    assert len(inside) == 250_000
    assert merged_gaps(
        [
            UnreadableKeyRange(0, 9, ""),
            UnreadableKeyRange(4, 5, ""),
            UnreadableKeyRange(9, 12, ""),
            UnreadableKeyRange(20, 21, ""),
        ]
    ) == [(0, 12), (20, 21)]


def test_a_missing_high_water_mark_loses_no_rows(sound: tuple[Path, list[Item]], tmp_path: Path) -> None:
    source, before = sound
    folder = shutil.copytree(source, tmp_path / "data")
    (folder / MARK).unlink()
    result = salvage(folder, no_progress)
    assert "headgate.db-mark is missing" in result.problems[0]
    assert (list(result.lost), items(folder)) == ([], before)
    assert not (folder / "damaged-1" / MARK).exists()
