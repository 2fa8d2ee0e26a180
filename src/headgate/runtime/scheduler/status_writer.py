"""Performs the writes of ``capacity/status/status_reporter.py``: a few at a time, with the lowest priority.

It receives the scheduler's watch events through :meth:`QueueStatusWriter.observe`, and has two watches of its own for
finished pods, which the scheduler does not watch. Volcano's own definition of PodGroup has no status subresource in
many releases; then the status is written to the object itself.
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

_MAX_PARALLEL: Final = 4
_BATCH: Final = 16
_MAX_WRITES_PER_S: Final = 100.0
"""The rate is limited because a start with ten thousand queues must not overload the server."""
_MAX_SLEEP_S: Final = 1.0
"""The engine does not notify about changed usage, so it is polled this often."""
_TERMINAL_PHASES: Final = ("Succeeded", "Failed")
_RETRYABLE: Final = (WriteOutcome.LATER, WriteOutcome.UNKNOWN, WriteOutcome.CONFLICT, WriteOutcome.FENCED)
_log: Final = logging.getLogger(__name__)


class QueueStatusWriter:
    """``schedulers``: the ``schedulerName`` values of this scheduler. ``before_write`` is awaited before each write."""

    def __init__(
        self,
        source: QueueStatusSource,
        schedulers: Collection[str],
        transport: Transport,
        writer: Writer,
        *,
        before_write: Callable[[], Awaitable[None]] = no_delay,
        create_pod_groups: bool = False,
    ) -> None:
        self.reporter = StatusReporter(source, schedulers, creates_groups=create_pod_groups)
        self._transport = transport
        self._writer = writer
        self._before_write = before_write
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._unsynced: set[object] = {QUEUES, POD_GROUPS, PODS, *_TERMINAL_PHASES}
        self._without_status: set[APIResource] = set()
        self._warned: set[tuple[str, str]] = set()

    def observe(self, resource: APIResource, event: InformerEvent) -> None:
        """Receives an event of the scheduler's watches, after the queue engine. It ignores other resources."""
        now_s = time.monotonic()
        match event:
            case ObjectApplied(wire) if resource == PODS:
                self.reporter.pod_applied(wire, now_s)
            case ObjectDeleted(uid=uid) if resource == PODS:
                self.reporter.pod_removed(uid, now_s)
            case ObjectApplied(wire) if resource == QUEUES:
                self.reporter.queue_applied(wire, now_s)
            case ObjectDeleted(name=name) if resource == QUEUES:
                self.reporter.queue_removed(name, now_s)
            case ObjectApplied(wire) if resource == POD_GROUPS:
                self.reporter.group_applied(wire, now_s)
            case ObjectDeleted(namespace, name) if resource == POD_GROUPS:
                self.reporter.group_removed(namespace, name, now_s)
            case ListSynced():
                self._mark_synced(resource)
            case _:
                return
        self._wake.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for phase in _TERMINAL_PHASES:
                group.create_task(self._watch_finished_pods(phase))
            group.create_task(self._work())

    async def _watch_finished_pods(self, phase: str) -> None:
        await Informer(
            self._transport,
            PODS.collection_path(),
            lambda event: self._observe_finished_pod(phase, event),
            jitter=random.random,
            sleep=asyncio.sleep,
            query={"fieldSelector": f"status.phase={phase}"},
            fields=FIELDS,
            report=_warn,
        ).run()

    def _observe_finished_pod(self, phase: str, event: InformerEvent) -> None:
        now_s = time.monotonic()
        match event:
            case ObjectApplied(wire):
                self.reporter.pod_applied(wire, now_s)
            case ObjectDeleted(uid=uid):
                self.reporter.pod_removed(uid, now_s, from_terminal_watch=True)
            case ListSynced():
                self._mark_synced(phase)
        self._wake.set()

    def _mark_synced(self, source: object) -> None:
        self._unsynced.discard(source)
        if not self._unsynced:
            self._synced.set()

    async def _work(self) -> None:
        await self._synced.wait()
        self.reporter.synced(time.monotonic())
        while True:
            self._wake.clear()
            effects = self.reporter.due_patches(time.monotonic(), format_time(time.time()), _BATCH)
            for first in range(0, len(effects), _MAX_PARALLEL):
                await asyncio.gather(*map(self._perform, effects[first : first + _MAX_PARALLEL]))
            if effects:
                await asyncio.sleep(len(effects) / _MAX_WRITES_PER_S)
            else:
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        """Waits until a patch is due. After an event it waits a moment longer, to collect further events."""
        deadline_s = self.reporter.next_deadline_s()
        wait_s = _MAX_SLEEP_S if deadline_s is None else deadline_s - time.monotonic()
        try:
            async with asyncio.timeout(min(max(wait_s, 0.0), _MAX_SLEEP_S)):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(BATCH_DELAY_S)

    async def _perform(self, effect: StatusPatch | CreateMissingObject) -> None:
        await self._before_write()
        if isinstance(effect, CreateMissingObject):
            metadata = effect.obj["metadata"]
            result = await self._writer.create(effect.resource, metadata.get("namespace") or "", effect.obj)
            if result.outcome is WriteOutcome.REFUSED:
                self._warn_once(f"{effect.obj['kind']} {metadata['name']} cannot be created", result)
            return
        result = await self._write(effect)
        now_s = time.monotonic()
        if result.done:
            self.reporter.patch_finished(effect, _status_in(result.body), now_s)
        elif result.outcome in _RETRYABLE:
            self.reporter.patch_finished(effect, None, now_s)
        else:
            self.reporter.patch_rejected(effect, now_s)
            if result.outcome is WriteOutcome.REFUSED:
                name_text = f"{effect.namespace}/{effect.name}" if effect.namespace else effect.name
                self._warn_once(f"the status of {effect.resource.plural} {name_text} cannot be written", result)

    async def _write(self, patch: StatusPatch) -> WriteStatus:
        target = (patch.resource, patch.namespace, patch.name, patch.uid)
        body = {"status": patch.patch}
        if patch.resource not in self._without_status:
            result = await self._writer.patch(*target, body, "merge", "status")
            if result.outcome is not WriteOutcome.GONE:
                return result
        result = await self._writer.patch(*target, body, "merge")
        if result.done:
            self._without_status.add(patch.resource)
        return result

    def _warn_once(self, text: str, result: WriteStatus) -> None:
        if (text, result.message) not in self._warned:
            self._warned.add((text, result.message))
            _log.warning("%s: %s", text, result.message)


def _status_in(body: bytes) -> dict[str, Any]:
    try:
        found = wire_json.decode(body)
    except msgspec.DecodeError:
        return {}
    return find_object(found, "status")


def _warn(problem: str) -> None:
    _log.warning("%s", problem)
