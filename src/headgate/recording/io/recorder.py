"""Watches all recorded resources of a cluster and writes their changes to a file.

Each resource has its own task: it waits until the cluster serves the resource, then runs an informer on it. Before
that, the permissions to list and watch each resource are tested with one small request each; all missing ones are
reported together. Records are collected, and written as one compressed block every few seconds, so a killed process
loses at most one block.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

import headgate
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.pager import ACCEPT, ListRefused, refusal_message
from headgate.client.permissions import refusal_text
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport, Unreachable
from headgate.kube.api_resources import APIResource
from headgate.recording.changes import (
    Object,
    ResourceAbsent,
    ResourceSynced,
    SessionEnded,
    SessionStarted,
    WatchProblem,
)
from headgate.recording.io.discovery import MissingRights, served_resource
from headgate.recording.name_hashing import NameHasher
from headgate.recording.pruning import prune
from headgate.recording.records import Record, RecordTable
from headgate.recording.resources import RecordedResource
from headgate.recording.watch_log import WatchLog

FLUSH_S: Final = 2.0
_MAX_PENDING: Final = 5000
ABSENT_S: Final = 30.0
"""How often a resource that is not served is looked for."""
_PROBE_S: Final = 10.0


class RecorderStatus(msgspec.Struct):
    """Mutable: the figures of the progress line."""

    changes: int = 0
    deletions: int = 0
    absent: int = 0
    synced: int = 0
    problem: str = ""
    watches: WatchLog = msgspec.field(default_factory=WatchLog)


class RecordSink(Protocol):
    """Where records go: a file (``recording_file.py``), or an audit of the live cluster (``live_history.py``)."""

    @property
    def table(self) -> RecordTable: ...

    @property
    def pending(self) -> int: ...

    def add(self, records: Iterable[Record]) -> None: ...

    def flush(self) -> None: ...


class _ResourceRecorder:
    """One resource: turns the events of its informer into records. ``writer.table`` has the last recorded state of
    every object and turns changes into records. A *notice* is a record about the recording itself: a session, a synced
    or absent resource, a watch problem."""

    def __init__(
        self,
        name: str,
        writer: RecordSink,
        hasher: NameHasher | None,
        status: RecorderStatus,
        now_s: Callable[[], float],
    ) -> None:
        self._name = name
        self._writer = writer
        self._hasher = hasher
        self._status = status
        self._now_s = now_s
        self._is_listing = True
        self._listed: set[tuple[str, str]] = set()
        self._is_first_list = True
        self._complete_s = writer.table.last_ms / 1000
        """The time until which all changes of the resource are recorded."""

    def begin_list(self) -> None:
        self._is_listing = True

    def take(self, event: InformerEvent) -> None:
        now_s = self._now_s()
        # how long changes may have been missed: a list shows only the last state
        gap_s = max(0.0, now_s - self._complete_s) if self._is_listing and self._complete_s else 0.0
        match event:
            case ObjectApplied(object=obj):
                self._record_state(obj, now_s, gap_s)
            case ObjectDeleted(namespace=namespace, name=name, revision=revision):
                number = int(revision) if revision.isdecimal() and not self._is_listing else 0
                self._record_deletion(self._hashed(namespace), self._hashed(name), now_s, number, gap_s)
            case ListSynced(revision=revision):
                self._end_list(now_s, gap_s, int(revision) if revision.isdecimal() else 0)
        if not self._is_listing:
            self._complete_s = now_s
        if self._writer.pending >= _MAX_PENDING:
            self._writer.flush()

    def _record_state(self, obj: Object, now_s: float, gap_s: float) -> None:
        pruned = prune(self._name, obj)
        state = pruned if self._hasher is None else self._hasher.hash_object(pruned)
        if self._is_first_list:
            self._listed.add((str(state["metadata"].get("namespace") or ""), str(state["metadata"]["name"])))
        records = list(
            self._writer.table.record_state(self._name, state, now_s, observed=not self._is_listing, gap_s=gap_s)
        )
        self._status.changes += len(records)
        self._writer.add(records)

    def _record_deletion(self, namespace: str, name: str, now_s: float, revision: int, gap_s: float) -> None:
        records = list(self._writer.table.record_deletion(self._name, namespace, name, now_s, revision, gap_s=gap_s))
        self._status.deletions += len(records)
        self._writer.add(records)

    def _end_list(self, now_s: float, gap_s: float, revision: int) -> None:
        if self._is_first_list:  # the informer does not know the objects that the file has from an earlier session
            for namespace, name in self._writer.table.names_of(self._name):
                if (namespace, name) not in self._listed:
                    self._record_deletion(namespace, name, now_s, 0, gap_s)
            self._is_first_list, self._listed = False, set()
            self._status.synced += 1
        self._is_listing = False
        self._writer.add([self._writer.table.record_notice(ResourceSynced(now_s, self._name, revision))])

    def absent(self, problem: str = "") -> None:
        """``problem``: not recorded; the informer passes it."""
        self._writer.add([self._writer.table.record_notice(ResourceAbsent(self._now_s(), self._name))])

    def report(self, text: str) -> None:
        self._status.problem = text
        self._status.watches.lose(self._name, text, self._now_s())
        self._writer.add([self._writer.table.record_notice(WatchProblem(self._now_s(), self._name, text))])

    def watching(self) -> None:
        self._status.watches.regain(self._name, self._now_s())

    def _hashed(self, name: str) -> str:
        return name if self._hasher is None else self._hasher.name(name)


async def check_rights(transport: Transport, resources: Sequence[RecordedResource]) -> dict[str, APIResource | None]:
    """Which version of each resource is served; None if it is not. Raises ``MissingRights``."""
    found: dict[str, APIResource | None] = {}
    refused = []
    for each in resources:
        served = await served_resource(transport, each)
        if isinstance(served, str):
            refused.append(f"cannot read {each.name}: {served}")
            continue
        found[each.name] = served
        if served is not None:
            for verb, query in (("list", "limit=1"), ("watch", "watch=true&timeoutSeconds=1")):
                if (text := await _refusal(transport, served, verb, query)) is not None:
                    refused.append(text)
                    break
    if refused:
        raise MissingRights(refused)
    return found


async def _refusal(transport: Transport, resource: APIResource, verb: str, query: str) -> str | None:
    request = HTTPRequest("GET", resource.collection_path(), query, ACCEPT)
    if verb == "watch":
        response = await transport.stream(request, idle_s=_PROBE_S)
        if not isinstance(response, HTTPResponse):
            await response.close()
            return None
    else:
        response = await transport.request(request)
        if response.ok:
            return None
    return refusal_text(verb, resource, None, ListRefused(refusal_message(response), response.status))


class ClusterRecorder:
    """``skipped``: names of resources that are left out. ``hasher``: hashes names. ``flush_s``: how often a block is
    written. ``absent_s``: how often a resource that is not served is looked for. ``listing`` is called with the name of
    a resource when a list of it begins."""

    def __init__(
        self,
        transport: Transport,
        writer: RecordSink,
        resources: Sequence[RecordedResource],
        *,
        skipped: Sequence[str] = (),
        hasher: NameHasher | None = None,
        now_s: Callable[[], float] = time.time,
        flush_s: float = FLUSH_S,
        absent_s: float = ABSENT_S,
        listing: Callable[[str], None] = lambda resource: None,
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._flush_s = flush_s
        self._absent_s = absent_s
        self._resources = resources
        self._skipped = tuple(skipped)
        self._hasher = hasher
        self._now_s = now_s
        self._listing = listing
        self.status = RecorderStatus()

    async def run(self, stop: asyncio.Event, on_flush: Callable[[RecorderStatus], None] = lambda status: None) -> None:
        """Records until ``stop`` is set. Raises ``MissingRights``, ``RecordingError`` and ``Unreachable``."""
        served = await check_rights(self._transport, self._resources)
        table, names = self._writer.table, tuple(each.name for each in self._resources)
        is_hashed = self._hasher is not None
        started = SessionStarted(self._now_s(), headgate.__version__, is_hashed, names, self._skipped)
        self._writer.add([table.record_notice(started)])
        tasks = [asyncio.create_task(self._record(each, served[each.name])) for each in self._resources]
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stopping.done():
                await asyncio.wait({stopping, *tasks}, timeout=self._flush_s, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()
                self._writer.flush()
                on_flush(self.status)
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
        self._writer.add([table.record_notice(SessionEnded(self._now_s()))])
        self._writer.flush()

    async def _record(self, recorded: RecordedResource, served: APIResource | None) -> None:
        recorder = _ResourceRecorder(recorded.name, self._writer, self._hasher, self.status, self._now_s)
        if served is None:
            recorder.absent()
            self.status.absent += 1
            served = await self._wait_until_served(recorded, recorder)
            self.status.absent -= 1
        informer = Informer(
            self._transport,
            served.collection_path(),
            recorder.take,
            jitter=random.random,
            sleep=asyncio.sleep,
            may_be_absent=True,
            absent=recorder.absent,
            report=recorder.report,
            listing=lambda: self._begin_list(recorded.name, recorder),
            watching=recorder.watching,
        )
        await informer.run()

    def _begin_list(self, name: str, recorder: _ResourceRecorder) -> None:
        self._listing(name)
        recorder.begin_list()

    async def _wait_until_served(self, recorded: RecordedResource, recorder: _ResourceRecorder) -> APIResource:
        while True:
            await asyncio.sleep(self._absent_s)
            with contextlib.suppress(Unreachable):
                found = await served_resource(self._transport, recorded)
                if isinstance(found, APIResource):
                    return found
                if found is not None:
                    recorder.report(found)
