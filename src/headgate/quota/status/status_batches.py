"""Queues with outdated statuses, and how many of them are written at a time.

Counts change with every admission, and a write for each would cost the server more than the admissions. Statuses are
therefore written in batches; while admissions are waiting to be written the batches are small, and the oldest entries
come first. ``queue_status.py`` builds the statuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from headgate.quota.status.workload_counters import QueueRef

PAUSE_S: Final = 0.25
_IDLE_BATCH: Final = 64
_BUSY_BATCH: Final = 4
_BUSY_DIVISOR: Final = 32
"""With many queues, a batch has at least this fraction (1/32) of them; otherwise the last would wait for minutes."""


class StatusBatches:
    def __init__(self) -> None:
        self._queue_refs: Final[dict[QueueRef, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._queue_refs)

    def add(self, queue_refs: Iterable[QueueRef]) -> None:
        for queue_ref in queue_refs:
            self._queue_refs.setdefault(queue_ref)

    def take(self, is_busy: bool) -> list[QueueRef]:
        """The queues whose status is written next."""
        batch_size = max(_BUSY_BATCH, len(self._queue_refs) // _BUSY_DIVISOR) if is_busy else _IDLE_BATCH
        taken = list(islice(self._queue_refs, batch_size))
        for queue_ref in taken:
            del self._queue_refs[queue_ref]
        return taken
