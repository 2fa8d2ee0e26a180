"""Writes Events beside the real work: whoever tells one never waits, and few connections at most are used for them.

What cannot be written is dropped and counted, never retried for long: the next happening is more interesting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from headgate.client.events import recorder
from headgate.client.events.backlog import Backlog, Waiting
from headgate.client.events.recorder import Object, Recorder
from headgate.client.outcome import Outcome
from headgate.client.transport import Request
from headgate.client.writer import Writer
from headgate.client.writes import PATCHES
from headgate.kube.resource import EVENTS

WORKERS: Final = 1
_log: Final = logging.getLogger(__name__)


class Said(msgspec.Struct, frozen=True):
    """A ``Happening``. ``about`` is an object reference; ``type`` is Normal or Warning.

    ``related``: another object, that is behind it.
    ``name``: the Event's own, for what is told once: if there is such an Event already, it has been told.
    """

    about: Object
    reason: str
    message: str
    type: str
    component: str
    action: str = ""
    name: str = ""
    related: Object | None = None


async def no_rush() -> None:
    """For who has nothing better to do than writing Events."""


class EventWriter:
    """``writer`` should make few attempts, and is fenced like any other. ``turn`` is awaited before each write."""

    def __init__(
        self,
        writer: Writer,
        *,
        most: int = 4096,
        workers: int = WORKERS,
        turn: Callable[[], Awaitable[None]] = no_rush,
        instance: str = "",
    ) -> None:
        self._writer = writer
        self._turn = turn
        self._instance = instance
        self._backlog: Backlog[Said] = Backlog(most)
        self._recorder = Recorder()
        self._workers = workers
        self._more = asyncio.Event()
        self.failed = 0

    @property
    def dropped(self) -> int:
        return self._backlog.dropped + self.failed

    def tell(self, happening: Said) -> None:
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

    async def _write(self, waiting: Waiting[Said]) -> bool:
        happening, count = waiting.happening, waiting.count
        happened_s = time.time() - (time.monotonic() - waiting.since_s)
        told = self._recorder.before(happening)
        if told is not None:
            body = recorder.repetition(told, happening, happened_s, count)
            path = EVENTS.object(told.namespace, told.name)
            verdict = await self._writer.write(Request("PATCH", path, "", PATCHES["merge"], msgspec.json.encode(body)))
            if verdict.done:
                told.count += count
            if verdict.outcome is not Outcome.GONE:
                return verdict.done
        event = recorder.event(happening, happened_s, count, happening.name)
        if happening.action:
            event |= {"action": happening.action, "reportingInstance": self._instance or happening.component}
        if happening.related is not None:
            event["related"] = happening.related
        verdict = await self._writer.create(EVENTS, event["metadata"]["namespace"], event)
        if verdict.done:
            self._recorder.wrote(happening, event)
        return verdict.done or (bool(happening.name) and verdict.outcome is Outcome.CONFLICT)
