"""Performs what the scheduler decided: gate removals and bindings at once and in parallel, then conditions and Events.

A condition never overtakes a binding: conditions that wait for a pod are dropped when it is bound, and a write in
flight is awaited first, so a bound pod is never reported as unschedulable. Preemption victims get their condition and
then the deletion, each by the pod's uid and a few at a time; a victim that is gone or was replaced is no failure. One
table maps the outcome of a write to the scheduler's result. ``runner.py`` sends the effects here and returns the
results to the scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from headgate.capacity.names import GATE, STAMP
from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome, WriteStatus
from headgate.kube import conditions
from headgate.kube.api_resources import PODS
from headgate.kube.backoff import ExponentialBackoff
from headgate.kube.conditions import PRE_ENQUEUE_REJECTED, WAITING_ON_PERMIT, WAITING_ON_PRE_BIND
from headgate.kube.timestamps import format_time
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    EmitPodEvent,
    ObjectPatch,
    PreBindWrites,
    Preempt,
    RemoveSchedulingGate,
    RemoveStamp,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.framework.plugin_timers import BIND, ERROR, SUCCESS
from headgate.scheduling.scheduler import Scheduler

_RESULTS: Final = {
    WriteOutcome.DONE: WriteResult.DONE,
    WriteOutcome.GONE: WriteResult.GONE,
    WriteOutcome.REPLACED: WriteResult.GONE,
    WriteOutcome.CONFLICT: WriteResult.TAKEN,
    WriteOutcome.REFUSED: WriteResult.REFUSED,
    WriteOutcome.BLOCKED: WriteResult.LATER,
    WriteOutcome.LATER: WriteResult.LATER,
    WriteOutcome.UNKNOWN: WriteResult.UNKNOWN,
    WriteOutcome.FENCED: WriteResult.LATER,
}
_STILL_GATED: Final = "non-empty .spec.schedulingGates"


def result_of(verdict: WriteStatus) -> WriteResult:
    if verdict.outcome is WriteOutcome.CONFLICT and _STILL_GATED in verdict.message:
        return WriteResult.GATED
    return _RESULTS[verdict.outcome]


_EVICTIONS_AT_ONCE: Final = 8
_GONE: Final = (WriteOutcome.GONE, WriteOutcome.REPLACED)


async def evict_victims(writer: Writer, wanted: Preempt) -> tuple[list[str], bool]:
    """The uids of victims that were there still and were told to go; and whether that is all that had to be done."""
    turn = asyncio.Semaphore(_EVICTIONS_AT_ONCE)
    verdicts = await asyncio.gather(*(_evict(writer, wanted.pod, victim, turn) for victim in wanted.victims))
    told = [victim.uid for victim, verdict in zip(wanted.victims, verdicts, strict=True) if verdict.done]
    return told, all(verdict.done or verdict.outcome in _GONE for verdict in verdicts)


async def _evict(writer: Writer, preemptor: PodInfo, victim: PodInfo, turn: asyncio.Semaphore) -> WriteStatus:
    async with turn:
        body = {"status": {"conditions": [_condition(preemptor, victim)]}}
        place = (PODS, victim.namespace, victim.name, victim.uid)
        verdict = await writer.patch(*place, body, "strategic", "status")
        return await writer.delete(*place) if verdict.done else verdict


def _condition(preemptor: PodInfo, victim: PodInfo) -> dict[str, Any]:
    condition = {
        "type": conditions.DISRUPTION_TARGET,
        "status": "True",
        "reason": conditions.PREEMPTION_BY_SCHEDULER,
        "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
        "observedGeneration": victim.generation,
    }
    if not victim.disruption:
        condition["lastTransitionTime"] = format_time(time.time())
    return condition


_log: Final = logging.getLogger(__name__)
_STATUS_WORKERS: Final = 4
_EVENTS_KEPT: Final = 16_384
_STATUS_RETRY_S: Final = 1.0
_RETRYABLE: Final = (WriteOutcome.LATER, WriteOutcome.UNKNOWN)
_UNSTAMPING_ATTEMPTS: Final = 6
_UNSTAMPING_BACKOFF: Final = ExponentialBackoff(1.0, 30.0)
_IDLE_WAIT_S: Final = 0.25
"""How long an Event waits for a moment without bindings: on a cluster that never rests it still gets its turn."""


class APIDispatcher:
    """``woken`` is called whenever the scheduler got a result, and when the number of bindings in flight has fallen."""

    def __init__(self, scheduler: Scheduler, writer: Writer, woken: Callable[[], None], instance: str = "") -> None:
        self._scheduler = scheduler
        self._writer = writer
        self._on_result = woken
        self._binding: dict[str, asyncio.Task[None]] = {}
        self._statuses: dict[str, SetStatus] = {}
        self._deferred_statuses: dict[str, SetStatus] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._events = EventRecorder(
            writer, max_events=_EVENTS_KEPT, before_write=self.wait_until_idle, instance=instance
        )
        self._perform: Final[dict[type[Effect], Callable[[Any], None]]] = {
            Bind: self._start_binding,
            RemoveSchedulingGate: self._start_lifting,
            RemoveStamp: self._start_unstamping,
            PreBindWrites: self._start_preparing,
            ObjectPatch: self._start_writing,
            SetStatus: self._queue_status,
            Preempt: self._start_preempting,
            EmitPodEvent: self._emit_event,
        }

    @property
    def in_flight(self) -> int:
        """Bindings, and what has to be written before them."""
        return len(self._binding)

    def perform(self, effects: Iterable[Effect]) -> None:
        for each in effects:
            self._perform[type(each)](each)

    async def run(self) -> None:
        """Writes conditions and Events until it is cancelled; what is under way is then given up."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._fail_with_the_others())
                group.create_task(self._events.run())
                for _ in range(_STATUS_WORKERS):
                    group.create_task(self._write_statuses())
        finally:
            under_way = (*self._binding.values(), *self._writing.values())
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _fail_with_the_others(self) -> None:
        """A defect in a task of its own must not leave a pod on its way for ever: all stop, and start anew."""
        raise await self._broken

    # Bindings

    def _start_binding(self, bind: Bind) -> None:
        self._start(bind.pod, self._bind(bind))

    def _start_preparing(self, prepare: PreBindWrites) -> None:
        self._start(prepare.pod, self._prepare(prepare))

    def _start(self, pod: PodInfo, steps: Coroutine[Any, Any, None]) -> None:
        self._statuses.pop(pod.uid, None)
        self._deferred_statuses.pop(pod.uid, None)
        task = asyncio.create_task(steps)
        self._binding[pod.uid] = task
        self._idle.clear()
        task.add_done_callback(lambda done: self._ended(pod.uid, done))

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._binding.get(uid) is task:
            del self._binding[uid]
        if not self._binding:
            self._idle.set()
        self._check_failure(task)
        self._on_result()  # only now is there room for another one

    def _check_failure(self, task: asyncio.Task[None]) -> None:
        broken = None if task.cancelled() else task.exception()
        if broken is not None and not self._broken.done():
            self._broken.set_result(broken)

    async def _bind(self, bind: Bind) -> None:
        pod = bind.pod
        await self._await_pending_write(pod.uid)
        began_s = time.monotonic()
        if bind.instead is None:
            verdict = await self._writer.bind(pod.namespace, pod.name, pod.uid, bind.node_name)
        else:
            verdict = await self._patch(bind.instead)
        now_s = time.monotonic()
        status = SUCCESS if verdict.done else ERROR
        self._scheduler.metrics.point_took(BIND, status, pod.scheduler_name, now_s - began_s)
        self.perform(self._scheduler.bound(pod.uid, result_of(verdict), verdict.message, now_s))

    async def _prepare(self, prepare: PreBindWrites) -> None:
        problem = ""
        for write in prepare.writes:
            verdict = await self._patch(write)
            if not verdict.done:
                problem = f"{write.resource.plural} {write.name}: {verdict.message}"
                break
        self.perform(self._scheduler.prepared(prepare.pod.uid, problem, time.monotonic()))

    async def _await_pending_write(self, uid: str) -> None:
        writing = self._writing.get(uid)
        if writing is not None:
            await asyncio.wait([writing])

    # Gates

    def _start_lifting(self, lift: RemoveSchedulingGate) -> None:
        self._start_write(f"lift/{lift.pod.uid}", self._lift(lift))

    async def _lift(self, lift: RemoveSchedulingGate) -> None:
        pod = lift.pod
        verdict = await self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, _lifted(lift), "strategic")
        self.perform(self._scheduler.gate_removed(pod.uid, result_of(verdict), verdict.message, time.monotonic()))
        self._on_result()

    def _start_unstamping(self, removal: RemoveStamp) -> None:
        self._start_write(f"unstamp/{removal.pod.uid}", self._unstamp(removal))

    async def _unstamp(self, removal: RemoveStamp) -> None:
        """A stamp that outlives its promise counts again for whoever starts anew: so it is not given up soon."""
        pod = removal.pod
        path = f"/metadata/annotations/{STAMP.replace('/', '~1')}"
        steps = [{"op": "test", "path": path, "value": removal.stamp}, {"op": "remove", "path": path}]
        for failures in range(1, _UNSTAMPING_ATTEMPTS + 1):
            verdict = await self._writer.json_patch(PODS, pod.namespace, pod.name, pod.uid, steps)
            if verdict.outcome not in _RETRYABLE:
                break
            await asyncio.sleep(_UNSTAMPING_BACKOFF.delay_s(failures))
        self.perform(self._scheduler.stamp_removed(pod.uid, removal.stamp, result_of(verdict), time.monotonic()))
        self._on_result()

    # Everything else

    def _start_writing(self, write: ObjectPatch) -> None:
        self._start_write(f"{write.resource.plural}/{write.uid}", self._write(write))

    def _start_preempting(self, wanted: Preempt) -> None:
        self._start_write(f"preempt/{wanted.pod.uid}", self._preempt(wanted))

    def _start_write(self, key: str, steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._writing[key] = asyncio.create_task(steps)
        task.add_done_callback(lambda done: self._write_ended(key, done))
        return task

    def _write_ended(self, key: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]
        self._check_failure(task)

    async def _preempt(self, wanted: Preempt) -> None:
        told, ok = await evict_victims(self._writer, wanted)
        self.perform(self._scheduler.preempted(wanted, told, time.monotonic(), ok=ok))
        self._on_result()

    async def _write(self, write: ObjectPatch) -> None:
        await self._patch(write)

    async def _patch(self, write: ObjectPatch) -> WriteStatus:
        return await self._writer.patch(
            write.resource, write.namespace, write.name, write.uid, dict(write.body), write.how, write.subresource
        )

    def _queue_status(self, status: SetStatus) -> None:
        """The latest counts; a promise that was not written yet stays with it."""
        before = self._statuses.pop(status.pod.uid, None) or self._deferred_statuses.pop(status.pod.uid, None)
        if before is not None:
            promise = before.nominated_node if status.nominated_node is None else status.nominated_node
            status = SetStatus(status.pod, status.condition or before.condition, promise)
        self._statuses[status.pod.uid] = status
        self._more.set()

    async def _write_statuses(self) -> None:
        while True:
            if not self._statuses:
                self._more.clear()
                await self._more.wait()
                continue
            status = self._statuses.pop(next(iter(self._statuses)))
            await asyncio.wait([self._start_write(status.pod.uid, self._write_status(status))])
            if status.pod.uid in self._deferred_statuses:
                await asyncio.sleep(_STATUS_RETRY_S)
                self._requeue_status(status.pod.uid)

    def _requeue_status(self, uid: str) -> None:
        """Unless there is something newer by now, or the pod has a node."""
        status = self._deferred_statuses.pop(uid, None)
        if status is not None:
            self._queue_status(status)

    async def _write_status(self, status: SetStatus) -> None:
        pod = status.pod
        body: dict[str, Any] = {}
        if status.condition is not None:
            condition = dict(status.condition)
            if pod.scheduled is None or pod.scheduled.status != condition["status"]:
                condition["lastTransitionTime"] = format_time(time.time())
            body["conditions"] = [condition]
        if status.nominated_node is not None:
            body["nominatedNodeName"] = status.nominated_node or None
        place = (PODS, pod.namespace, pod.name, pod.uid)
        verdict = await self._writer.patch(*place, {"status": body}, "strategic", "status")
        if verdict.outcome in _RETRYABLE and pod.uid not in self._binding:
            newer = self._statuses.pop(pod.uid, None)
            self._deferred_statuses[pod.uid] = status
            if newer is not None:
                self._queue_status(newer)

    def _emit_event(self, say: EmitPodEvent) -> None:
        pod, behind = say.pod, say.related or say.pod
        name = f"{pod.name[:200]}.{say.reason.lower()}.{pod.uid}"[:253] if say.once else ""
        related = None if say.related is None else _reference(say.related)
        said = EventToEmit(
            _reference(pod), say.reason, say.message, say.type, behind.scheduler_name, say.action, name, related
        )
        if say.reason in (PRE_ENQUEUE_REJECTED, WAITING_ON_PERMIT, WAITING_ON_PRE_BIND):
            _log.info("pod %s/%s is held: %s", pod.namespace, pod.name, say.message)
        self._events.emit(said)

    async def wait_until_idle(self) -> None:
        """Waits for a moment without bindings, but not for ever."""
        if not self._idle.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_WAIT_S):
                    await self._idle.wait()


def _lifted(lift: RemoveSchedulingGate) -> dict[str, Any]:
    """Gates are told apart by name, so all others stay, in their order; one that is gone already is no matter."""
    body: dict[str, Any] = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    if lift.stamp:
        body["metadata"] = {"annotations": {STAMP: lift.stamp}}
    return body


def _reference(pod: PodInfo) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.revision,
    }
