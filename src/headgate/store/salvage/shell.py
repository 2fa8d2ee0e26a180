"""Keeps the sound rows of a damaged store, for somebody who has no backup and accepts the loss.

The damaged files are copied aside first and read there (``store/salvage/rows.py``). An object whose newest row is lost
appears as it was before, if that is still remembered, and is gone otherwise; so revisions jump as after a restore, and
every client lists again.
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

from headgate.store.backup.shell import problems, write_rows
from headgate.store.file.shell import FILE, PAGE_BYTES, Damaged, Progress, StoreProblem, refuse_other_kinds, take_folder
from headgate.store.head import Head, Tally
from headgate.store.item import Revision
from headgate.store.mark import record
from headgate.store.mark.record import Marks
from headgate.store.mark.shell import create_mark, new_identity, reach, read_files, read_marks, sync_folder
from headgate.store.salvage.rows import Found, collect

_BESIDE: Final = ("-wal", "-shm", "-mark")


class Salvaged(msgspec.Struct, frozen=True):
    problems: Sequence[str]
    """What was wrong. If nothing was, nothing was done."""
    kept_rows: int = 0
    lost: Sequence[str] = ()
    """What is known to be lost: how many rows, which revisions, and why. Empty if every row was kept."""
    aside: Path | None = None
    """Where the damaged files are."""


def salvage(folder: Path, progress: Progress) -> Salvaged:
    """Replaces a damaged store by what is sound of it. Raises ``StoreProblem``."""
    if not (folder / FILE).is_file():
        raise StoreProblem(f"{folder / FILE} is not there: name the data folder")
    lock = take_folder(folder)
    try:
        refuse_other_kinds(folder)
        aside = _copy_aside(folder)
        wrong = _problems(aside, progress)
        if not wrong:
            shutil.rmtree(aside)
            return Salvaged(())
        marks = _marks(aside)
        data, written_ahead = read_files(aside, every_frame=True)
        refused_after = marks.newest.revision if marks is not None and marks.newest.refused and marks.whole else None
        found = collect(data, written_ahead, PAGE_BYTES, refused_after)
        if not found.rows and (found.head is None or found.head.tally.rows):
            shutil.rmtree(aside)
            raise StoreProblem(f"nothing in {folder / FILE} can be kept ({wrong[0]}): restore a backup")
        _replace(folder, found, marks)
        return Salvaged(wrong, len(found.rows), [*found.lost, *_missing(found, marks)], aside)
    finally:
        os.close(lock)


def _problems(aside: Path, progress: Progress) -> list[str]:
    """Everything that is wrong with the files."""
    try:
        reach(aside)
    except Damaged as damaged:
        return [damaged.what]  # what SQLite says about the rest would not be about what was written
    with tempfile.TemporaryDirectory(dir=aside) as place:
        _copy(aside, Path(place))  # opening a file with others beside it changes them
        return problems(Path(place) / FILE, progress, at_rest=False)


def _marks(aside: Path) -> Marks | None:
    with contextlib.suppress(StoreProblem):
        return read_marks(aside)
    return None


def _missing(found: Found, marks: Marks | None) -> list[str]:
    """What was acknowledged after the newest head that can be read."""
    if marks is None:
        return []
    ended = found.head.revision if found.head is not None else found.last
    acknowledged = marks.newest.revision
    if acknowledged <= ended or (found.head is not None and found.head.store != marks.newest.store):
        return []
    return [f"revisions {ended + 1} to {acknowledged} were acknowledged, and nothing of them is in the files"]


def _replace(folder: Path, found: Found, marks: Marks | None) -> None:
    """Puts a store with the rows that were found in the place of the damaged one."""
    last = max(found.last, marks.newest.revision if marks is not None else 0)
    tally = Tally().plus(stored.checksum for stored in found.rows)
    wanted = Head(revision=Revision(last), clean=False, tally=tally).restored(new_identity())
    partial = folder / f"{FILE}.partial"
    partial.unlink(missing_ok=True)
    write_rows(partial, found.rows, wanted, lambda point: None)
    for name in _BESIDE:  # they belong to the damaged file
        (folder / f"{FILE}{name}").unlink(missing_ok=True)
    create_mark(folder, record.first(wanted))
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
