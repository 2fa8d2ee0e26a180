"""Replaces a damaged store by its readable rows, if there is no backup and the operator accepts the loss.

The damaged files are first copied to a folder and read there (``store/salvaged_rows.py``). An object whose newest row
is lost gets its previous state, if that row can still be read; otherwise the object is lost. So the state is not that
of any revision: as after a restore, revisions continue far above the last one, and every client lists again.

A *head* is the record of the last commit in the database (``store/log_head.py``). The *marks* are the two records of
the high-water mark (``store/high_water_mark.py``): the last commit that was acknowledged to a client.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.store import high_water_mark
from headgate.store.high_water_mark import HighWaterMarks
from headgate.store.io.backup import sqlite_problems, write_rows
from headgate.store.io.database_file import (
    FILE,
    PAGE_BYTES,
    Progress,
    StoreDamagedError,
    StoreError,
    check_file_types,
    lock_folder,
)
from headgate.store.io.high_water_mark_file import (
    check_high_water_mark,
    create_mark,
    new_identity,
    read_files,
    read_marks,
    refuse_rollback_journal,
    sync_folder,
)
from headgate.store.item import Revision
from headgate.store.log_head import LogHead, LogTotals
from headgate.store.salvaged_rows import SalvagedRows, collect

_SIDE_FILES: Final = ("-wal", "-shm", "-mark")


class SalvageResult(msgspec.Struct, frozen=True):
    problems: Sequence[str]
    """What was wrong. Empty: nothing was changed."""
    kept_rows: int = 0
    lost: Sequence[str] = ()
    """What is lost, as far as known: how many rows, which revisions, and why. Empty if every row was kept."""
    aside: Path | None = None
    """The folder with the damaged files."""


def salvage(folder: Path, progress: Progress) -> SalvageResult:
    """Replaces a damaged store by its readable rows. Raises ``StoreError``."""
    if not (folder / FILE).is_file():
        raise StoreError(f"{folder / FILE} does not exist: pass the data folder")
    lock = lock_folder(folder)
    try:
        check_file_types(folder)
        refuse_rollback_journal(folder, _marks(folder))
        aside = _copy_aside(folder)
        found_problems = _problems(aside, progress)
        if not found_problems:
            shutil.rmtree(aside)
            return SalvageResult(())
        marks = _marks(aside)
        data, wal = read_files(aside, every_frame=True)
        # Commits after this revision were answered with an error, so their rows are not kept.
        refused_after = marks.newest.revision if marks is not None and marks.newest.refused and marks.complete else None
        salvaged = collect(data, wal, PAGE_BYTES, refused_after)
        if not salvaged.rows and (salvaged.head is None or salvaged.head.totals.rows):
            shutil.rmtree(aside)
            raise StoreError(f"nothing in {folder / FILE} can be kept ({found_problems[0]}): restore a backup")
        _replace(folder, salvaged, marks)
        return SalvageResult(found_problems, len(salvaged.rows), [*salvaged.lost, *_missing(salvaged, marks)], aside)
    finally:
        os.close(lock)


def _problems(aside: Path, progress: Progress) -> list[str]:
    """Everything that is wrong with the files."""
    try:
        check_high_water_mark(aside)
    except StoreDamagedError as damaged:
        return [damaged.problem]  # no further check: SQLite would drop the damaged commits and then find no problem
    with tempfile.TemporaryDirectory(dir=aside) as scratch:
        _copy(aside, Path(scratch))  # a copy, because SQLite changes the write-ahead file when it opens the database
        return sqlite_problems(Path(scratch) / FILE, progress, at_rest=False)


def _marks(aside: Path) -> HighWaterMarks | None:
    with contextlib.suppress(StoreError):
        return read_marks(aside)
    return None


def _missing(salvaged: SalvagedRows, marks: HighWaterMarks | None) -> list[str]:
    """Reports the revisions that were acknowledged after the newest head that can be read."""
    if marks is None:
        return []
    ended = salvaged.head.revision if salvaged.head is not None else salvaged.last
    acknowledged = marks.newest.revision
    if acknowledged <= ended or (salvaged.head is not None and salvaged.head.store != marks.newest.store):
        return []
    return [f"revisions {ended + 1} to {acknowledged} were acknowledged, and nothing of them is in the files"]


def _replace(folder: Path, salvaged: SalvagedRows, marks: HighWaterMarks | None) -> None:
    """Replaces the damaged store by one with the salvaged rows."""
    last = max(salvaged.last, marks.newest.revision if marks is not None else 0)
    totals = LogTotals().plus(stored.checksum for stored in salvaged.rows)
    head = LogHead(revision=Revision(last), clean=False, totals=totals).restored(new_identity())
    partial = folder / f"{FILE}.partial"
    partial.unlink(missing_ok=True)
    write_rows(partial, salvaged.rows, head, lambda point: None)
    for name in _SIDE_FILES:  # they belong to the damaged file
        (folder / f"{FILE}{name}").unlink(missing_ok=True)
    create_mark(folder, high_water_mark.first_mark(head))
    os.replace(partial, folder / FILE)
    sync_folder(folder)


def _copy_aside(folder: Path) -> Path:
    number = 1
    while (aside := folder / f"damaged-{number}").exists():
        number += 1
    aside.mkdir(mode=0o700)
    _copy(folder, aside)
    return aside


def _copy(source: Path, target: Path) -> None:
    for name in ("", *_SIDE_FILES):
        if (source / f"{FILE}{name}").exists():
            shutil.copy2(source / f"{FILE}{name}", target / f"{FILE}{name}")
