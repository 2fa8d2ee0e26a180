"""Opens the SQLite file, locks its folder, and looks for damage.

Three checks together cover every byte that matters: SQLite's own of its pages, a checksum per row, and the head, which
says what the rows must be as a whole. A file that passes them is served as it was written. Nothing here writes to a
file that has content; ``store/io/journal.py`` does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from headgate.store import log_head, log_rows
from headgate.store.log_head import LogHead, LogTotals

FILE: Final = "headgate.db"
LOCK: Final = "lock"

PAGE_BYTES: Final = 16_384  # pods of 2 KB fill such pages well; SQLite's own 4 KB would hold one each

_STEP: Final = 10_000
_PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "fullfsync = ON",
    "wal_autocheckpoint = 0",  # it would happen inside a commit, while writers wait
)
_SCHEMAS: Final = {
    log_head.FORMAT: (("head", log_head.CREATE), ("log", log_rows.CREATE)),
    log_head.UNCHAINED: (("head", log_head.CREATE_UNCHAINED), ("log", log_rows.CREATE)),
}

UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file may raise; the latter when SQLite's complaint quotes bytes that are no text."""

Progress = Callable[[int, int], None]
"""Called with (rows done, rows in all)."""


class StoreError(Exception):
    """The data folder cannot be used; the text is one line that names the folder and the fix."""


class StoreDamagedError(StoreError):
    """The file is not what was written."""

    def __init__(self, path: Path, what: str) -> None:
        self.what = " ".join(what.split())  # SQLite quotes whole statements
        fix = "use another backup"
        if path.name == FILE:
            fix = (
                "restore a backup with `headgate restore`, or keep what is sound, and lose the rest, "
                f"with `headgate check --drop-damaged --data {path.parent}`"
            )
        super().__init__(f"{path} is damaged: {self.what}; {fix}")


def take_folder(folder: Path) -> int:
    """Makes the folder if it is new; returns an open file that holds its lock while the process lives."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _take_lock(folder)
    except OSError as error:
        why = error.strerror if error.filename in (None, str(folder)) else f"{error.filename}: {error.strerror}"
        raise StoreError(f"data folder {folder} cannot be used: {why}; choose another folder") from error


def refuse_other_kinds(folder: Path) -> None:
    """Raises ``StoreError`` if something else is where one of the store's files belongs."""
    for name in ("", "-wal", "-shm", "-mark"):
        path = folder / f"{FILE}{name}"
        try:
            kind = path.stat().st_mode
        except FileNotFoundError:
            if not path.is_symlink():
                continue
            raise StoreError(
                f"{path} is a link to {path.readlink()}, which is not there; put that file back, or restore a backup"
            ) from None
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}; see to the disk and its rights") from error
        if not stat.S_ISREG(kind):
            what = "is a directory" if stat.S_ISDIR(kind) else "is not a regular file"
            raise StoreError(f"{path} {what}; put the file back in its place, or restore a backup")
        if not os.access(path, os.R_OK):
            raise StoreError(f"{path} cannot be read: permission denied; see to its rights")


def _take_lock(folder: Path) -> int:
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StoreError(
            f"data folder {folder} is in use by process {owner}: stop that process, or choose another folder"
        ) from None
    except BaseException:
        os.close(lock)
        raise
    _name_owner(lock)
    return lock


def _name_owner(lock: int) -> None:
    """Says which process has the folder. It is for messages only: a full disk is no reason to give up."""
    line = f"{os.getpid()}\n".encode()
    try:
        os.pwrite(lock, line, 0)  # over what is there: it needs no room
        os.ftruncate(lock, len(line))
    except OSError as error:
        os.ftruncate(lock, 0)
        if not is_full(error):
            raise


def is_served(folder: Path) -> bool:
    """Whether a process has taken the folder."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def connect(path: Path, new: LogHead | None = None) -> sqlite3.Connection:
    """Opens our file to write; where there is none, makes one with the head ``new``. Raises ``StoreError``."""
    try:
        # Objects may be secrets; SQLite's own files get the mode of this one, which may have been widened meanwhile.
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if new is not None else 0), 0o600)
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o600)
        os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}; choose another") from error
    return _connect(path, "mode=rw", _PRAGMAS, new)


def connect_reading(path: Path, *, at_rest: bool) -> sqlite3.Connection:
    """Opens our file to read. A file that is ``at_rest`` belongs to no server, and nothing is put beside it."""
    if not path.is_file():
        raise StoreError(f"{path} is not there: name the data folder, or the backup")
    if at_rest and path.with_name(path.name + "-wal").exists():
        raise StoreError(f"{path} is in use, or was not closed: make a copy of it with `headgate backup`")
    return _connect(path, "mode=ro&immutable=1" if at_rest else "mode=rw", ("query_only = ON",), None)


def _connect(path: Path, how: str, pragmas: Sequence[str], new: LogHead | None) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        address = f"file:{quote(str(path.absolute()))}?{how}"
        # The writer's thread uses the connection after this one made it; never both at once.
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        connection.text_factory = bytes  # in a damaged file a text may be anything
        _identify(connection, path, new)
        for pragma in (*pragmas, "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        return connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, UNREADABLE):
            raise explained(error, path) from error
        raise


def explained(error: Exception, path: Path) -> StoreError:
    """What SQLite could not do with the file at ``path``, and what the user can; for errors in ``UNREADABLE``."""
    code = primary_code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path} is not a Headgate store; move it away, or choose another data folder")
    # A plain error: our own statements, and a schema that lacks their words.
    if isinstance(error, UnicodeDecodeError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        return StoreDamagedError(path, str(error))
    if is_full(error):
        return StoreError(f"{path} cannot be written: the disk is full; make room and try again")
    return StoreError(f"{path} cannot be used: {error}; see to the disk, or choose another data folder")


def primary_code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_there(path: Path) -> bool:
    """Whether the file has any content; SQLite takes an empty one for a new one."""
    return path.exists() and path.stat().st_size > 0


def is_full(error: Exception) -> bool:
    """Whether there is no room: for the file, or for one of those beside it."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = getattr(error, "sqlite_errorcode", 0)
    return primary_code(error) == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


def _identify(connection: sqlite3.Connection, path: Path, new: LogHead | None) -> None:
    """Refuses a file that is not ours; fills one that is new."""
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    user_version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    schema = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    problem = log_head.foreign_file_problem(application_id, user_version, len(schema))
    if problem is not None:
        raise StoreError(f"{path} {problem}")
    if application_id == 0:
        if new is None:
            raise StoreError(f"{path} is empty")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("BEGIN IMMEDIATE")
        for _, statement in _SCHEMAS[log_head.FORMAT]:
            connection.execute(statement)
        connection.execute(log_head.WRITE, new.row())
        connection.execute(f"PRAGMA application_id = {log_head.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {log_head.FORMAT}")
        connection.execute("COMMIT")
    elif schema != [(name.encode(), sql.encode()) for name, sql in _SCHEMAS[user_version]]:
        raise StoreDamagedError(path, "its tables are not those of a Headgate store")


def read_head(connection: sqlite3.Connection, path: Path) -> LogHead:
    found = log_head.read(connection.execute(log_head.READ).fetchall())
    if found is None:
        raise StoreDamagedError(path, "its head does not match its seal")
    return found


def bring_up_to_date(connection: sqlite3.Connection, wanted: LogHead) -> None:
    """Gives a file of the format without numbered commits the present one, inside the transaction under way."""
    connection.execute("DROP TABLE head")
    connection.execute(log_head.CREATE)
    connection.execute(log_head.WRITE, wanted.row())
    connection.execute(f"PRAGMA user_version = {log_head.FORMAT}")


def structure_problem(connection: sqlite3.Connection) -> str | None:
    """What SQLite has to say about its pages, if it is not ``ok``."""
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    text = said.decode(errors="replace")
    return None if text == "ok" else text


def sound_rows(
    connection: sqlite3.Connection, path: Path, expected: LogHead, progress: Progress
) -> Iterator[log_rows.StoredRow]:
    """All rows in order, each as it was written; raises ``StoreDamagedError`` as soon as something is not."""
    problem = structure_problem(connection)
    if problem is not None:
        raise StoreDamagedError(path, problem)
    reader, checksums, total = log_rows.RowReader(), [0] * 0, expected.tally.rows
    for done, raw in enumerate(connection.execute(log_rows.SCAN)):
        if done % _STEP == 0:
            progress(done, total)
        stored = reader.read(raw)
        if stored is None:
            raise StoreDamagedError(path, f"{log_rows.describe(raw)} does not match its checksum")
        checksums.append(stored.checksum)
        yield stored
    problem = expected.mismatch(LogTotals().plus(checksums))
    if problem is not None:
        raise StoreDamagedError(path, problem)
    progress(total, total)
