"""Queues whose statuses are out of date, and how many of them are written at a time.

A count changes with every admission, and a write for each would cost the server more than the admissions do. So the
statuses of a burst are one batch; while there are admissions to be written the batches are small, and whoever waits
longest comes first. What a status says is ``reports.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from headgate.quota.serving.census import Place

PAUSE_S: Final = 0.25
_AT_REST: Final = 64
_BUSY: Final = 4
_BUSY_SHARE: Final = 32
"""Of very many queues one in so many: else the last would wait for minutes."""


class Overdue:
    def __init__(self) -> None:
        self._places: Final[dict[Place, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, places: Iterable[Place]) -> None:
        for place in places:
            self._places.setdefault(place)

    def take(self, is_busy: bool) -> list[Place]:
        """Those that are written next."""
        most = max(_BUSY, len(self._places) // _BUSY_SHARE) if is_busy else _AT_REST
        taken = list(islice(self._places, most))
        for place in taken:
            del self._places[place]
        return taken
