"""Backs up a live store, restores a backup, and examines a file.

A copy is made row by row in one read transaction, which sees the store at one revision and blocks no writer. Each row
is verified as it is read, and the whole copy is read again before it gets its name, so a file with that name is
complete and undamaged. ``store/io/salvage.py`` keeps the readable rows of a damaged file.
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
    is_served,
    lock_folder,
    read_head,
    store_error,
    verified_rows,
)
from headgate.store.io.high_water_mark_file import (
    MARK,
    check_high_water_mark,
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
    probe_point: Callable[[str], None] = lambda point: None
    """Called at ``copied some``, ``copied`` and ``verified``."""


NO_PROGRESS: Final = BackupProgress()


def back_up(data: Path, target: Path, progress: BackupProgress = NO_PROGRESS) -> BackupResult:
    """Copies the store in ``data``, running or not, to the new file ``target``. Raises ``StoreError``."""
    if target.exists():
        raise StoreError(f"{target} already exists: choose another name, or remove it")
    if not target.parent.is_dir():
        raise StoreError(f"{target.parent} is not a folder: make it first")
    before, served = _read_marks(data)
    with _open_snapshot(data / FILE, at_rest=False) as (source, found):
        last_revision = _copy_limit(data, found, before, served=served)
        rows = verified_rows(source, data / FILE, found, progress.copying)
        head = msgspec.structs.replace(found, clean=True)  # the copy has no write-ahead file
        if last_revision is not None:
            head = _head_at(source, head, last_revision)
            rows = (stored for stored in rows if stored.item.revision <= last_revision)
        return _write(rows, head, target, progress)


def _read_marks(data: Path) -> tuple[HighWaterMarks | None, bool]:
    """The marks of the store, and whether a server may be writing to it.

    Raises ``StoreDamagedError``.
    """
    if not is_served(data):
        try:
            return check_high_water_mark(data), False
        except StoreDamagedError:
            if not is_served(data):  # otherwise a server has started and changed the files meanwhile
                raise
    return read_marks(data), True


def _copy_limit(data: Path, head: LogHead, marks: HighWaterMarks | None, *, served: bool) -> Revision | None:
    """The newest revision that a copy may contain; ``None`` if it may contain everything in the file.

    ``marks`` were read before the file, and its server may have written since. Raises ``StoreDamagedError``.
    """
    if not head.store or marks is None:
        return None
    if not served:
        return marks.newest.revision if high_water_mark.is_refused(marks, head) else None
    problem = high_water_mark.mismatch_while_served(marks, head)
    if problem is not None:
        raise StoreDamagedError(data / FILE, problem)
    now = read_marks(data)
    return now.newest.revision if now is not None and high_water_mark.is_ahead(now, head) else None


def _head_at(source: sqlite3.Connection, head: LogHead, last_revision: Revision) -> LogHead:
    later = [checksum for (checksum,) in source.execute(log_rows.CHECKSUMS_AFTER, (last_revision,))]
    return msgspec.structs.replace(head, revision=last_revision, totals=head.totals.minus(later))


@contextlib.contextmanager
def read_rows(path: Path, progress: Progress) -> Iterator[tuple[LogHead, Iterator[log_rows.StoredRow]]]:
    """The head and all rows, verified, of a data folder, running or not, or of a backup. Raises ``StoreError``."""
    at_rest = not path.is_dir()
    file = path if at_rest else path / FILE
    before, served = (None, False) if at_rest else _read_marks(path)
    with _open_snapshot(file, at_rest=at_rest) as (source, head):
        problem = _unclean_stop_problem(head) if at_rest else None
        if problem is not None:
            raise StoreDamagedError(file, problem)
        last_revision = None if at_rest else _copy_limit(path, head, before, served=served)
        rows = verified_rows(source, file, head, progress)
        yield head, (each for each in rows if last_revision is None or each.item.revision <= last_revision)


def restore(backup: Path, data: Path, progress: BackupProgress = NO_PROGRESS) -> BackupResult:
    """Puts a backup into the new or empty folder ``data``. Raises ``StoreError``."""
    with _open_snapshot(backup, at_rest=True) as (source, found), _empty_folder(data):
        problem = _unclean_stop_problem(found)
        if problem is not None:
            raise StoreDamagedError(backup, problem)
        rows = verified_rows(source, backup, found, progress.copying)
        head = found.restored(new_identity())
        return _write(rows, head, data / FILE, progress, lambda: create_mark(data, high_water_mark.first_mark(head)))


def _unclean_stop_problem(head: LogHead) -> str | None:
    """Why a file without its write-ahead file cannot be used: it is not a backup, but a copy of the database file."""
    if head.clean or not head.store:
        return None
    return "its server did not stop in order, and the write-ahead file with the newest commits is not beside it"


def examine(path: Path, progress: Progress, *, at_rest: bool) -> list[str]:
    """Everything that is wrong with the file at ``path``. A start would stop at the first problem."""
    before: HighWaterMarks | None = None
    served = False
    try:
        if not at_rest:
            before, served = _read_marks(path.parent)
    except StoreDamagedError as damaged:
        return [damaged.problem]  # SQLite must not open the file, because it would drop what it cannot read
    found = sqlite_problems(path, progress, at_rest=at_rest)
    if not found and (at_rest or served):
        with _open_snapshot(path, at_rest=at_rest) as (_, head):
            problem = (
                _unclean_stop_problem(head)
                if at_rest
                else before and head.store and high_water_mark.mismatch_while_served(before, head)
            )
        found = [problem] if problem else []
    return found


def sqlite_problems(path: Path, progress: Progress, *, at_rest: bool) -> list[str]:
    """The problems that SQLite's own check and the checksums find in the file."""
    try:
        connection = connect_reading(path, at_rest=at_rest)
    except StoreDamagedError as damaged:
        return [damaged.problem]
    with contextlib.closing(connection):
        connection.execute("BEGIN")
        return list(_problems(connection, path, progress))


def _problems(connection: sqlite3.Connection, path: Path, progress: Progress) -> Iterator[str]:
    try:
        for (message,) in connection.execute("PRAGMA quick_check(20)"):
            if message != b"ok":
                yield " ".join(message.decode(errors="replace").split())
        found = log_head.read(connection.execute(log_head.READ).fetchall())
        if found is None:
            yield "its head does not match its seal"
        total = found.totals.rows if found is not None else 0
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
        problem = store_error(error, path)
        yield problem.problem if isinstance(problem, StoreDamagedError) else str(problem)


@contextlib.contextmanager
def _open_snapshot(path: Path, *, at_rest: bool) -> Iterator[tuple[sqlite3.Connection, LogHead]]:
    """Opens a read transaction, and reads the head. ``at_rest``: no server uses the file."""
    with contextlib.closing(connect_reading(path, at_rest=at_rest)) as connection:
        try:
            connection.execute("BEGIN")
            yield connection, read_head(connection, path)
        except UNREADABLE as error:
            raise store_error(error, path) from error


@contextlib.contextmanager
def _empty_folder(folder: Path) -> Iterator[None]:
    """Locks an empty folder; raises ``StoreError`` for one with content. Removes everything again after an error."""
    new, entries = not folder.exists(), set(os.listdir(folder)) if folder.is_dir() else set()
    if entries and LOCK not in entries:
        raise _not_empty(folder)  # checked first: a foreign folder gets no lock file
    lock = lock_folder(folder)
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
    head: LogHead,
    target: Path,
    progress: BackupProgress,
    before_publish: Callable[[], None] = lambda: None,
) -> BackupResult:
    """Writes ``rows`` to a temporary file, verifies it, and gives it the name ``target``, which must be free."""
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".partial")
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}; choose another place") from error
    os.close(descriptor)
    partial = Path(name)
    try:
        write_rows(partial, rows, head, progress.probe_point)
        progress.probe_point("copied")
        with _open_snapshot(partial, at_rest=True) as (copy, found):
            for _ in verified_rows(copy, partial, found, progress.verifying):
                pass  # reading a row verifies it
        if found != head:
            raise StoreError(f"{target} does not match what was written; check the disk and try again")
        progress.probe_point("verified")
        size = partial.stat().st_size
        before_publish()
        _publish(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return BackupResult(head.revision, head.totals.rows, size)


def write_rows(path: Path, rows: Iterable[log_rows.StoredRow], head: LogHead, probe: Callable[[str], None]) -> None:
    """Writes the rows and the head to a new file, and syncs it. After a crash, the incomplete file still has its
    temporary name."""
    try:
        with contextlib.closing(connect(path, head)) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN")
            for done, stored in enumerate(rows, 1):
                connection.execute(log_rows.INSERT, log_rows.encode_row(stored.item, stored.deleted))
                if done % _BATCH == 0:
                    probe("copied some")
            connection.execute(log_head.WRITE, head.row())
            connection.execute("COMMIT")
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except sqlite3.Error as error:
        raise store_error(error, path) from error


def _publish(partial: Path, target: Path) -> None:
    """Gives the file its name atomically, never replaces a file, and syncs the folder."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise StoreError(f"{target} already exists: choose another name, or remove it") from None
    sync_folder(target.parent)
