"""The history of a live cluster as it happens: a recorder whose records go to a function and not to a file.

The last state of every object is kept, as in the recorder of a file, so that a deletion has its object. ``audit`` uses
it with ``--watch``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from headgate.http.transport import Transport
from headgate.recording.changes import HistoryEvent, RecordedChange
from headgate.recording.history import LiveOrder
from headgate.recording.io.recorder import ClusterRecorder, RecorderStatus
from headgate.recording.records import Record, RecordTable
from headgate.recording.resources import RecordedResource

TICK_S: Final = 2.0


class _EventSink:
    """A ``RecordSink`` that keeps no record."""

    def __init__(self, made: Callable[[HistoryEvent], None]) -> None:
        self.table = RecordTable(made)

    @property
    def pending(self) -> int:
        return 0

    def add(self, records: Iterable[Record]) -> None:
        for _ in records:
            pass

    def flush(self) -> None:
        """Nothing is kept."""


class LiveHistory:
    """``take`` is called with each change, in the order of revisions; ``tick`` regularly, with the time until which all
    changes were delivered."""

    def __init__(
        self,
        transport: Transport,
        resources: Sequence[RecordedResource],
        take: Callable[[RecordedChange], None],
        tick: Callable[[float], None],
        *,
        tick_s: float = TICK_S,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._take, self._tick = take, tick
        self._now_s = now_s
        self.order: Final = LiveOrder()
        sink = _EventSink(self._made)
        self._recorder = ClusterRecorder(
            transport, sink, resources, now_s=now_s, flush_s=tick_s, listing=self.order.listing
        )

    @property
    def status(self) -> RecorderStatus:
        return self._recorder.status

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until ``stop`` is set. Raises ``MissingRights`` and ``Unreachable``."""
        await self._recorder.run(stop, self._flushed)
        for change in self.order.flush():
            self._take(change)
        self._tick(self._now_s())

    def _made(self, event: HistoryEvent) -> None:
        for change in self.order.take(event):
            self._take(change)

    def _flushed(self, status: RecorderStatus) -> None:
        now_s = self._now_s()
        for change in self.order.tick(now_s):
            self._take(change)
        self._tick(self.order.complete_s(now_s))
