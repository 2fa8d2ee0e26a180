"""Writes audit events to a file, one line each, in a separate thread.

A request never waits for the disk: its event goes into a queue. If the disk is slow and the queue is full, or if a
write fails, events are lost and requests are not. The beginning and the end of a failure are logged. The number of lost
events is written as a line of its own once writes succeed again.

Only the owner can read the file. It is rotated when it is too large, and opened again if another program has moved it.
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
_MAX_QUEUED: Final = 10_000
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
        self._queue: Final[queue.Queue[dict[str, Any] | None]] = queue.Queue(_MAX_QUEUED)
        self._lost = 0
        self._failing = False
        self._lost_lock: Final = threading.Lock()
        self._descriptor = _open(path)
        self._thread: Final = threading.Thread(target=self._run, name="audit-log", daemon=True)
        self._thread.start()

    def write(self, event: dict[str, Any]) -> None:
        try:
            self._queue.put_nowait({**event, "stageTimestamp": _now()})
        except queue.Full:
            self._add_lost(1)

    @property
    def lost_events(self) -> int:
        """Events that were lost since the last successful write."""
        return self._lost

    def close(self) -> None:
        """Writes the queued events, then closes the file."""
        self._queue.put(None)
        self._thread.join()
        os.close(self._descriptor)

    # -- in the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            batch, ended = self._take_batch()
            lost = self._lost
            try:
                self._write_batch(batch)
            except OSError as problem:
                self._add_lost(len(batch))
                if not self._failing:  # one line, not one for each event
                    _log.warning(
                        "the audit log %s cannot be written: %s; events are lost until it can be", self._path, problem
                    )
                self._failing = True
            else:
                if self._failing and batch:
                    _log.warning("the audit log %s is written again; %d events are lost", self._path, lost)
                    self._failing = False
            if ended:
                return

    def _take_batch(self) -> tuple[list[dict[str, Any]], bool]:
        """Waits for an event, and returns all queued ones."""
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

    def _write_batch(self, batch: list[dict[str, Any]]) -> None:
        if not batch:
            return
        self._rotate_or_reopen()
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
        self._add_lost(-lost)

    def _rotate_or_reopen(self) -> None:
        try:
            at_path = os.stat(self._path)
        except FileNotFoundError:
            at_path = None
        opened = os.fstat(self._descriptor)
        if at_path is not None and (at_path.st_ino, at_path.st_dev) == (opened.st_ino, opened.st_dev):
            if opened.st_size < self._max_bytes:
                return
            self._rotate()
        descriptor = _open(self._path)
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _rotate(self) -> None:
        for number in range(_KEPT_FILES - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")

    def _add_lost(self, count: int) -> None:
        with self._lost_lock:
            self._lost += count


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
