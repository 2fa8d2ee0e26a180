"""Writes Events in the background: the emitter never waits, and at most a few connections are used.

An Event that cannot be written is dropped and counted, not retried for long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from headgate.client import event_correlator, write_requests
from headgate.client.event_backlog import EventBacklog, PendingEvent
from headgate.client.event_correlator import EventCorrelator, Object
from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome
from headgate.kube.api_resources import EVENTS

WORKERS: Final = 1
_log: Final = logging.getLogger(__name__)


class EventToEmit(msgspec.Struct, frozen=True):
    """An Event to emit. ``about`` is an object reference; ``type`` is Normal or Warning.

    ``related``: another object that is involved. ``name``: the Event's own name, for an Event that is emitted once: if
    an Event of that name exists, nothing is written.
    """

    about: Object
    reason: str
    message: str
    type: str
    component: str
    action: str = ""
    name: str = ""
    related: Object | None = None


async def no_delay() -> None:
    """The default of ``before_write``."""


class EventRecorder:
    """``writer`` should make few attempts. ``before_write`` is awaited before each write."""

    def __init__(
        self,
        writer: Writer,
        *,
        max_events: int = 4096,
        workers: int = WORKERS,
        before_write: Callable[[], Awaitable[None]] = no_delay,
        instance: str = "",
    ) -> None:
        self._writer = writer
        self._before_write = before_write
        self._instance = instance
        self._backlog: EventBacklog[EventToEmit] = EventBacklog(max_events)
        self._correlator = EventCorrelator()
        self._workers = workers
        self._added = asyncio.Event()
        self.failed = 0

    @property
    def dropped(self) -> int:
        return self._backlog.dropped + self.failed

    def emit(self, event: EventToEmit) -> None:
        self._backlog.add(event, time.monotonic())
        self._added.set()

    async def run(self) -> None:
        """Writes until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            pending = self._backlog.take()
            if pending is None:
                self._added.clear()
                await self._added.wait()
                continue
            await self._before_write()
            try:
                is_written = await self._write(pending)
            except Exception as error:  # one Event that cannot be written must not stop the others
                body = pending.event
                text = "%s: the Event %s about %s cannot be written: %s: %s"
                _log.error(text, body.component, body.reason, body.about, type(error).__name__, error)
                is_written = False
            if not is_written:
                self.failed += 1

    async def _write(self, pending: PendingEvent[EventToEmit]) -> bool:
        event, count = pending.event, pending.count
        time_s = time.time() - (time.monotonic() - pending.since_s)
        recorded = self._correlator.find(event)
        if recorded is not None:
            patch = event_correlator.count_patch(recorded, event, time_s, count)
            result = await self._writer.write(
                write_requests.patch(EVENTS, recorded.namespace, recorded.name, "", patch, "merge")
            )
            if result.done:
                recorded.count += count
            if result.outcome is not WriteOutcome.GONE:
                return result.done
        body = event_correlator.new_event(event, time_s, count, event.name)
        if event.action:
            body |= {"action": event.action, "reportingInstance": self._instance or event.component}
        if event.related is not None:
            body["related"] = event.related
        result = await self._writer.create(EVENTS, body["metadata"]["namespace"], body)
        if result.done:
            self._correlator.record(event, body)
        return result.done or (bool(event.name) and result.outcome is WriteOutcome.CONFLICT)
