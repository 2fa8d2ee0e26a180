"""Keeps the sound rows of a damaged store, for somebody who has no backup and accepts the loss.

The damaged files are copied aside first and read there. An object whose newest row is lost appears as it was before,
if that is still remembered, and is gone otherwise; so revisions jump as after a restore, and every client lists again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from headgate.store import head, log
from headgate.store.backup.shell import examine, sync_folder, write_rows
from headgate.store.file.shell import FILE, UNREADABLE, Damaged, Progress, StoreProblem, connect_reading, take_folder
from headgate.store.head import Head, Tally
from headgate.store.item import Revision


class Salvaged(msgspec.Struct, frozen=True):
    problems: Sequence[str]
    """What was wrong. If nothing was, nothing was done."""
    kept_rows: int = 0
    aside: Path | None = None
    """Where the damaged files are."""


def salvage(folder: Path, progress: Progress) -> Salvaged:
    """Replaces a damaged store by what is sound of it. Raises ``StoreProblem``."""
    if not (folder / FILE).is_file():
        raise StoreProblem(f"{folder / FILE} is not there: name the data folder")
    lock = take_folder(folder)
    try:
        problems = examine(folder / FILE, progress, at_rest=False)
        if not problems:
            return Salvaged(())
        aside = _copy_aside(folder)
        kept, last = _sound(aside / FILE)
        tally = Tally().plus(stored.checksum for stored in kept)
        wanted = Head(revision=last, clean=False, tally=tally).restored()
        partial = folder / f"{FILE}.partial"
        partial.unlink(missing_ok=True)
        write_rows(partial, kept, wanted, lambda point: None)
        for name in (f"{FILE}-wal", f"{FILE}-shm"):  # they belong to the damaged file
            (folder / name).unlink(missing_ok=True)
        os.replace(partial, folder / FILE)
        sync_folder(folder)
        return Salvaged(problems, len(kept), aside)
    finally:
        os.close(lock)


def _copy_aside(folder: Path) -> Path:
    number = 1
    while (aside := folder / f"damaged-{number}").exists():
        number += 1
    aside.mkdir(mode=0o700)
    for path in folder.glob(f"{FILE}*"):
        shutil.copy2(path, aside / path.name)
    return aside


def _sound(path: Path) -> tuple[list[log.Stored], Revision]:
    """The rows that can be read and are what was written, from both ends; and the highest number known to be used."""
    try:
        connection = connect_reading(path, at_rest=False)
    except Damaged as damaged:
        raise StoreProblem(f"nothing in {path} can be read ({damaged.what}): restore a backup") from damaged
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
        last = max(found, default=0)
        return [found[key] for key in sorted(found)], Revision(max(last, known.revision if known else 0))


def _readable(connection: sqlite3.Connection, statement: str) -> Iterator[log.Stored]:
    reader = log.Reader()
    with contextlib.suppress(*UNREADABLE):
        for raw in connection.execute(statement):
            stored = reader.read(raw)
            if stored is not None:
                yield stored
