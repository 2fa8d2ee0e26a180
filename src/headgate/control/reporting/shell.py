"""Performs what ``capacity/reporting.py`` wants written: a few writes at a time, behind everything more urgent.

It hears the scheduler's watches through :meth:`Reporter.heard`, and has two of its own, on pods that ended: the
scheduler does not see those. A server that has Volcano's own PodGroup, which in many of its releases has no status
subresource, is written to all the same.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import msgspec

from headgate.capacity.members import FIELDS
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.capacity.reporting import SOON_S, Books, Make, Report, Reporting
from headgate.client.events.shell import no_rush
from headgate.client.informer import Applied, Event, Informer, Removed, Synced
from headgate.client.outcome import Outcome, Verdict
from headgate.client.transport import Transport
from headgate.client.writer import Writer
from headgate.kube import wire_json
from headgate.kube.resource import PODS, Resource
from headgate.kube.timestamps import format_time

_AT_ONCE: Final = 4
_BATCH: Final = 16
_PER_S: Final = 100.0
"""Writes in a second at most: whoever starts beside ten thousand queues does not hold up the server with them."""
_LONGEST_SLEEP_S: Final = 1.0
"""The engine says nothing of its own when holdings change: it is asked so often."""
_ENDS: Final = ("Succeeded", "Failed")
_AGAIN: Final = (Outcome.LATER, Outcome.UNKNOWN, Outcome.CONFLICT, Outcome.FENCED)
_log: Final = logging.getLogger(__name__)


class Reporter:
    """``schedulers``: the names that pods ask for us by. ``turn`` is awaited before each write."""

    def __init__(
        self,
        books: Books,
        schedulers: Collection[str],
        transport: Transport,
        writer: Writer,
        *,
        turn: Callable[[], Awaitable[None]] = no_rush,
        makes_groups: bool = False,
    ) -> None:
        self.reporting = Reporting(books, schedulers, makes_groups=makes_groups)
        self._transport = transport
        self._writer = writer
        self._turn = turn
        self._woken = asyncio.Event()
        self._synced = asyncio.Event()
        self._unsynced: set[object] = {QUEUES, POD_GROUPS, PODS, *_ENDS}
        self._without_status: set[Resource] = set()
        self._told: set[tuple[str, str]] = set()

    def heard(self, resource: Resource, event: Event) -> None:
        """What a watch of the scheduler told, once the engine was told of it; other resources do not matter here."""
        now_s = time.monotonic()
        match event:
            case Applied(wire) if resource == PODS:
                self.reporting.pod_applied(wire, now_s)
            case Removed(uid=uid) if resource == PODS:
                self.reporting.pod_removed(uid, now_s)
            case Applied(wire) if resource == QUEUES:
                self.reporting.queue_applied(wire, now_s)
            case Removed(name=name) if resource == QUEUES:
                self.reporting.queue_removed(name, now_s)
            case Applied(wire) if resource == POD_GROUPS:
                self.reporting.group_applied(wire, now_s)
            case Removed(namespace, name) if resource == POD_GROUPS:
                self.reporting.group_removed(namespace, name, now_s)
            case Synced():
                self._has_synced(resource)
            case _:
                return
        self._woken.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for phase in _ENDS:
                group.create_task(self._watch_ended(phase))
            group.create_task(self._work())

    async def _watch_ended(self, phase: str) -> None:
        await Informer(
            self._transport,
            PODS.collection(),
            lambda event: self._heard_ended(phase, event),
            jitter=random.random,
            sleep=asyncio.sleep,
            query={"fieldSelector": f"status.phase={phase}"},
            fields=FIELDS,
            report=_complain,
        ).run()

    def _heard_ended(self, phase: str, event: Event) -> None:
        now_s = time.monotonic()
        match event:
            case Applied(wire):
                self.reporting.pod_applied(wire, now_s)
            case Removed(uid=uid):
                self.reporting.pod_removed(uid, now_s, ended=True)
            case Synced():
                self._has_synced(phase)
        self._woken.set()

    def _has_synced(self, what: object) -> None:
        self._unsynced.discard(what)
        if not self._unsynced:
            self._synced.set()

    async def _work(self) -> None:
        await self._synced.wait()
        self.reporting.synced(time.monotonic())
        while True:
            self._woken.clear()
            effects = self.reporting.step(time.monotonic(), format_time(time.time()), _BATCH)
            for first in range(0, len(effects), _AT_ONCE):
                await asyncio.gather(*map(self._perform, effects[first : first + _AT_ONCE]))
            if effects:
                await asyncio.sleep(len(effects) / _PER_S)
            else:
                await self._rest()

    async def _rest(self) -> None:
        """Until something is due; what is heard meanwhile is gathered for a moment first."""
        deadline_s = self.reporting.next_deadline_s()
        wait_s = _LONGEST_SLEEP_S if deadline_s is None else deadline_s - time.monotonic()
        try:
            async with asyncio.timeout(min(max(wait_s, 0.0), _LONGEST_SLEEP_S)):
                await self._woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(SOON_S)

    async def _perform(self, effect: Report | Make) -> None:
        await self._turn()
        if isinstance(effect, Make):
            metadata = effect.obj["metadata"]
            verdict = await self._writer.create(effect.resource, metadata.get("namespace") or "", effect.obj)
            if verdict.outcome is Outcome.REFUSED:
                self._complain_once(f"{effect.obj['kind']} {metadata['name']} cannot be made", verdict)
            return
        verdict = await self._write(effect)
        now_s = time.monotonic()
        if verdict.done:
            self.reporting.wrote(effect, _status_in(verdict.body), now_s)
        elif verdict.outcome in _AGAIN:
            self.reporting.wrote(effect, None, now_s)
        else:
            self.reporting.gave_up(effect, now_s)
            if verdict.outcome is Outcome.REFUSED:
                where = f"{effect.namespace}/{effect.name}" if effect.namespace else effect.name
                self._complain_once(f"the status of {effect.resource.plural} {where} cannot be written", verdict)

    async def _write(self, report: Report) -> Verdict:
        place = (report.resource, report.namespace, report.name, report.uid)
        body = {"status": report.patch}
        if report.resource not in self._without_status:
            verdict = await self._writer.patch(*place, body, "merge", "status")
            if verdict.outcome is not Outcome.GONE:
                return verdict
        verdict = await self._writer.patch(*place, body, "merge")
        if verdict.done:
            self._without_status.add(report.resource)
        return verdict

    def _complain_once(self, text: str, verdict: Verdict) -> None:
        if (text, verdict.message) not in self._told:
            self._told.add((text, verdict.message))
            _log.warning("%s: %s", text, verdict.message)


def _status_in(body: bytes) -> dict[str, Any]:
    try:
        found = wire_json.decode(body)
    except msgspec.DecodeError:
        return {}
    status = found.get("status") if isinstance(found, dict) else None
    return status if isinstance(status, dict) else {}


def _complain(problem: str) -> None:
    _log.warning("%s", problem)
