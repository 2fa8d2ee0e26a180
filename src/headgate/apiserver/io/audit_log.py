"""Writes audit events to a file, one line each, in a separate thread.

A request never waits for the disk: its event goes into a queue. If the disk is slow and the queue is full, or if a
write fails, events are lost and requests are not. The number of lost events is logged, and written as a line of its own
once writes succeed again. Only the owner can read the file. It is rotated when it is too large, and opened again when
another program has moved it.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import queue
import threading
from pathlib import Path
from typing import Any, Final

import msgspec

_log: Final = logging.getLogger(__name__)
_QUEUED: Final = 10_000
_BATCH: Final = 500
_KEPT_FILES: Final = 3
DEFAULT_MAX_BYTES: Final = 100 * 1024 * 1024


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class AuditLog:
    """Raises ``OSError`` if the file cannot be opened at the start."""

    def __init__(self, path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._path: Final = path
        self._max_bytes: Final = max_bytes
        self._queue: Final[queue.Queue[dict[str, Any] | None]] = queue.Queue(_QUEUED)
        self._lost = 0
        self._counting: Final = threading.Lock()
        self._descriptor = _open(path)
        self._thread: Final = threading.Thread(target=self._run, name="audit-log", daemon=True)
        self._thread.start()

    def write(self, event: dict[str, Any]) -> None:
        try:
            self._queue.put_nowait({**event, "stageTimestamp": _now()})
        except queue.Full:
            self._lose(1)

    def close(self) -> None:
        """What is queued is still written."""
        self._queue.put(None)
        self._thread.join()
        os.close(self._descriptor)

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            batch, ended = self._gather()
            try:
                self._put(batch)
            except OSError as problem:
                self._lose(len(batch))
                _log.warning(
                    "the audit log %s cannot be written: %s; %d events are lost", self._path, problem, self._lost
                )
            if ended:
                return

    def _gather(self) -> tuple[list[dict[str, Any]], bool]:
        """All that is there, after waiting for the first."""
        batch: list[dict[str, Any]] = []
        event = self._queue.get()
        while event is not None:
            batch.append(event)
            if len(batch) == _BATCH:
                return batch, False
            try:
                event = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _put(self, batch: list[dict[str, Any]]) -> None:
        if not batch:
            return
        self._look_after_the_file()
        lost, lines = self._lost, [msgspec.json.encode(event) for event in batch]
        if lost:
            lines.insert(0, msgspec.json.encode({"lostEvents": lost, "stageTimestamp": _now()}))
        data = b"\n".join(lines) + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, before)  # no half lines
            raise
        self._lose(-lost)

    def _look_after_the_file(self) -> None:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            there = None
        mine = os.fstat(self._descriptor)
        if there is not None and (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev):
            if mine.st_size < self._max_bytes:
                return
            self._set_aside()
        fresh = _open(self._path)
        os.close(self._descriptor)
        self._descriptor = fresh

    def _set_aside(self) -> None:
        for number in range(_KEPT_FILES - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")

    def _lose(self, count: int) -> None:
        with self._counting:
            self._lost += count


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
