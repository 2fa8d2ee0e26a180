"""Opens the SQLite file, locks its folder, and checks for damage.

Three checks together cover every byte that matters: SQLite's check of its pages, a checksum per row, and the head
(``store/log_head.py``) with the number of rows and the sum of their checksums. This module does not write to a file
that has content; ``store/io/journal.py`` does.
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

PAGE_BYTES: Final = 16_384  # pods of 2 KB fill such pages well; SQLite's default of 4 KB would hold one pod per page

_PROGRESS_ROWS: Final = 10_000
_PRAGMAS: Final = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "fullfsync = ON",
    "wal_autocheckpoint = 0",  # an automatic checkpoint would run inside a commit, while writers wait
)
_SCHEMAS: Final = {
    log_head.FORMAT: (("head", log_head.CREATE), ("log", log_rows.CREATE)),
    log_head.UNCHAINED: (("head", log_head.CREATE_UNCHAINED), ("log", log_rows.CREATE)),
}

UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file may raise. ``UnicodeDecodeError``: SQLite's message quotes bytes that are not text."""

Progress = Callable[[int, int], None]
"""Called with (rows done, total rows)."""


class StoreError(Exception):
    """The data folder cannot be used; the text is one line that names the folder and the fix."""


class StoreDamagedError(StoreError):
    """The content of the file differs from what was written."""

    def __init__(self, path: Path, problem: str) -> None:
        self.problem = " ".join(problem.split())  # SQLite quotes whole statements
        fix = "use another backup"
        if path.name == FILE:
            fix = (
                "restore a backup with `headgate restore`, or keep what is sound, and lose the rest, "
                f"with `headgate check --drop-damaged --data {path.parent}`"
            )
        super().__init__(f"{path} is damaged: {self.problem}; {fix}")


def lock_folder(folder: Path) -> int:
    """Creates the folder if necessary; returns an open file that holds its lock until it is closed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _take_lock(folder)
    except OSError as error:
        reason = error.strerror if error.filename in (None, str(folder)) else f"{error.filename}: {error.strerror}"
        raise StoreError(f"data folder {folder} cannot be used: {reason}; choose another folder") from error


def check_file_types(folder: Path) -> None:
    """Raises ``StoreError`` if one of the store's files is not a readable regular file. SQLite keeps its log beside the
    target of a symbolic link, where a check of the folder would not find it, so links are refused."""
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-mark", LOCK):
        path = folder / name
        try:
            kind = path.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}; check the disk and permissions") from error
        if stat.S_ISLNK(kind):
            raise StoreError(
                f"{path} is a symbolic link to {path.readlink()}; put the file itself there. To keep the data on "
                f"another disk, move the whole folder {folder} and link the folder"
            )
        if not stat.S_ISREG(kind):
            problem = "is a directory" if stat.S_ISDIR(kind) else "is not a regular file"
            raise StoreError(f"{path} {problem}; put the file back in its place, or restore a backup")
        if not os.access(path, os.R_OK):
            raise StoreError(f"{path} cannot be read: permission denied; check the file permissions")


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
    _write_owner(lock)
    return lock


def _write_owner(lock: int) -> None:
    """Writes the process id into the lock file. It is only for messages: a full disk is no error."""
    line = f"{os.getpid()}\n".encode()
    try:
        os.pwrite(lock, line, 0)  # overwriting needs no space
        os.ftruncate(lock, len(line))
    except OSError as error:
        os.ftruncate(lock, 0)
        if not is_full(error):
            raise


def is_served(folder: Path) -> bool:
    """Whether a process has locked the folder."""
    try:
        return lock_owner(folder) is not None
    except StoreError:
        return False


def lock_owner(folder: Path) -> str | None:
    """The id of the process that has locked the folder, as far as it is known; None if the folder is not locked. Raises
    ``StoreError`` if that cannot be found out."""
    path = folder / LOCK
    try:
        lock = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}; use the account that runs the server") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(lock, 32).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(lock)
    return None


def connect(path: Path, new_head: LogHead | None = None) -> sqlite3.Connection:
    """Opens the file for writing; with ``new_head``, creates it if necessary. Raises ``StoreError``."""
    try:
        # Objects may be Secrets. SQLite's other files get the mode of this one, which a user may have changed.
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if new_head is not None else 0), 0o600)
        with contextlib.suppress(PermissionError):
            os.fchmod(descriptor, 0o600)
        os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}; choose another") from error
    return _connect(path, "mode=rw", _PRAGMAS, new_head)


def connect_reading(path: Path, *, at_rest: bool) -> sqlite3.Connection:
    """Opens the file for reading. ``at_rest``: no server uses it, and SQLite creates no files beside it."""
    if path.is_dir():
        raise StoreError(f"{path} is a directory, not a backup: pass a data folder with `--data {path}`")
    if not path.is_file():
        raise StoreError(f"{path} does not exist: pass the data folder, or the backup")
    if at_rest and path.with_name(path.name + "-wal").exists():
        raise StoreError(f"{path} is in use, or was not closed: make a copy of it with `headgate backup`")
    return _connect(path, "mode=ro&immutable=1" if at_rest else "mode=rw", ("query_only = ON",), None)


def _connect(path: Path, mode: str, pragmas: Sequence[str], new_head: LogHead | None) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        address = f"file:{quote(str(path.absolute()))}?{mode}"
        # The writer's thread uses the connection that this thread creates; they never use it at the same time.
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        connection.text_factory = bytes  # a damaged file may contain text that is not UTF-8
        _check_or_create_schema(connection, path, new_head)
        for pragma in (*pragmas, "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        return connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, UNREADABLE):
            raise store_error(error, path) from error
        raise


def store_error(error: Exception, path: Path) -> StoreError:
    """An error that says what SQLite could not do with the file at ``path``, and what the user can do.

    ``error`` must be one of ``UNREADABLE``.
    """
    code = primary_code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path} is not a Headgate store; move it away, or choose another data folder")
    # SQLITE_ERROR: the schema does not match our statements.
    if isinstance(error, UnicodeDecodeError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        return StoreDamagedError(path, str(error))
    if is_full(error):
        return StoreError(f"{path} cannot be written: the disk is full; free some space and try again")
    return StoreError(f"{path} cannot be used: {error}; check the disk, or choose another data folder")


def primary_code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def has_content(path: Path) -> bool:
    """Whether the file exists and is not empty. SQLite treats an empty file as a new one."""
    return path.exists() and path.stat().st_size > 0


def is_full(error: Exception) -> bool:
    """Whether the disk is full, for this file or one beside it."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = getattr(error, "sqlite_errorcode", 0)
    return primary_code(error) == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


def _check_or_create_schema(connection: sqlite3.Connection, path: Path, new_head: LogHead | None) -> None:
    """Raises ``StoreError`` for a file that is not a store; creates the tables in a new one."""
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    user_version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    schema = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    problem = log_head.foreign_file_problem(application_id, user_version, len(schema))
    if problem is not None:
        raise StoreError(f"{path} {problem}")
    if application_id == 0:
        if new_head is None:
            if has_content(path):
                raise StoreError(f"{path} is too short to be a Headgate store; restore it from a backup")
            raise StoreError(f"{path} is empty")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("BEGIN IMMEDIATE")
        for _, statement in _SCHEMAS[log_head.FORMAT]:
            connection.execute(statement)
        connection.execute(log_head.WRITE, new_head.row())
        connection.execute(f"PRAGMA application_id = {log_head.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {log_head.FORMAT}")
        connection.execute("COMMIT")
    elif schema != [(name.encode(), sql.encode()) for name, sql in _SCHEMAS[user_version]]:
        raise StoreDamagedError(path, "its tables are not those of a Headgate store")


def read_head(connection: sqlite3.Connection, path: Path) -> LogHead:
    head = log_head.read(connection.execute(log_head.READ).fetchall())
    if head is None:
        raise StoreDamagedError(path, "its head does not match its seal")
    return head


def upgrade_format(connection: sqlite3.Connection, head: LogHead) -> None:
    """Upgrades a file of the format without numbered commits, inside the open transaction."""
    connection.execute("DROP TABLE head")
    connection.execute(log_head.CREATE)
    connection.execute(log_head.WRITE, head.row())
    connection.execute(f"PRAGMA user_version = {log_head.FORMAT}")


def structure_problem(connection: sqlite3.Connection) -> str | None:
    """What SQLite reports about its pages, if it is not ``ok``."""
    (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    text = result.decode(errors="replace")
    return None if text == "ok" else text


def verified_rows(
    connection: sqlite3.Connection, path: Path, head: LogHead, progress: Progress
) -> Iterator[log_rows.StoredRow]:
    """All rows in order, each verified; raises ``StoreDamagedError`` at the first problem."""
    problem = structure_problem(connection)
    if problem is not None:
        raise StoreDamagedError(path, problem)
    reader, total = log_rows.RowReader(), head.totals.rows
    checksums: list[int] = []
    for done, raw in enumerate(connection.execute(log_rows.SCAN)):
        if done % _PROGRESS_ROWS == 0:
            progress(done, total)
        stored = reader.read(raw)
        if stored is None:
            raise StoreDamagedError(path, f"{log_rows.describe(raw)} does not match its checksum")
        checksums.append(stored.checksum)
        yield stored
    problem = head.mismatch(LogTotals().plus(checksums))
    if problem is not None:
        raise StoreDamagedError(path, problem)
    progress(total, total)
