"""Keeps the sound rows of a damaged store, for an operator who has no backup and accepts the loss.

The damaged files are first copied aside and read there (``store/salvaged_rows.py``). An object whose newest row is lost
appears in its previous state if that row is still present, and is gone otherwise; revisions therefore jump as after a
restore, and every client lists again.
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
from headgate.store.io.backup import problems, write_rows
from headgate.store.io.database_file import (
    FILE,
    PAGE_BYTES,
    Progress,
    StoreDamagedError,
    StoreError,
    refuse_other_kinds,
    take_folder,
)
from headgate.store.io.high_water_mark_file import (
    check_reached,
    create_mark,
    new_identity,
    read_files,
    read_marks,
    sync_folder,
)
from headgate.store.item import Revision
from headgate.store.log_head import LogHead, LogTotals
from headgate.store.salvaged_rows import SalvagedRows, collect

_BESIDE: Final = ("-wal", "-shm", "-mark")


class SalvageResult(msgspec.Struct, frozen=True):
    problems: Sequence[str]
    """What was wrong. If nothing was, nothing was done."""
    kept_rows: int = 0
    lost: Sequence[str] = ()
    """What is known to be lost: how many rows, which revisions, and why. Empty if every row was kept."""
    aside: Path | None = None
    """Where the damaged files are."""


def salvage(folder: Path, progress: Progress) -> SalvageResult:
    """Replaces a damaged store by what is sound of it. Raises ``StoreError``."""
    if not (folder / FILE).is_file():
        raise StoreError(f"{folder / FILE} is not there: name the data folder")
    lock = take_folder(folder)
    try:
        refuse_other_kinds(folder)
        aside = _copy_aside(folder)
        wrong = _problems(aside, progress)
        if not wrong:
            shutil.rmtree(aside)
            return SalvageResult(())
        marks = _marks(aside)
        data, written_ahead = read_files(aside, every_frame=True)
        refused_after = marks.newest.revision if marks is not None and marks.newest.refused and marks.whole else None
        found = collect(data, written_ahead, PAGE_BYTES, refused_after)
        if not found.rows and (found.head is None or found.head.tally.rows):
            shutil.rmtree(aside)
            raise StoreError(f"nothing in {folder / FILE} can be kept ({wrong[0]}): restore a backup")
        _replace(folder, found, marks)
        return SalvageResult(wrong, len(found.rows), [*found.lost, *_missing(found, marks)], aside)
    finally:
        os.close(lock)


def _problems(aside: Path, progress: Progress) -> list[str]:
    """Everything that is wrong with the files."""
    try:
        check_reached(aside)
    except StoreDamagedError as damaged:
        return [damaged.what]  # what SQLite says about the rest would not be about what was written
    with tempfile.TemporaryDirectory(dir=aside) as place:
        _copy(aside, Path(place))  # opening a file with others beside it changes them
        return problems(Path(place) / FILE, progress, at_rest=False)


def _marks(aside: Path) -> HighWaterMarks | None:
    with contextlib.suppress(StoreError):
        return read_marks(aside)
    return None


def _missing(found: SalvagedRows, marks: HighWaterMarks | None) -> list[str]:
    """What was acknowledged after the newest head that can be read."""
    if marks is None:
        return []
    ended = found.head.revision if found.head is not None else found.last
    acknowledged = marks.newest.revision
    if acknowledged <= ended or (found.head is not None and found.head.store != marks.newest.store):
        return []
    return [f"revisions {ended + 1} to {acknowledged} were acknowledged, and nothing of them is in the files"]


def _replace(folder: Path, found: SalvagedRows, marks: HighWaterMarks | None) -> None:
    """Puts a store with the rows that were found in the place of the damaged one."""
    last = max(found.last, marks.newest.revision if marks is not None else 0)
    tally = LogTotals().plus(stored.checksum for stored in found.rows)
    wanted = LogHead(revision=Revision(last), clean=False, tally=tally).restored(new_identity())
    partial = folder / f"{FILE}.partial"
    partial.unlink(missing_ok=True)
    write_rows(partial, found.rows, wanted, lambda point: None)
    for name in _BESIDE:  # they belong to the damaged file
        (folder / f"{FILE}{name}").unlink(missing_ok=True)
    create_mark(folder, high_water_mark.first(wanted))
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
    for name in ("", *_BESIDE):
        if (source / f"{FILE}{name}").exists():
            shutil.copy2(source / f"{FILE}{name}", target / f"{FILE}{name}")
