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
_BUSY_SHARE: Final = 32
"""Of very many queues one in so many: else the last would wait for minutes."""


class StatusBatches:
    def __init__(self) -> None:
        self._places: Final[dict[QueueRef, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, places: Iterable[QueueRef]) -> None:
        for place in places:
            self._places.setdefault(place)

    def take(self, is_busy: bool) -> list[QueueRef]:
        """Those that are written next."""
        most = max(_BUSY_BATCH, len(self._places) // _BUSY_SHARE) if is_busy else _IDLE_BATCH
        taken = list(islice(self._places, most))
        for place in taken:
            del self._places[place]
        return taken
