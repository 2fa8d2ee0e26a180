"""The file with the high-water mark, and whether the store contains every acknowledged commit.

``check_high_water_mark`` runs before SQLite opens the file, because SQLite drops what it cannot read of the write-ahead
file, and may overwrite newer pages with the rest. ``store/high_water_mark.py`` explains the records.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
from pathlib import Path
from typing import Final

from headgate.store import high_water_mark, log_head, sqlite_wal
from headgate.store.high_water_mark import HighWaterMark, HighWaterMarks
from headgate.store.io.database_file import (
    FILE,
    PAGE_BYTES,
    StoreDamagedError,
    StoreError,
    check_file_types,
    has_content,
)
from headgate.store.log_head import LogHead
from headgate.store.sqlite_btree import Buffer, Pages, UnreadablePage
from headgate.store.sqlite_contents import format_of, head_of

MARK: Final = FILE + "-mark"
WAL: Final = FILE + "-wal"

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
"""On macOS a synchronous write reaches only the cache of the disk."""
_MARK_MISSING: Final = (
    f"{MARK} is missing beside it, so the last acknowledged commit is unknown "
    "(if it is a copy of the database file alone: move it away, and create a data folder with `headgate restore`)"
)
_ATTEMPTS: Final = 5  # a server may be writing the record at the same time


class HighWaterMarkFile:
    """The file, open for writing. Its methods raise ``OSError``; then the last record may be on disk or not."""

    def __init__(self, folder: Path, newest: HighWaterMark) -> None:
        self._file: Final = os.open(folder / MARK, os.O_RDWR | os.O_DSYNC)
        self.newest = newest
        """The last record that is known to be on disk."""
        self.in_doubt = False
        """Whether the write of a newer record failed: all, a part or none of it is on disk."""

    def acknowledge(self, head: LogHead) -> None:
        """Records a synced commit."""
        self._write(self.newest.next_for(head))

    def refuse(self) -> None:
        """Records that commits after the acknowledged one were refused."""
        if self.in_doubt or not self.newest.refused:
            self._write(self.newest.as_refused())

    def _write(self, mark: HighWaterMark) -> None:
        self.in_doubt = True
        data = mark.encode()
        if os.pwrite(self._file, data, mark.offset) != len(data):
            raise OSError("the high-water mark was written in part")
        if _FULL_SYNC is not None:
            fcntl.fcntl(self._file, _FULL_SYNC)
        self.newest, self.in_doubt = mark, False

    def close(self) -> None:
        os.close(self._file)


def new_identity() -> int:
    """A random identity for a store."""
    return secrets.randbits(62) + 1


def create_mark(folder: Path, newest: HighWaterMark) -> None:
    """Creates or replaces the file atomically. Raises ``StoreError``."""
    partial = folder / f"{MARK}.partial"
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(descriptor, high_water_mark.encode_file(newest))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(partial, folder / MARK)
        sync_folder(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise StoreError(f"{folder / MARK} cannot be written: {error.strerror}; check the disk") from error


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_marks(folder: Path) -> HighWaterMarks | None:
    """The content of the file; ``None`` if there is none. Raises ``StoreDamagedError``."""
    marks: HighWaterMarks | str = ""
    for _ in range(_ATTEMPTS):
        try:
            marks = high_water_mark.read((folder / MARK).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{folder / MARK} cannot be read: {error.strerror}; check the disk") from error
        if isinstance(marks, HighWaterMarks) and marks.complete:
            return marks
    if isinstance(marks, str):
        raise StoreDamagedError(folder / FILE, f"in {MARK} {marks}")
    return marks


def check_high_water_mark(folder: Path) -> HighWaterMarks | None:
    """Checks that a store contains all commits that it acknowledged. No process may have it open.

    Returns its marks; ``None`` if it has none yet. Raises ``StoreError`` if a file cannot be read,
    ``StoreDamagedError`` if commits are missing. ``connect`` refuses a file that is not a store.
    """
    check_file_types(folder)
    path, marks = folder / FILE, read_marks(folder)
    refuse_rollback_journal(folder, marks)
    if not has_content(path):
        if marks is not None and marks != HighWaterMarks(high_water_mark.first_mark(LogHead(store=marks.newest.store))):
            raise StoreDamagedError(path, _missing_store_problem(marks.newest))
        if has_content(folder / WAL):
            raise StoreDamagedError(path, f"it is missing, but {WAL} exists")
        return marks
    data, wal = read_files(folder)
    pages = Pages(data, wal.pages, PAGE_BYTES)
    file_format = format_of(pages)
    if file_format is None or file_format.application_id != log_head.APPLICATION_ID:
        if marks is not None:
            raise StoreDamagedError(path, f"it has not the header of a Headgate store, but {MARK} is beside it")
        return None
    if file_format.user_version == log_head.UNCHAINED:
        if marks is not None and marks.newest.commits:
            raise StoreDamagedError(path, f"it is older than {MARK} beside it")
        if wal.lost_commits > 1:
            raise StoreDamagedError(path, f"the last {wal.lost_commits} commits in {WAL} cannot be read")
    elif file_format.user_version == log_head.FORMAT:
        _compare(path, pages, marks)
    return marks


def refuse_rollback_journal(folder: Path, marks: HighWaterMarks | None) -> None:
    """Raises ``StoreError`` if there is a rollback journal beside a store with commits. SQLite would write its pages
    over those of the store. The store has such a journal only while it is created; then it uses a write-ahead file."""
    is_new = marks is not None and not marks.newest.commits and not has_content(folder / WAL)
    journal = folder / f"{FILE}-journal"
    if has_content(journal) and has_content(folder / FILE) and not is_new:
        raise StoreError(
            f"{journal} is a rollback journal, which does not belong to this store: SQLite would write it over the "
            "data; move it away, and try again"
        )


def _compare(path: Path, pages: Pages, marks: HighWaterMarks | None) -> None:
    """Raises ``StoreDamagedError`` if the head of the file does not match its marks."""
    if marks is None:
        raise StoreDamagedError(path, _MARK_MISSING)
    try:
        head = head_of(pages)
    except UnreadablePage:
        return  # SQLite will find the same problem and report it in more detail
    if head is None:
        raise StoreDamagedError(path, "its head does not match its seal")
    problem = high_water_mark.mismatch(marks, head)
    if problem is not None:
        raise StoreDamagedError(path, problem)


def read_files(folder: Path, *, every_frame: bool = False) -> tuple[Buffer, sqlite_wal.WALContents]:
    """The bytes of the database file, and the content of its write-ahead file."""
    path = folder / WAL
    wal = sqlite_wal.read(path.read_bytes() if path.exists() else b"", PAGE_BYTES, every_frame=every_frame)
    with (folder / FILE).open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    return data, wal


def _missing_store_problem(mark: HighWaterMark) -> str:
    return f"it is missing or empty, but {mark.commits} commits up to revision {mark.revision} were acknowledged"
