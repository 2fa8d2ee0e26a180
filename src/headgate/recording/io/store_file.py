"""Reads the store of the embedded API server as a recording: a data folder, running or not, or a backup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headgate.recording.changes import HistoryEvent
from headgate.recording.io.recording_file import RecordingError
from headgate.recording.store_rows import store_events
from headgate.store.io.backup import read_rows
from headgate.store.io.database_file import Progress, StoreError


def read_store(path: Path, progress: Progress) -> Iterator[HistoryEvent]:
    """Raises ``RecordingError``."""
    try:
        with read_rows(path, progress) as (head, rows):
            yield from store_events(((each.item, each.deleted) for each in rows), head.oldest)
    except StoreError as error:
        raise RecordingError(str(error)) from error
