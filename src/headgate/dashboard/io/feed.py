"""Keeps the views of a cluster up to date while they are read.

The watches start with the first reader and end some time after the last one, so a page that is not looked at costs
nothing. Changes are flushed at most every tenth of a second. A resource that may not be listed is left out and named
among the problems; the rights are checked again from time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.connection import Connection
from headgate.client.io.observed_transport import ObservedTransport
from headgate.client.io.read_only_transport import ReadOnlyTransport
from headgate.client.permissions import FORBIDDEN, describe_permission
from headgate.controllers.framework.reconcile import Controller
from headgate.gate_policies.names import GATE_POLICIES
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, NODES, PODS, RUNTIME_CLASSES, APIResource
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from headgate.runtime.controller_manager import run_controllers
from headgate.views.cluster_views import ClusterViews
from headgate.views.controller import ViewsController
from headgate.views.waiting_pages import WaitingPages

_log: Final = logging.getLogger(__name__)
_DEBOUNCE_S: Final = 0.1
_TICK_S: Final = 5.0
"""Rows that become due without an event, such as old gates, are late by at most this time."""
_RIGHTS_S: Final = 60.0
_LINGER_S: Final = 120.0
_READY_S: Final = 20.0
_JSON: Final = {"accept": "application/json"}
WATCHED: Final = (
    *(PODS, NODES, NAMESPACES, QUEUES, POD_GROUPS, GATE_POLICIES, LIMIT_RANGES, RUNTIME_CLASSES),
    *(RESOURCE_FLAVORS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, ADMISSION_CHECKS),
)


class ViewsFeed:
    """``epoch`` names the present views: after a restart they begin at another revision."""

    def __init__(self, transport: Transport, make_views: Callable[[], ClusterViews] = ClusterViews) -> None:
        self._observed: Final = ObservedTransport(transport, self._tell)
        self.transport: Final = ReadOnlyTransport(self._observed)
        self._make_views: Final = make_views
        self._readers = 0
        self._last_left_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._listeners: Final[dict[int, Callable[[], None]]] = {}
        self._ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._controller: ViewsController | None = None
        self._left_out: frozenset[APIResource] = frozenset()
        self._reset()

    def _reset(self) -> None:
        self.views = self._make_views()
        self.pages = WaitingPages(self.views)
        self.epoch = uuid.uuid4().hex[:12]
        self._ready.clear()

    @property
    def is_synced(self) -> bool:
        return self._controller is not None and self._controller.is_synced

    @property
    def connection(self) -> Connection:
        """Whether the API server is reached; kept up to date while the views are read."""
        return self._observed.connection

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ends the watches when the block is left."""
        try:
            yield
        finally:
            await self._stop()

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def enter(self, listener: Callable[[], None] | None = None) -> int:
        """Begins to read; ``listener`` is called when rows or the connection have changed.
        Returns what :meth:`leave` takes."""
        self._readers += 1
        if listener is not None:
            self._listeners[id(listener)] = listener
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return 0 if listener is None else id(listener)

    def leave(self, reader: int) -> None:
        self._readers -= 1
        self._listeners.pop(reader, None)
        self._last_left_s = time.monotonic()

    async def ready(self) -> bool:
        """Waits until all lists are read, at most some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_S):
                await self._ready.wait()
        return self._ready.is_set()

    async def missing_rights(self) -> list[str]:
        """One line for each watched resource that may not be listed."""
        return [f"missing right: {describe_permission('list', each)}" for each in await self._refused()]

    async def _refused(self) -> list[APIResource]:
        found = []
        for resource in WATCHED:
            try:
                request = HTTPRequest("GET", resource.collection_path(), "limit=1", _JSON)
                if (await self.transport.request(request)).status == FORBIDDEN:
                    found.append(resource)
            except Unreachable:
                continue  # the informers report it
        return found

    async def _run(self) -> None:
        """Reads the cluster until nobody has read for a while."""
        heartbeat = asyncio.create_task(self._observed.keep_asking())
        try:
            await self._keep_views()
        finally:
            await _cancel(heartbeat)

    async def _keep_views(self) -> None:
        self._left_out = frozenset(await self._refused())
        self._reset()
        controllers = asyncio.create_task(run_controllers(self._make, self.transport))
        rights = asyncio.create_task(self._check_rights())
        try:
            while self._readers or time.monotonic() - self._last_left_s < _LINGER_S:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_TICK_S):
                        await self._changed.wait()
                self._changed.clear()
                self._flush()
                await asyncio.sleep(_DEBOUNCE_S)
                if rights.done():  # they are other ones now
                    await _cancel(controllers)
                    self._left_out = rights.result()
                    controllers = asyncio.create_task(run_controllers(self._make, self.transport))
                    rights = asyncio.create_task(self._check_rights())
        finally:
            self._ready.clear()
            await _cancel(controllers, rights)
            self._controller = None

    def _make(self) -> list[Controller]:
        if self._controller is not None:
            self._reset()  # new controllers receive everything again
        self._observed.forget_watches()
        views = self.views
        views.set_missing_rights(f"missing right: {describe_permission('list', each)}" for each in self._left_out)
        self._controller = ViewsController(views, self._changed.set, self._left_out)
        return [self._controller]

    async def _check_rights(self) -> frozenset[APIResource]:
        while True:
            await asyncio.sleep(_RIGHTS_S)
            found = frozenset(await self._refused())
            if found != self._left_out:
                return found

    def _flush(self) -> None:
        is_first = not self._ready.is_set() and self.is_synced
        try:
            changed = self.views.flush(time.time())
        except Exception:
            _log.exception("dashboard: the views could not be updated")
            return
        if is_first:
            self._ready.set()
        if changed or is_first:
            self._tell()

    def _tell(self) -> None:
        for listener in list(self._listeners.values()):
            listener()


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
