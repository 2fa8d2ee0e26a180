"""Backs up a live store, restores a backup, and examines a file.

A copy is made row by row from one reading transaction, which sees the store at one revision however long it takes and
holds no writer up. Each row is checked as it is read, the copy is read again as a whole, and only then gets its name:
a file with that name is a good one. What is left of a damaged file: ``store/io/salvage.py``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from headgate.store import high_water_mark, log_head, log_rows
from headgate.store.high_water_mark import HighWaterMarks
from headgate.store.io.database_file import (
    FILE,
    LOCK,
    UNREADABLE,
    Progress,
    StoreDamagedError,
    StoreError,
    connect,
    connect_reading,
    explained,
    is_served,
    read_head,
    sound_rows,
    take_folder,
)
from headgate.store.io.high_water_mark_file import (
    MARK,
    check_reached,
    create_mark,
    new_identity,
    read_marks,
    sync_folder,
)
from headgate.store.item import Revision
from headgate.store.log_head import LogHead, LogTotals

_BATCH: Final = 1_000


class BackupResult(msgspec.Struct, frozen=True):
    revision: Revision
    """The revision at which the store was copied."""
    rows: int
    size_bytes: int


class BackupProgress(msgspec.Struct, frozen=True):
    """Callbacks that report the progress of a backup."""

    copying: Progress = lambda done, total: None
    verifying: Progress = lambda done, total: None
    probe: Callable[[str], None] = lambda point: None
    """Called at ``copied some``, ``copied`` and ``verified``."""


SILENT: Final = BackupProgress()


def back_up(data: Path, target: Path, steps: BackupProgress = SILENT) -> BackupResult:
    """Copies the store in ``data``, running or not, to the new file ``target``. Raises ``StoreError``."""
    if target.exists():
        raise StoreError(f"{target} is there already: choose another name, or remove it")
    if not target.parent.is_dir():
        raise StoreError(f"{target.parent} is not a folder: make it first")
    before, served = _acknowledged(data)
    with _reading(data / FILE, at_rest=False) as (source, found):
        last = _last_acknowledged(data, found, before, served=served)
        rows = sound_rows(source, data / FILE, found, steps.copying)
        wanted = msgspec.structs.replace(found, clean=True)  # no write-ahead file belongs to the copy
        if last is not None:
            wanted = _without_later(source, wanted, last)
            rows = (stored for stored in rows if stored.item.revision <= last)
        return _write(rows, wanted, target, steps)


def _acknowledged(data: Path) -> tuple[HighWaterMarks | None, bool]:
    """What the store acknowledged, and whether a server may acknowledge more meanwhile.

    Raises ``StoreDamagedError``.
    """
    if not is_served(data):
        try:
            return check_reached(data), False
        except StoreDamagedError:
            if not is_served(data):  # else a server was started, and changed the files while they were read
                raise
    return read_marks(data), True


def _last_acknowledged(data: Path, found: LogHead, before: HighWaterMarks | None, *, served: bool) -> Revision | None:
    """The newest revision that belongs into a copy, if the file has a commit more than that.

    ``before`` was read before the file, whose server may have gone on. Raises ``StoreDamagedError``.
    """
    if not found.store or before is None:
        return None
    if not served:
        return before.newest.revision if high_water_mark.is_refused(before, found) else None
    problem = high_water_mark.mismatch_while_served(before, found)
    if problem is not None:
        raise StoreDamagedError(data / FILE, problem)
    now = read_marks(data)
    return now.newest.revision if now is not None and high_water_mark.is_ahead(now, found) else None


def _without_later(source: sqlite3.Connection, found: LogHead, last: Revision) -> LogHead:
    later = [checksum for (checksum,) in source.execute(log_rows.CHECKSUMS_AFTER, (last,))]
    return msgspec.structs.replace(found, revision=last, tally=found.tally.minus(later))


def restore(backup: Path, data: Path, steps: BackupProgress = SILENT) -> BackupResult:
    """Puts a backup into the new or empty folder ``data``. Raises ``StoreError``."""
    with _reading(backup, at_rest=True) as (source, found), _empty_folder(data):
        problem = _unfinished(found)
        if problem is not None:
            raise StoreDamagedError(backup, problem)
        rows = sound_rows(source, backup, found, steps.copying)
        wanted = found.restored(new_identity())
        return _write(rows, wanted, data / FILE, steps, lambda: create_mark(data, high_water_mark.first(wanted)))


def _unfinished(found: LogHead) -> str | None:
    """What is wrong with a file that stands alone, if it is not a backup but was taken from a data folder."""
    if found.clean or not found.store:
        return None
    return "its server did not stop in order, and the write-ahead file with the newest commits is not beside it"


def examine(path: Path, progress: Progress, *, at_rest: bool) -> list[str]:
    """Everything that is wrong with the file at ``path``; reads on where a start would have stopped."""
    before: HighWaterMarks | None = None
    served = False
    try:
        if not at_rest:
            before, served = _acknowledged(path.parent)
    except StoreDamagedError as damaged:
        return [damaged.what]  # SQLite must not open it now, or it drops what it cannot read
    found = problems(path, progress, at_rest=at_rest)
    if not found and (at_rest or served):
        with _reading(path, at_rest=at_rest) as (_, ended):
            problem = (
                _unfinished(ended)
                if at_rest
                else before and ended.store and high_water_mark.mismatch_while_served(before, ended)
            )
        found = [problem] if problem else []
    return found


def problems(path: Path, progress: Progress, *, at_rest: bool) -> list[str]:
    """What is wrong with what SQLite can read."""
    try:
        connection = connect_reading(path, at_rest=at_rest)
    except StoreDamagedError as damaged:
        return [damaged.what]
    with contextlib.closing(connection):
        connection.execute("BEGIN")
        return list(_problems(connection, path, progress))


def _problems(connection: sqlite3.Connection, path: Path, progress: Progress) -> Iterator[str]:
    try:
        for (said,) in connection.execute("PRAGMA quick_check(20)"):
            if said != b"ok":
                yield " ".join(said.decode(errors="replace").split())
        found = log_head.read(connection.execute(log_head.READ).fetchall())
        if found is None:
            yield "its head does not match its seal"
        total = found.tally.rows if found is not None else 0
        reader, checksums, damaged = log_rows.RowReader(), [], False
        for done, raw in enumerate(connection.execute(log_rows.SCAN)):
            if done % _BATCH == 0:
                progress(done, total)
            stored = reader.read(raw)
            if stored is None:
                damaged = True
                yield f"{log_rows.describe(raw)} does not match its checksum"
            else:
                checksums.append(stored.checksum)
        mismatch = found.mismatch(LogTotals().plus(checksums)) if found is not None and not damaged else None
        if mismatch is not None:
            yield mismatch
    except UNREADABLE as error:
        problem = explained(error, path)
        yield problem.what if isinstance(problem, StoreDamagedError) else str(problem)


@contextlib.contextmanager
def _reading(path: Path, *, at_rest: bool) -> Iterator[tuple[sqlite3.Connection, LogHead]]:
    """The file at one revision."""
    with contextlib.closing(connect_reading(path, at_rest=at_rest)) as connection:
        try:
            connection.execute("BEGIN")
            yield connection, read_head(connection, path)
        except UNREADABLE as error:
            raise explained(error, path) from error


@contextlib.contextmanager
def _empty_folder(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; refuses one that has anything in it. If what follows fails, nothing is left behind."""
    new, entries = not folder.exists(), set(os.listdir(folder)) if folder.is_dir() else set()
    if entries and LOCK not in entries:
        raise _not_empty(folder)  # and no lock is put into a folder that is somebody else's
    lock = take_folder(folder)
    try:
        if entries - {LOCK}:
            raise _not_empty(folder)
        try:
            yield
        except BaseException:
            (folder / LOCK).unlink()
            (folder / MARK).unlink(missing_ok=True)
            if new:
                folder.rmdir()
            raise
    finally:
        os.close(lock)


def _not_empty(folder: Path) -> StoreError:
    return StoreError(f"data folder {folder} is not empty: choose another folder, or move it away")


def _write(
    rows: Iterable[log_rows.StoredRow],
    wanted: LogHead,
    target: Path,
    steps: BackupProgress,
    before_naming: Callable[[], None] = lambda: None,
) -> BackupResult:
    """Writes a file that holds ``rows``, reads it again, and gives it the name ``target``, which must be free."""
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".partial")
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}; choose another place") from error
    os.close(descriptor)
    partial = Path(name)
    try:
        write_rows(partial, rows, wanted, steps.probe)
        steps.probe("copied")
        with _reading(partial, at_rest=True) as (copy, found):
            for _ in sound_rows(copy, partial, found, steps.verifying):
                pass
        if found != wanted:
            raise StoreError(f"{target} was not written as it should be; see to the disk, and try again")
        steps.probe("verified")
        size = partial.stat().st_size
        before_naming()
        _name(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return BackupResult(wanted.revision, wanted.tally.rows, size)


def write_rows(path: Path, rows: Iterable[log_rows.StoredRow], wanted: LogHead, probe: Callable[[str], None]) -> None:
    """Fills a new file and syncs it. A crash leaves half a file, under a temporary name."""
    try:
        with contextlib.closing(connect(path, wanted)) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN")
            for done, stored in enumerate(rows, 1):
                connection.execute(log_rows.INSERT, log_rows.row_of(stored.item, stored.deleted))
                if done % _BATCH == 0:
                    probe("copied some")
            connection.execute(log_head.WRITE, wanted.row())
            connection.execute("COMMIT")
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _name(partial: Path, target: Path) -> None:
    """The name appears whole, never replaces anything, and is on disk when this returns."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise StoreError(f"{target} is there already: choose another name, or remove it") from None
    sync_folder(target.parent)
