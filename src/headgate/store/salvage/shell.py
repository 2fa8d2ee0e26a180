"""Keeps the sound rows of a damaged store, for somebody who has no backup and accepts the loss.

The damaged files are copied aside first and read there. An object whose newest row is lost appears as it was before,
if that is still remembered, and is gone otherwise; so revisions jump as after a restore, and every client lists again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.store import head, log
from headgate.store.backup.shell import problems, sync_folder, write_rows
from headgate.store.file.shell import (
    FILE,
    UNREADABLE,
    Damaged,
    Progress,
    StoreProblem,
    connect_reading,
    dropped_problem,
    take_folder,
)
from headgate.store.head import Head, Tally
from headgate.store.item import Revision

_BESIDE: Final = ("-wal", "-shm")


class Salvaged(msgspec.Struct, frozen=True):
    problems: Sequence[str]
    """What was wrong. If nothing was, nothing was done."""
    kept_rows: int = 0
    aside: Path | None = None
    """Where the damaged files are."""


class _Found(msgspec.Struct, frozen=True):
    rows: Sequence[log.Stored]
    last: Revision
    """The highest number that is known to be used."""
    problems: Sequence[str]


def salvage(folder: Path, progress: Progress) -> Salvaged:
    """Replaces a damaged store by what is sound of it. Raises ``StoreProblem``."""
    if not (folder / FILE).is_file():
        raise StoreProblem(f"{folder / FILE} is not there: name the data folder")
    lock = take_folder(folder)
    try:
        aside = _copy_aside(folder)
        dropped = dropped_problem(aside / FILE)
        found = _best(aside, progress)
        wrong = [*([dropped] if dropped else []), *found.problems]
        if not wrong or not found.rows:
            shutil.rmtree(aside)
            if not wrong:
                return Salvaged(())
            raise StoreProblem(f"nothing in {folder / FILE} can be kept ({wrong[0]}): restore a backup")
        tally = Tally().plus(stored.checksum for stored in found.rows)
        wanted = Head(revision=found.last, clean=False, tally=tally).restored()
        partial = folder / f"{FILE}.partial"
        partial.unlink(missing_ok=True)
        write_rows(partial, found.rows, wanted, lambda point: None)
        for name in _BESIDE:  # they belong to the damaged file
            (folder / f"{FILE}{name}").unlink(missing_ok=True)
        os.replace(partial, folder / FILE)
        sync_folder(folder)
        return Salvaged(wrong, len(found.rows), aside)
    finally:
        os.close(lock)


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


def _best(aside: Path, progress: Progress) -> _Found:
    """What the files hold together; or the database file alone, if a damaged write-ahead file takes it back."""
    with tempfile.TemporaryDirectory(dir=aside) as place:
        os.link(aside / FILE, Path(place) / FILE)  # reading a file at rest does not change it
        alone = _read(Path(place) / FILE, progress, at_rest=True)
    if not any((aside / f"{FILE}{name}").exists() for name in _BESIDE):
        return alone
    with tempfile.TemporaryDirectory(dir=aside) as place:
        _copy(aside, Path(place))  # opening a file with others beside it changes them
        together = _read(Path(place) / FILE, progress, at_rest=False)
    return max(together, alone, key=lambda found: (not found.problems, found.last))


def _read(path: Path, progress: Progress, *, at_rest: bool) -> _Found:
    """The rows that can be read and are what was written, from both ends."""
    try:
        found_problems = problems(path, progress, at_rest=at_rest)
        connection = connect_reading(path, at_rest=at_rest)
    except Damaged as problem:
        return _Found((), Revision(0), [problem.what])
    with contextlib.closing(connection):
        found: dict[int, log.Stored] = {}
        for statement in (log.SCAN, log.SCAN_BACKWARDS):
            for stored in _readable(connection, statement):
                if stored.item.revision in found:
                    break  # the other way came this far
                found[stored.item.revision] = stored
        known: Head | None = None
        with contextlib.suppress(*UNREADABLE):
            known = head.read(connection.execute(head.READ).fetchall())
    last = max(max(found, default=0), known.revision if known else 0)
    return _Found([found[key] for key in sorted(found)], Revision(last), found_problems)


def _readable(connection: sqlite3.Connection, statement: str) -> Iterator[log.Stored]:
    reader = log.Reader()
    with contextlib.suppress(*UNREADABLE):
        for raw in connection.execute(statement):
            stored = reader.read(raw)
            if stored is not None:
                yield stored
