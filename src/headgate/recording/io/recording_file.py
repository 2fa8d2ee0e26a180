"""Reads and appends to the file of a recording.

A writer locks the file, removes a block that was cut off at the end, and continues after the last sound one. It refuses
a file with damage in the middle: nothing that follows damage can be read. The key of hashed names is in a second file
beside the recording, which need not be given away with it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from headgate.recording.blocks import MAGIC, BlockDecoder, RecordingDamage, encode_block
from headgate.recording.changes import HistoryEvent, SessionStarted
from headgate.recording.records import InvalidRecord, Record, RecordTable, decode_records, encode_records

_PIECE: Final = 1 << 20
_KEY_BYTES: Final = 32
_MAGIC_WORDS: Final = MAGIC.split(b" ")[0] + b" "
_DATABASE_MAGIC: Final = b"SQLite format 3\0"


class RecordingError(Exception):
    """The file cannot be used; the text is one line with the file and what to do."""


class RecordingReader:
    """``damage`` is known after all events were read. ``end``: the end of the last sound block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: RecordingDamage | None = None
        self.table = RecordTable()
        self.end = 0
        self.hashed: bool | None = None

    def events(self) -> Iterator[HistoryEvent]:
        self.table, self.damage, self.end = RecordTable(), None, 0
        decoder = BlockDecoder()
        try:
            with self.path.open("rb") as file:
                while (data := file.read(_PIECE)) and not self.is_damaged:
                    yield from self._events_of(decoder, data)
        except OSError as error:
            raise RecordingError(f"{self.path} cannot be read: {error.strerror}") from error
        self.damage = self.damage or decoder.finish()

    @property
    def is_damaged(self) -> bool:
        return self.damage is not None

    def _events_of(self, decoder: BlockDecoder, data: bytes) -> Iterator[HistoryEvent]:
        for payload, end in decoder.feed(data):
            try:
                events = [self.table.read(record) for record in decode_records(payload)]
            except InvalidRecord as error:
                self.damage = RecordingDamage(self.end, str(error))
                return
            self.end = end
            for event in events:
                if isinstance(event, SessionStarted) and self.hashed is None:
                    self.hashed = event.hashed
                yield event
        self.end = decoder.offset if decoder.damage is None else self.end
        self.damage = decoder.damage


def is_recording(path: Path) -> bool:
    """Whether the file begins as a recording does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def file_problem(path: Path) -> str:
    """Why a file is neither a whole recording nor the database of a store; empty if it may be one of them, or a
    folder. It raises ``RecordingError``."""
    if not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            begin = file.read(len(MAGIC))
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
    if begin == MAGIC or begin.startswith(_DATABASE_MAGIC):
        return ""
    if not begin:
        return f"{path} is empty: `headgate record {path}` begins a recording in it"
    if MAGIC.startswith(begin):
        return (
            f"{path} ends within the first line of a recording, so it has no changes: `headgate record {path}` "
            "writes the line again and continues"
        )
    if begin.startswith(_MAGIC_WORDS):
        return f"{path} is a recording of another version of Headgate, or its first line is damaged"
    return f"{path} is neither a recording (headgate record) nor the database of a store (headgate up, headgate backup)"


class RecordingWriter:
    """Collects records and writes them block by block. ``table`` has the last state of all objects in the file."""

    def __init__(self, path: Path, *, hashed: bool) -> None:
        """Raises ``RecordingError``."""
        self.path = path
        self.table = RecordTable()
        self.is_new = True
        self._records: list[Record] = []
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise RecordingError(f"{path} cannot be written: {error.strerror}") from error
        try:
            self._lock()
            self._continue(hashed)
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordingError(f"{self.path} is being written by another recorder: choose another file") from None

    def _continue(self, hashed: bool) -> None:
        size = os.fstat(self._file).st_size
        reader = RecordingReader(self.path)
        if size:
            for _ in reader.events():
                pass
            damage = reader.damage
            if damage is not None and not damage.is_torn:
                raise RecordingError(f"{self.path} cannot be continued: {damage}. Choose another file")
            if reader.hashed is not None and reader.hashed != hashed:
                option = "--hash-names" if reader.hashed else "no --hash-names"
                raise RecordingError(f"{self.path} was begun with {option}: use the same, or choose another file")
            self.is_new = reader.hashed is None
            self.table = reader.table
            os.ftruncate(self._file, reader.end)
        if not reader.end:
            os.pwrite(self._file, MAGIC, 0)
        os.lseek(self._file, 0, os.SEEK_END)

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._file).st_size

    @property
    def pending(self) -> int:
        return len(self._records)

    def add(self, records: Iterable[Record]) -> None:
        self._records += records

    def flush(self) -> None:
        """Writes what was collected as one block, and waits until it is on disk. Raises ``RecordingError``."""
        if not self._records:
            return
        block = memoryview(encode_block(encode_records(self._records)))
        try:
            end = os.lseek(self._file, 0, os.SEEK_END)
            try:
                while block:
                    block = block[os.write(self._file, block) :]
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, end)
                raise
        except OSError as error:
            raise RecordingError(f"{self.path} cannot be written: {error.strerror}") from error
        self._records = []

    def close(self) -> None:
        try:
            self.flush()
        finally:
            os.close(self._file)


def name_key(path: Path, *, is_new: bool, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> bytes:
    """The key of the hashed names of a recording, in a file of its own. A new recording gets a new key."""
    key_path = path.with_name(path.name + ".key")
    try:
        if is_new and not key_path.exists():
            descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(random_bytes(_KEY_BYTES))
        key = key_path.read_bytes()
    except OSError as error:
        raise RecordingError(
            f"{key_path} has the key of the hashed names and cannot be used: {error.strerror}"
        ) from error
    if len(key) != _KEY_BYTES:
        raise RecordingError(f"{key_path} is not a key of hashed names: choose another file for the recording")
    return key
