"""Performs the writes of ``capacity/status/status_reporter.py``: a few at a time, with the lowest priority.

It receives the scheduler's watch events through :meth:`QueueStatusWriter.heard`, and has two watches of its own for
finished pods, which the scheduler does not see. It also writes to Volcano's own PodGroup, which has no status
subresource in many releases.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import msgspec

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.capacity.status.pod_group_members import FIELDS
from headgate.capacity.status.status_reporter import (
    BATCH_DELAY_S,
    CreateMissingObject,
    QueueStatusSource,
    StatusPatch,
    StatusReporter,
)
from headgate.client.io.event_recorder import no_delay
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome, WriteStatus
from headgate.http.transport import Transport
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.lenient_reader import find_object
from headgate.kube.serializer import wire_json
from headgate.kube.timestamps import format_time

_AT_ONCE: Final = 4
_BATCH: Final = 16
_PER_S: Final = 100.0
"""Writes in a second at most: a start with ten thousand queues must not overload the server."""
_LONGEST_SLEEP_S: Final = 1.0
"""The engine says nothing of its own when holdings change: it is asked so often."""
_ENDS: Final = ("Succeeded", "Failed")
_AGAIN: Final = (WriteOutcome.LATER, WriteOutcome.UNKNOWN, WriteOutcome.CONFLICT, WriteOutcome.FENCED)
_log: Final = logging.getLogger(__name__)


class QueueStatusWriter:
    """``schedulers``: the ``schedulerName`` values of this scheduler. ``turn`` is awaited before each write."""

    def __init__(
        self,
        books: QueueStatusSource,
        schedulers: Collection[str],
        transport: Transport,
        writer: Writer,
        *,
        turn: Callable[[], Awaitable[None]] = no_delay,
        makes_groups: bool = False,
    ) -> None:
        self.reporting = StatusReporter(books, schedulers, creates_groups=makes_groups)
        self._transport = transport
        self._writer = writer
        self._turn = turn
        self._woken = asyncio.Event()
        self._synced = asyncio.Event()
        self._unsynced: set[object] = {QUEUES, POD_GROUPS, PODS, *_ENDS}
        self._without_status: set[APIResource] = set()
        self._told: set[tuple[str, str]] = set()

    def observe(self, resource: APIResource, event: InformerEvent) -> None:
        """What a watch of the scheduler told, once the engine was told of it; other resources do not matter here."""
        now_s = time.monotonic()
        match event:
            case ObjectApplied(wire) if resource == PODS:
                self.reporting.pod_applied(wire, now_s)
            case ObjectDeleted(uid=uid) if resource == PODS:
                self.reporting.pod_removed(uid, now_s)
            case ObjectApplied(wire) if resource == QUEUES:
                self.reporting.queue_applied(wire, now_s)
            case ObjectDeleted(name=name) if resource == QUEUES:
                self.reporting.queue_removed(name, now_s)
            case ObjectApplied(wire) if resource == POD_GROUPS:
                self.reporting.group_applied(wire, now_s)
            case ObjectDeleted(namespace, name) if resource == POD_GROUPS:
                self.reporting.group_removed(namespace, name, now_s)
            case ListSynced():
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
            PODS.collection_path(),
            lambda event: self._observe_ended(phase, event),
            jitter=random.random,
            sleep=asyncio.sleep,
            query={"fieldSelector": f"status.phase={phase}"},
            fields=FIELDS,
            report=_warn,
        ).run()

    def _observe_ended(self, phase: str, event: InformerEvent) -> None:
        now_s = time.monotonic()
        match event:
            case ObjectApplied(wire):
                self.reporting.pod_applied(wire, now_s)
            case ObjectDeleted(uid=uid):
                self.reporting.pod_removed(uid, now_s, ended=True)
            case ListSynced():
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
            effects = self.reporting.due_patches(time.monotonic(), format_time(time.time()), _BATCH)
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
        await asyncio.sleep(BATCH_DELAY_S)

    async def _perform(self, effect: StatusPatch | CreateMissingObject) -> None:
        await self._turn()
        if isinstance(effect, CreateMissingObject):
            metadata = effect.obj["metadata"]
            verdict = await self._writer.create(effect.resource, metadata.get("namespace") or "", effect.obj)
            if verdict.outcome is WriteOutcome.REFUSED:
                self._warn_once(f"{effect.obj['kind']} {metadata['name']} cannot be made", verdict)
            return
        verdict = await self._write(effect)
        now_s = time.monotonic()
        if verdict.done:
            self.reporting.patch_succeeded(effect, _status_in(verdict.body), now_s)
        elif verdict.outcome in _AGAIN:
            self.reporting.patch_succeeded(effect, None, now_s)
        else:
            self.reporting.patch_rejected(effect, now_s)
            if verdict.outcome is WriteOutcome.REFUSED:
                where = f"{effect.namespace}/{effect.name}" if effect.namespace else effect.name
                self._warn_once(f"the status of {effect.resource.plural} {where} cannot be written", verdict)

    async def _write(self, report: StatusPatch) -> WriteStatus:
        place = (report.resource, report.namespace, report.name, report.uid)
        body = {"status": report.patch}
        if report.resource not in self._without_status:
            verdict = await self._writer.patch(*place, body, "merge", "status")
            if verdict.outcome is not WriteOutcome.GONE:
                return verdict
        verdict = await self._writer.patch(*place, body, "merge")
        if verdict.done:
            self._without_status.add(report.resource)
        return verdict

    def _warn_once(self, text: str, verdict: WriteStatus) -> None:
        if (text, verdict.message) not in self._told:
            self._told.add((text, verdict.message))
            _log.warning("%s: %s", text, verdict.message)


def _status_in(body: bytes) -> dict[str, Any]:
    try:
        found = wire_json.decode(body)
    except msgspec.DecodeError:
        return {}
    return find_object(found, "status")


def _warn(problem: str) -> None:
    _log.warning("%s", problem)
