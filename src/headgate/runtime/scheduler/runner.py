"""Runs a scheduler on an API server: one watch per resource, one loop of scheduling cycles, and the API dispatcher.

The loop begins when every watch has delivered its list: before that, a node that looks empty may be full. Pods are
listed last: PreEnqueue plugins are called when a pod is first seen, and must know by then what they watch. A kind that
plugins watch and that is not served is not waited for; when it is served later, plugins get its objects when all of
them are listed. The loop works in short turns, so that watch events and responses are processed between them, and
sleeps until the next event or deadline.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.time_slice import SLICE_S
from headgate.client.io.writer import Writer, no_fence
from headgate.http.transport import Transport
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.scheduler.api_dispatcher import APIDispatcher
from headgate.runtime.scheduler.status_writer import QueueStatusWriter
from headgate.scheduling.scheduler import Scheduler

MAX_BINDINGS_IN_FLIGHT: Final = 32
"""As many as there are connections (``client/io/http_transport.py``); more would only wait for a connection."""

_PODS_PER_TURN: Final = 16
_MAX_SLEEP_S: Final = 60.0
_RESTART_S: Final = 1.0
_POD_FIELDS: Final = (
    "metadata.labels",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "metadata.ownerReferences",
    "spec",
    "status.phase",
    "status.startTime",
    "status.conditions",
    "status.nominatedNodeName",
    "status.containerStatuses",
    "status.initContainerStatuses",
)
_NODE_FIELDS: Final = (
    "metadata.labels",
    "metadata.annotations",
    "spec.taints",
    "spec.unschedulable",
    "status.allocatable",
    "status.conditions",
    "status.images",
)
_MAY_BE_ABSENT: Final = (QUEUES, POD_GROUPS)
"""Without these kinds every pod is in the default queue, which admits all pods."""
_LIVE_PODS: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}

_log: Final = logging.getLogger(__name__)


SchedulerFactory = Callable[[Callable[[str], None]], Scheduler]
"""Returns a new scheduler; the argument is called with warnings."""


async def run_scheduler(
    make: SchedulerFactory,
    transport: Transport,
    *,
    write_budget_s: Callable[[], float] = no_fence,
    health: HealthRegistry | None = None,
    write_queue_status: bool = True,
    create_pod_groups: bool = False,
) -> None:
    """Runs until it is cancelled. A scheduler that fails is replaced by one that starts from the API state alone.
    ``write_queue_status``: write the status of queues and PodGroups, too. ``create_pod_groups``: for pods without
    one."""
    health = health or HealthRegistry()
    while True:
        writer = Writer(transport, write_budget_s=write_budget_s, jitter=random.random, sleep=asyncio.sleep)
        try:
            runner = SchedulerRunner(
                make, transport, writer, write_queue_status=write_queue_status, create_pod_groups=create_pod_groups
            )
            health.set_scheduler(runner)
            await runner.run()
        except Exception as error:
            _log.exception("the scheduler failed, and starts again")
            health.restarts.failed("scheduler", error)
        finally:
            health.set_scheduler(None)
        await asyncio.sleep(_RESTART_S)


class SchedulerRunner:
    def __init__(
        self,
        make: SchedulerFactory,
        transport: Transport,
        writer: Writer,
        *,
        instance: str = "",
        max_in_flight: int = MAX_BINDINGS_IN_FLIGHT,
        write_queue_status: bool = True,
        create_pod_groups: bool = False,
    ) -> None:
        self.scheduler = make(_warn)
        self.synced = asyncio.Event()
        self._transport = transport
        self._max_in_flight = max_in_flight
        self._wake = asyncio.Event()
        self._dispatcher = APIDispatcher(self.scheduler, writer, self._wake.set, instance)
        self._unsynced: set[APIResource] = set()
        self._list_pods = asyncio.Event()
        self._absent_kinds: dict[
            APIResource, list[InformerEvent]
        ] = {}  # kinds that are not served, and their events until the list is complete
        self._status_writer: QueueStatusWriter | None = None
        names, queues = self.scheduler.queue_profiles, self.scheduler.queues
        if names and write_queue_status:
            wait_until_idle = self._dispatcher.wait_until_idle
            self._status_writer = QueueStatusWriter(
                queues, names, transport, writer, before_write=wait_until_idle, create_pod_groups=create_pod_groups
            )

    def unsynced(self) -> list[str]:
        """The resources whose list was not delivered yet."""
        return sorted(each.plural for each in self._unsynced)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        scheduler = self.scheduler
        pod_fields = (*_POD_FIELDS, *(("metadata.annotations",) if scheduler.annotations else ()))
        watched: dict[APIResource, Iterable[str]] = {
            **scheduler.cluster.watched(),
            NODES: _NODE_FIELDS,
            PODS: pod_fields,
        }
        self._unsynced = set(watched)
        async with asyncio.TaskGroup() as group:
            for resource, fields in watched.items():
                group.create_task(self._watch(resource, fields))
            group.create_task(self._dispatcher.run())
            if self._status_writer is not None:
                group.create_task(self._status_writer.run())
            group.create_task(self._run_cycles())

    async def _watch(self, resource: APIResource, fields: Iterable[str]) -> None:
        if resource == PODS:
            await self._list_pods.wait()
        is_plugin_kind = resource not in (NODES, PODS, *self.scheduler.cluster.needed)
        await Informer(
            self._transport,
            resource.collection_path(),
            lambda event: self._observe(resource, event),
            jitter=random.random,
            sleep=asyncio.sleep,
            query=_LIVE_PODS if resource == PODS else None,
            fields=fields,
            may_be_absent=is_plugin_kind or resource in _MAY_BE_ABSENT,
            absent=lambda problem: self._handle_absent(resource, problem),
            report=(lambda problem: self._not_listed(resource, problem)) if is_plugin_kind else _warn,
        ).run()

    def _handle_absent(self, resource: APIResource, problem: str) -> None:
        self._absent_kinds[resource] = []
        if resource not in _MAY_BE_ABSENT:
            watchers = ", ".join(self.scheduler.cluster.watchers(resource))
            _warn(f"{problem}; {watchers} watches a kind that is not served: pods are tried without it until it is")

    def _not_listed(self, resource: APIResource, problem: str) -> None:
        if resource in self._unsynced:
            watchers = ", ".join(self.scheduler.cluster.watchers(resource))
            problem = f"{problem}; no pod is tried before it can be listed and watched, since {watchers} watches it"
        _warn(problem)

    def _observe(self, resource: APIResource, event: InformerEvent) -> None:
        if resource in self._absent_kinds:
            self._absent_kinds[resource].append(event)
            if isinstance(event, ListSynced):
                for each in self._absent_kinds.pop(resource):
                    self._observe(resource, each)
            return
        now_s = time.monotonic()
        scheduler = self.scheduler
        match event:
            case ObjectApplied(wire) if resource == PODS:
                scheduler.pod_applied(wire, now_s)
            case ObjectDeleted(uid=uid) if resource == PODS:
                scheduler.pod_removed(uid, now_s)
            case ObjectApplied(wire) if resource == NODES:
                scheduler.node_applied(wire, now_s)
            case ObjectDeleted(name=name) if resource == NODES:
                scheduler.node_removed(name, now_s)
            case ObjectApplied(wire):
                scheduler.object_applied(resource, wire, now_s)
            case ObjectDeleted(namespace, name):
                scheduler.object_removed(resource, namespace, name, now_s)
            case ListSynced():
                self._unsynced.discard(resource)
                if self._unsynced <= {PODS}:
                    self._list_pods.set()
                if not self._unsynced:
                    self.synced.set()
        if self._status_writer is not None:
            self._status_writer.observe(resource, event)
        self._wake.set()

    async def _run_cycles(self) -> None:
        await self.synced.wait()
        scheduler = self.scheduler
        while True:
            self._wake.clear()
            free_slots = self._max_in_flight - self._dispatcher.in_flight
            time_slice = _TimeSlice()
            effects = scheduler.step(time_slice.started_s, min(free_slots, _PODS_PER_TURN), time_slice.is_spent)
            self._dispatcher.perform(effects)
            if effects or time_slice.was_spent:
                await asyncio.sleep(0)
                continue
            deadline_s = scheduler.next_deadline_s()
            wait_s = _MAX_SLEEP_S if deadline_s is None else deadline_s - time.monotonic()
            if free_slots > 0:
                await self._sleep(min(wait_s, _MAX_SLEEP_S))
            else:
                await self._sleep(_MAX_SLEEP_S)

    async def _sleep(self, wait_s: float) -> None:
        if wait_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            pass


class _TimeSlice:
    """The time limit of one scheduler step, because one pod may take long."""

    def __init__(self) -> None:
        self.started_s = time.monotonic()
        self.was_spent = False

    def is_spent(self) -> bool:
        self.was_spent = time.monotonic() - self.started_s > SLICE_S
        return self.was_spent


def _warn(problem: str) -> None:
    _log.warning("%s", problem)
