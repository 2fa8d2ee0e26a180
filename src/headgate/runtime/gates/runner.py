"""Runs a gate controller on an API server: one watch per resource, one loop of admission steps, and the writes to pods.

The loop starts when every watch has delivered its list: before that, the usage of a queue may not be known. It waits
neither for Queues nor for PodGroups if the API server does not serve them; if they are served later, the controller
receives their objects after the whole list has arrived. ``scheduling/gates/gate_controller.py`` decides;
``runtime/scheduler/pod_writes.py`` and ``runtime/scheduler/status_writer.py`` write.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.writer import Writer, no_fence
from headgate.http.transport import Transport
from headgate.kube.api_resources import PODS, APIResource
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.scheduler.pod_writes import PodWrites
from headgate.runtime.scheduler.run_loop import LIVE_PODS, MAX_SLEEP_S, LateKinds, WakeUp, run_with_restarts, warn
from headgate.runtime.scheduler.status_writer import QueueStatusWriter
from headgate.scheduling.framework.effects import RemoveSchedulingGate, SetStatus
from headgate.scheduling.gates.gate_controller import GateController

_POD_FIELDS: Final = (
    "metadata.annotations",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "metadata.ownerReferences",
    "spec",
    "status.phase",
    "status.startTime",
    "status.conditions",
    "status.containerStatuses",
    "status.initContainerStatuses",
)
_MAY_BE_ABSENT: Final = (QUEUES, POD_GROUPS)


GateControllerFactory = Callable[[Callable[[str], None]], GateController]
"""Returns a new controller; the argument is called with warnings."""


async def run_gates(
    make: GateControllerFactory,
    transport: Transport,
    *,
    write_budget_s: Callable[[], float] = no_fence,
    health: HealthRegistry | None = None,
    write_queue_status: bool = True,
) -> None:
    """Runs until it is cancelled. ``write_queue_status``: whether it also writes the status of queues and PodGroups."""
    health = health or HealthRegistry()
    await run_with_restarts(
        "gates",
        lambda writer: GateRunner(make, transport, writer, write_queue_status=write_queue_status),
        transport,
        write_budget_s,
        health,
        health.set_gate_controller,
    )


class GatedPodWrites(PodWrites):
    """A condition is written only to the version of the pod that the controller has seen, and none after the removal of
    the gate has begun: from then on the condition belongs to the scheduler of the pod."""

    def __init__(self, controller: GateController, writer: Writer, on_result: Callable[[], None]) -> None:
        super().__init__(controller, writer, on_result)
        self._controller = controller

    def _start_gate_removal(self, removal: RemoveSchedulingGate) -> None:
        self._statuses.pop(removal.pod.uid, None)
        self._deferred_statuses.pop(removal.pod.uid, None)
        super()._start_gate_removal(removal)

    def _status_body(self, status: SetStatus) -> dict[str, Any]:
        return {**super()._status_body(status), "metadata": {"resourceVersion": status.pod.revision}}

    def _status_conflicted(self, uid: str) -> None:
        self._controller.condition_conflicted(uid, time.monotonic())
        self._on_result()


class GateRunner:
    def __init__(
        self, make: GateControllerFactory, transport: Transport, writer: Writer, *, write_queue_status: bool = True
    ) -> None:
        self.controller = make(warn)
        self.synced = asyncio.Event()
        self._transport = transport
        self._wake = WakeUp()
        self._writes = GatedPodWrites(self.controller, writer, self._wake.set)
        self._unsynced: set[APIResource] = {PODS, *self.controller.watched}
        self._late_kinds = LateKinds()
        self._status_writer: QueueStatusWriter | None = None
        if write_queue_status:
            self._status_writer = QueueStatusWriter(
                self.controller.queues, self.controller.scheduler_names, transport, writer
            )

    def unsynced(self) -> list[str]:
        """The resources whose first list has not been delivered yet."""
        return sorted(each.plural for each in self._unsynced)

    def metrics_exposition(self) -> bytes:
        return self.controller.metrics_exposition()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        watched: dict[APIResource, Iterable[str]] = {**self.controller.watched, PODS: _POD_FIELDS}
        async with asyncio.TaskGroup() as group:
            for resource, fields in watched.items():
                group.create_task(self._watch(resource, fields))
            group.create_task(self._writes.run())
            if self._status_writer is not None:
                group.create_task(self._status_writer.run())
            group.create_task(self._run_steps())

    async def _watch(self, resource: APIResource, fields: Iterable[str]) -> None:
        is_plugin_kind = resource not in (PODS, *self.controller.event_handlers.needed)
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

    def _handle_absent(self, resource: APIResource, problem: str) -> None:
        self._late_kinds.add(resource)
        if resource not in _MAY_BE_ABSENT:
            watchers = ", ".join(self.controller.event_handlers.watchers(resource))
            warn(f"{problem}; {watchers} watches this kind; pods are ungated without it until it is served")

    def _report_list_problem(self, resource: APIResource, problem: str) -> None:
        if resource in self._unsynced:
            watchers = ", ".join(self.controller.event_handlers.watchers(resource))
            problem = f"{problem}; {watchers} watches it, so no gate is removed before it can be listed and watched"
        warn(problem)

    def _receive(self, resource: APIResource, event: InformerEvent) -> None:
        for each in self._late_kinds.ready(resource, event):
            self._observe(resource, each)

    def _observe(self, resource: APIResource, event: InformerEvent) -> None:
        now_s, controller = time.monotonic(), self.controller
        match event:
            case ObjectApplied(wire) if resource == PODS:
                controller.pod_applied(wire, now_s)
            case ObjectDeleted(uid=uid) if resource == PODS:
                controller.pod_removed(uid, now_s)
            case ObjectApplied(wire):
                controller.object_applied(resource, wire)
            case ObjectDeleted(namespace, name):
                controller.object_removed(resource, namespace, name)
            case ListSynced():
                self._unsynced.discard(resource)
                if not self._unsynced:
                    self.synced.set()
        if self._status_writer is not None:
            self._status_writer.observe(resource, event)
        self._wake.set()

    async def _run_steps(self) -> None:
        await self.synced.wait()
        while True:
            self._wake.clear()
            effects = self.controller.step(time.monotonic())
            self._writes.perform(effects)
            deadline_s = self.controller.next_deadline_s()
            wait_s = MAX_SLEEP_S if deadline_s is None else deadline_s - time.monotonic()
            await self._wake.wait(0.0 if effects else wait_s)
