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

from headgate.client import event_correlator
from headgate.client.event_backlog import EventBacklog, PendingEvent
from headgate.client.event_correlator import EventCorrelator, Object
from headgate.client.io.writer import Writer
from headgate.client.write_requests import PATCHES
from headgate.client.write_status import WriteOutcome
from headgate.http.transport import HTTPRequest
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
    """For who has nothing better to do than writing Events."""


class EventRecorder:
    """``writer`` should make few attempts, and is fenced like any other. ``turn`` is awaited before each write."""

    def __init__(
        self,
        writer: Writer,
        *,
        most: int = 4096,
        workers: int = WORKERS,
        turn: Callable[[], Awaitable[None]] = no_delay,
        instance: str = "",
    ) -> None:
        self._writer = writer
        self._turn = turn
        self._instance = instance
        self._backlog: EventBacklog[EventToEmit] = EventBacklog(most)
        self._recorder = EventCorrelator()
        self._workers = workers
        self._more = asyncio.Event()
        self.failed = 0

    @property
    def dropped(self) -> int:
        return self._backlog.dropped + self.failed

    def emit(self, happening: EventToEmit) -> None:
        self._backlog.add(happening, time.monotonic())
        self._more.set()

    async def run(self) -> None:
        """Writes until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            waiting = self._backlog.take()
            if waiting is None:
                self._more.clear()
                await self._more.wait()
                continue
            await self._turn()
            try:
                is_written = await self._write(waiting)
            except Exception as error:  # what one Event cannot say must not silence the others
                happening = waiting.happening
                text = "%s: the Event %s about %s cannot be written: %s: %s"
                _log.error(text, happening.component, happening.reason, happening.about, type(error).__name__, error)
                is_written = False
            if not is_written:
                self.failed += 1

    async def _write(self, waiting: PendingEvent[EventToEmit]) -> bool:
        happening, count = waiting.happening, waiting.count
        happened_s = time.time() - (time.monotonic() - waiting.since_s)
        told = self._recorder.find(happening)
        if told is not None:
            body = event_correlator.count_patch(told, happening, happened_s, count)
            path = EVENTS.object_path(told.namespace, told.name)
            verdict = await self._writer.write(
                HTTPRequest("PATCH", path, "", PATCHES["merge"], msgspec.json.encode(body))
            )
            if verdict.done:
                told.count += count
            if verdict.outcome is not WriteOutcome.GONE:
                return verdict.done
        event = event_correlator.new_event(happening, happened_s, count, happening.name)
        if happening.action:
            event |= {"action": happening.action, "reportingInstance": self._instance or happening.component}
        if happening.related is not None:
            event["related"] = happening.related
        verdict = await self._writer.create(EVENTS, event["metadata"]["namespace"], event)
        if verdict.done:
            self._recorder.record(happening, event)
        return verdict.done or (bool(happening.name) and verdict.outcome is WriteOutcome.CONFLICT)
