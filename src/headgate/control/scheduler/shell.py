"""Runs a scheduler on an API server: one watch per resource, one loop that tries pods, hands that write.

The loop begins when every watch has told all there is: before that, a node that looks empty may be full. Pods are
listed last: PreEnqueue plugins are asked about a pod when it is first seen, and must know by then what they watch. A
kind that plugins watch and that is not served is not waited for; when it is served later, plugins are told of its
objects when all of them are listed, all at once. The loop works in short turns, so that watches and answers are heard
between them, and sleeps until something happens or time is up.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.informer import Applied, Event, Informer, Removed, Synced
from headgate.client.time_slice import SLICE_S
from headgate.client.transport import Transport
from headgate.client.writer import Writer, unfenced
from headgate.control.board import Board
from headgate.control.reporting.shell import Reporter
from headgate.control.scheduler.hands import Hands
from headgate.kube.resource import NODES, PODS, Resource
from headgate.scheduling.scheduler import Scheduler

AT_ONCE: Final = 32
"""Bindings under way: as many as there are connections (``client/http/``), more would only wait in line."""

_TURN: Final = 16
_LONGEST_SLEEP_S: Final = 60.0
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
"""Without these kinds every pod is in the default queue, which takes all."""
_LIVE_PODS: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}

_log: Final = logging.getLogger(__name__)


Make = Callable[[Callable[[str], None]], Scheduler]
"""Gives a scheduler that knows nothing yet; it is told where to complain."""


async def keep_scheduling(
    make: Make,
    transport: Transport,
    *,
    room_s: Callable[[], float] = unfenced,
    board: Board | None = None,
    reports: bool = True,
    makes_groups: bool = False,
) -> None:
    """Until it is cancelled. A scheduler that fails as a whole is followed by one that starts from the API alone.
    ``reports``: whether the status of queues and PodGroups is written, too. ``makes_groups``: for pods without one."""
    board = board or Board()
    while True:
        writer = Writer(transport, room_s=room_s, jitter=random.random, sleep=asyncio.sleep)
        try:
            shell = SchedulerShell(make, transport, writer, reports=reports, makes_groups=makes_groups)
            board.hang_up(shell)
            await shell.run()
        except Exception as broken:
            _log.exception("the scheduler failed, and starts again")
            board.restarts.failed("scheduler", broken)
        finally:
            board.hang_up(None)
        await asyncio.sleep(_RESTART_S)


class SchedulerShell:
    def __init__(
        self,
        make: Make,
        transport: Transport,
        writer: Writer,
        *,
        instance: str = "",
        at_once: int = AT_ONCE,
        reports: bool = True,
        makes_groups: bool = False,
    ) -> None:
        self.scheduler = make(_complain)
        self.synced = asyncio.Event()
        self._transport = transport
        self._at_once = at_once
        self._woken = asyncio.Event()
        self._hands = Hands(self.scheduler, writer, self._woken.set, instance)
        self._unsynced: set[Resource] = set()
        self._pods_may_come = asyncio.Event()
        self._late: dict[Resource, list[Event]] = {}  # kinds that are not served, and what was heard of them since
        self._reporter: Reporter | None = None
        names, queues = self.scheduler.names_by_queues, self.scheduler.queues
        if names and reports:
            turn = self._hands.rest
            self._reporter = Reporter(queues, names, transport, writer, turn=turn, makes_groups=makes_groups)

    def unsynced(self) -> list[str]:
        """The resources that were not heard of in full yet."""
        return sorted(each.plural for each in self._unsynced)

    async def run(self) -> None:
        """Until it is cancelled."""
        scheduler = self.scheduler
        pod_fields = (*_POD_FIELDS, *(("metadata.annotations",) if scheduler.annotations else ()))
        watched: dict[Resource, Iterable[str]] = {
            **scheduler.cluster.watched(),
            NODES: _NODE_FIELDS,
            PODS: pod_fields,
        }
        self._unsynced = set(watched)
        async with asyncio.TaskGroup() as group:
            for resource, fields in watched.items():
                group.create_task(self._watch(resource, fields))
            group.create_task(self._hands.run())
            if self._reporter is not None:
                group.create_task(self._reporter.run())
            group.create_task(self._work())

    async def _watch(self, resource: Resource, fields: Iterable[str]) -> None:
        if resource == PODS:
            await self._pods_may_come.wait()
        is_chosen = resource not in (NODES, PODS, *self.scheduler.cluster.needed)
        await Informer(
            self._transport,
            resource.collection(),
            lambda event: self._heard(resource, event),
            jitter=random.random,
            sleep=asyncio.sleep,
            query=_LIVE_PODS if resource == PODS else None,
            fields=fields,
            may_be_absent=is_chosen or resource in _MAY_BE_ABSENT,
            absent=lambda problem: self._absent(resource, problem),
            report=(lambda problem: self._not_listed(resource, problem)) if is_chosen else _complain,
        ).run()

    def _absent(self, resource: Resource, problem: str) -> None:
        self._late[resource] = []
        if resource not in _MAY_BE_ABSENT:
            watchers = ", ".join(self.scheduler.cluster.watchers(resource))
            _complain(f"{problem}; {watchers} watches a kind that is not served: pods are tried without it until it is")

    def _not_listed(self, resource: Resource, problem: str) -> None:
        if resource in self._unsynced:
            watchers = ", ".join(self.scheduler.cluster.watchers(resource))
            problem = f"{problem}; no pod is tried before it can be listed and watched, since {watchers} watches it"
        _complain(problem)

    def _heard(self, resource: Resource, event: Event) -> None:
        if resource in self._late:
            self._late[resource].append(event)
            if isinstance(event, Synced):
                for each in self._late.pop(resource):
                    self._heard(resource, each)
            return
        now_s = time.monotonic()
        scheduler = self.scheduler
        match event:
            case Applied(wire) if resource == PODS:
                scheduler.pod_applied(wire, now_s)
            case Removed(uid=uid) if resource == PODS:
                scheduler.pod_removed(uid, now_s)
            case Applied(wire) if resource == NODES:
                scheduler.node_applied(wire, now_s)
            case Removed(name=name) if resource == NODES:
                scheduler.node_removed(name, now_s)
            case Applied(wire):
                scheduler.object_applied(resource, wire, now_s)
            case Removed(namespace, name):
                scheduler.object_removed(resource, namespace, name, now_s)
            case Synced():
                self._unsynced.discard(resource)
                if self._unsynced <= {PODS}:
                    self._pods_may_come.set()
                if not self._unsynced:
                    self.synced.set()
        if self._reporter is not None:
            self._reporter.heard(resource, event)
        self._woken.set()

    async def _work(self) -> None:
        await self.synced.wait()
        scheduler = self.scheduler
        while True:
            self._woken.clear()
            room = self._at_once - self._hands.under_way
            time_slice = _TimeSlice()
            effects = scheduler.step(time_slice.began_s, min(room, _TURN), time_slice.is_spent)
            self._hands.perform(effects)
            if effects or time_slice.was_spent:
                await asyncio.sleep(0)
                continue
            deadline_s = scheduler.next_deadline_s()
            wait_s = _LONGEST_SLEEP_S if deadline_s is None else deadline_s - time.monotonic()
            if room > 0:
                await self._sleep(min(wait_s, _LONGEST_SLEEP_S))
            else:
                await self._sleep(_LONGEST_SLEEP_S)

    async def _sleep(self, wait_s: float) -> None:
        if wait_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            pass


class _TimeSlice:
    """One step of the scheduler: pods may take long each."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.was_spent = False

    def is_spent(self) -> bool:
        self.was_spent = time.monotonic() - self.began_s > SLICE_S
        return self.was_spent


def _complain(problem: str) -> None:
    _log.warning("%s", problem)
