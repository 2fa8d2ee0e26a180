"""Runs a scheduler on an API server: one watch per resource, one loop of scheduling cycles, and the API dispatcher.

The loop starts when every watch has delivered its list: before that, the pods of a node may not be known. Pods are
listed last, because PreEnqueue plugins run when a pod is added and need the other objects that they watch. The loop
does not wait for a kind that plugins watch and that the API server does not serve. If the kind is served later, plugins
receive its objects after the whole list has arrived. The loop runs for one time slice, lets the event loop process
watch events and responses, and sleeps until the next event or deadline if there is nothing to do.
"""

from __future__ import annotations

import asyncio
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
from headgate.runtime.scheduler.run_loop import LIVE_PODS, MAX_SLEEP_S, LateKinds, WakeUp, run_with_restarts, warn
from headgate.runtime.scheduler.status_writer import QueueStatusWriter
from headgate.scheduling.gates.autoscaler_signs import NODE_CLAIMS, LeaseWatch
from headgate.scheduling.scheduler import Scheduler

MAX_BINDINGS_IN_FLIGHT: Final = 32
"""As many as there are connections (``client/io/http_transport.py``); more would only wait for a connection."""

_PODS_PER_TURN: Final = 16
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
    """Runs until it is cancelled. ``write_queue_status``: whether it also writes the status of queues and PodGroups.
    ``create_pod_groups``: whether it also creates PodGroups for pods that need one."""
    health = health or HealthRegistry()
    await run_with_restarts(
        "scheduler",
        lambda writer: SchedulerRunner(
            make, transport, writer, write_queue_status=write_queue_status, create_pod_groups=create_pod_groups
        ),
        transport,
        write_budget_s,
        health,
        health.set_scheduler,
    )


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
        self.scheduler = make(warn)
        self.synced = asyncio.Event()
        self._transport = transport
        self._max_in_flight = max_in_flight
        self._wake = WakeUp()
        self._dispatcher = APIDispatcher(self.scheduler, writer, self._wake.set, instance)
        self._unsynced: set[APIResource] = set()
        self._list_pods = asyncio.Event()
        self._late_kinds = LateKinds()
        self._status_writer: QueueStatusWriter | None = None
        names, queues = self.scheduler.queue_profiles, self.scheduler.queues
        if names and write_queue_status:
            wait_until_idle = self._dispatcher.wait_until_idle
            self._status_writer = QueueStatusWriter(
                queues, names, transport, writer, before_write=wait_until_idle, create_pod_groups=create_pod_groups
            )

    def unsynced(self) -> list[str]:
        """The resources whose first list has not been delivered yet."""
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
            for watch in scheduler.leases.watches:
                group.create_task(self._watch_for_leases(watch))
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
            lambda event: self._receive(resource, event),
            jitter=random.random,
            sleep=asyncio.sleep,
            query=LIVE_PODS if resource == PODS else None,
            fields=fields,
            may_be_absent=is_plugin_kind or resource in _MAY_BE_ABSENT,
            absent=lambda problem: self._handle_absent(resource, problem),
            report=(lambda problem: self._report_list_problem(resource, problem)) if is_plugin_kind else warn,
        ).run()

    async def _watch_for_leases(self, watch: LeaseWatch) -> None:
        """Pods are scheduled before these objects are listed, because a lease begins when the stamp is shown."""
        await Informer(
            self._transport,
            watch.resource.collection_path(),
            lambda event: self._observe_for_leases(watch, event),
            jitter=random.random,
            sleep=asyncio.sleep,
            query={"fieldSelector": watch.field_selector} if watch.field_selector else None,
            fields=watch.fields,
            may_be_absent=watch.resource == NODE_CLAIMS,
            report=lambda problem: warn(f"{problem}; leases of promises are not renewed by these objects"),
        ).run()

    def _observe_for_leases(self, watch: LeaseWatch, event: InformerEvent) -> None:
        match event:
            case ObjectApplied(wire):
                self.scheduler.leases.object_applied(watch.resource, wire, time.monotonic())
            case ObjectDeleted(name=name):
                self.scheduler.leases.object_removed(watch.resource, name)
        self._wake.set()

    def _handle_absent(self, resource: APIResource, problem: str) -> None:
        self._late_kinds.add(resource)
        if resource not in _MAY_BE_ABSENT:
            watchers = ", ".join(self.scheduler.cluster.watchers(resource))
            warn(f"{problem}; {watchers} watches this kind; pods are scheduled without it until it is served")

    def _report_list_problem(self, resource: APIResource, problem: str) -> None:
        if resource in self._unsynced:
            watchers = ", ".join(self.scheduler.cluster.watchers(resource))
            problem = f"{problem}; {watchers} watches it, so no pod is scheduled before it can be listed and watched"
        warn(problem)

    def _receive(self, resource: APIResource, event: InformerEvent) -> None:
        for each in self._late_kinds.ready(resource, event):
            self._observe(resource, each)

    def _observe(self, resource: APIResource, event: InformerEvent) -> None:
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
            waits_for_slot = free_slots <= 0
            wait_s = MAX_SLEEP_S if deadline_s is None or waits_for_slot else deadline_s - time.monotonic()
            await self._wake.wait(wait_s)


class _TimeSlice:
    """The time limit of one call of ``Scheduler.step``, which may otherwise block the event loop for long."""

    def __init__(self) -> None:
        self.started_s = time.monotonic()
        self.was_spent = False

    def is_spent(self) -> bool:
        self.was_spent = time.monotonic() - self.started_s > SLICE_S
        return self.was_spent
