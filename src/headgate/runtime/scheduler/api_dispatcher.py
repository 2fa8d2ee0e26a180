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

from headgate.client.io.event_recorder import EventRecorder
from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome, WriteStatus
from headgate.kube.api_resources import PODS
from headgate.kube.backoff import ExponentialBackoff
from headgate.kube.conditions import PRE_ENQUEUE_REJECTED, WAITING_ON_PERMIT, WAITING_ON_PRE_BIND
from headgate.runtime.scheduler import effect_patches
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


def result_of(result: WriteStatus) -> WriteResult:
    if result.outcome is WriteOutcome.CONFLICT and _STILL_GATED in result.message:
        return WriteResult.GATED
    return _RESULTS[result.outcome]


_MAX_EVICTIONS: Final = 8
_GONE: Final = (WriteOutcome.GONE, WriteOutcome.REPLACED)


async def evict_victims(writer: Writer, effect: Preempt) -> tuple[list[str], bool]:
    """Returns the uids of the victims that were evicted, and whether no victim is left to evict."""
    limit = asyncio.Semaphore(_MAX_EVICTIONS)
    results = await asyncio.gather(*(_evict(writer, effect.pod, victim, limit) for victim in effect.victims))
    evicted = [victim.uid for victim, result in zip(effect.victims, results, strict=True) if result.done]
    return evicted, all(result.done or result.outcome in _GONE for result in results)


async def _evict(writer: Writer, preemptor: PodInfo, victim: PodInfo, limit: asyncio.Semaphore) -> WriteStatus:
    async with limit:
        target = (PODS, victim.namespace, victim.name, victim.uid)
        body = effect_patches.disruption_patch(preemptor, victim, time.time())
        result = await writer.patch(*target, body, "strategic", "status")
        return await writer.delete(*target) if result.done else result


_log: Final = logging.getLogger(__name__)
_STATUS_WORKERS: Final = 4
_MAX_PENDING_EVENTS: Final = 16_384
_STATUS_RETRY_S: Final = 1.0
_RETRYABLE: Final = (WriteOutcome.LATER, WriteOutcome.UNKNOWN)
_REMOVE_STAMP_ATTEMPTS: Final = 6
_REMOVE_STAMP_BACKOFF: Final = ExponentialBackoff(1.0, 30.0)
_IDLE_WAIT_S: Final = 0.25
"""How long an Event waits for a moment without bindings; after that it is written anyway."""


class APIDispatcher:
    """``on_result`` is called after the scheduler got a result, and when fewer bindings are in flight."""

    def __init__(self, scheduler: Scheduler, writer: Writer, on_result: Callable[[], None], instance: str = "") -> None:
        self._scheduler = scheduler
        self._writer = writer
        self._on_result = on_result
        self._binding: dict[str, asyncio.Task[None]] = {}
        self._statuses: dict[str, SetStatus] = {}
        self._deferred_statuses: dict[str, SetStatus] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._statuses_added = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._events = EventRecorder(
            writer, max_events=_MAX_PENDING_EVENTS, before_write=self.wait_until_idle, instance=instance
        )
        self._perform: Final[dict[type[Effect], Callable[[Any], None]]] = {
            Bind: self._start_binding,
            RemoveSchedulingGate: self._start_gate_removal,
            RemoveStamp: self._start_stamp_removal,
            PreBindWrites: self._start_pre_bind,
            ObjectPatch: self._start_patch,
            SetStatus: self._queue_status,
            Preempt: self._start_preemption,
            EmitPodEvent: self._emit_event,
        }

    @property
    def in_flight(self) -> int:
        """The number of bindings in flight, including their PreBind writes."""
        return len(self._binding)

    def perform(self, effects: Iterable[Effect]) -> None:
        for each in effects:
            self._perform[type(each)](each)

    async def run(self) -> None:
        """Writes conditions and Events until it is cancelled; then cancels the writes in flight."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._raise_failure())
                group.create_task(self._events.run())
                for _ in range(_STATUS_WORKERS):
                    group.create_task(self._write_statuses())
        finally:
            tasks = (*self._binding.values(), *self._writing.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _raise_failure(self) -> None:
        """A task that failed would leave its pod in flight for ever, so the whole scheduler fails and restarts."""
        raise await self._failure

    # Bindings

    def _start_binding(self, bind: Bind) -> None:
        self._start(bind.pod, self._bind(bind))

    def _start_pre_bind(self, pre_bind: PreBindWrites) -> None:
        self._start(pre_bind.pod, self._pre_bind(pre_bind))

    def _start(self, pod: PodInfo, coroutine: Coroutine[Any, Any, None]) -> None:
        self._statuses.pop(pod.uid, None)
        self._deferred_statuses.pop(pod.uid, None)
        task = asyncio.create_task(coroutine)
        self._binding[pod.uid] = task
        self._idle.clear()
        task.add_done_callback(lambda done: self._binding_ended(pod.uid, done))

    def _binding_ended(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._binding.get(uid) is task:
            del self._binding[uid]
        if not self._binding:
            self._idle.set()
        self._check_failure(task)
        self._on_result()  # after the removal above, another binding may start

    def _check_failure(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failure.done():
            self._failure.set_result(error)

    async def _bind(self, bind: Bind) -> None:
        pod = bind.pod
        await self._await_pending_write(pod.uid)
        started_s = time.monotonic()
        if bind.instead is None:
            result = await self._writer.bind(pod.namespace, pod.name, pod.uid, bind.node_name)
        else:
            result = await self._patch(bind.instead)
        now_s = time.monotonic()
        status = SUCCESS if result.done else ERROR
        self._scheduler.metrics.point_took(BIND, status, pod.scheduler_name, now_s - started_s)
        self.perform(self._scheduler.bound(pod.uid, result_of(result), result.message, now_s))

    async def _pre_bind(self, pre_bind: PreBindWrites) -> None:
        problem = ""
        for write in pre_bind.writes:
            result = await self._patch(write)
            if not result.done:
                problem = f"{write.resource.plural} {write.name}: {result.message}"
                break
        self.perform(self._scheduler.prepared(pre_bind.pod.uid, problem, time.monotonic()))

    async def _await_pending_write(self, uid: str) -> None:
        writing = self._writing.get(uid)
        if writing is not None:
            await asyncio.wait([writing])

    # Gates

    def _start_gate_removal(self, removal: RemoveSchedulingGate) -> None:
        self._start_write(f"lift/{removal.pod.uid}", self._remove_gate(removal))

    async def _remove_gate(self, removal: RemoveSchedulingGate) -> None:
        pod = removal.pod
        body = effect_patches.gate_patch(removal)
        result = await self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, body, "strategic")
        self.perform(self._scheduler.gate_removed(pod.uid, result_of(result), result.message, time.monotonic()))
        self._on_result()

    def _start_stamp_removal(self, removal: RemoveStamp) -> None:
        self._start_write(f"unstamp/{removal.pod.uid}", self._remove_stamp(removal))

    async def _remove_stamp(self, removal: RemoveStamp) -> None:
        """Retries for long: after a restart, a stamp that is left would count as a promise again."""
        pod = removal.pod
        operations = effect_patches.stamp_operations(removal)
        for failures in range(1, _REMOVE_STAMP_ATTEMPTS + 1):
            result = await self._writer.json_patch(PODS, pod.namespace, pod.name, pod.uid, operations)
            if result.outcome not in _RETRYABLE:
                break
            await asyncio.sleep(_REMOVE_STAMP_BACKOFF.delay_s(failures))
        self.perform(self._scheduler.stamp_removed(pod.uid, removal.stamp, result_of(result), time.monotonic()))
        self._on_result()

    # Everything else

    def _start_patch(self, write: ObjectPatch) -> None:
        self._start_write(f"{write.resource.plural}/{write.uid}", self._write(write))

    def _start_preemption(self, effect: Preempt) -> None:
        self._start_write(f"preempt/{effect.pod.uid}", self._preempt(effect))

    def _start_write(self, key: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._writing[key] = asyncio.create_task(coroutine)
        task.add_done_callback(lambda done: self._write_ended(key, done))
        return task

    def _write_ended(self, key: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]
        self._check_failure(task)

    async def _preempt(self, effect: Preempt) -> None:
        evicted, ok = await evict_victims(self._writer, effect)
        self.perform(self._scheduler.preempted(effect, evicted, time.monotonic(), ok=ok))
        self._on_result()

    async def _write(self, write: ObjectPatch) -> None:
        await self._patch(write)

    async def _patch(self, write: ObjectPatch) -> WriteStatus:
        return await self._writer.patch(
            write.resource, write.namespace, write.name, write.uid, dict(write.body), write.how, write.subresource
        )

    def _queue_status(self, status: SetStatus) -> None:
        """Replaces the waiting status of the pod, but keeps a nominated node that was not written yet."""
        earlier = self._statuses.pop(status.pod.uid, None) or self._deferred_statuses.pop(status.pod.uid, None)
        if earlier is not None:
            nominated_node = earlier.nominated_node if status.nominated_node is None else status.nominated_node
            status = SetStatus(status.pod, status.condition or earlier.condition, nominated_node)
        self._statuses[status.pod.uid] = status
        self._statuses_added.set()

    async def _write_statuses(self) -> None:
        while True:
            if not self._statuses:
                self._statuses_added.clear()
                await self._statuses_added.wait()
                continue
            status = self._statuses.pop(next(iter(self._statuses)))
            await asyncio.wait([self._start_write(status.pod.uid, self._write_status(status))])
            if status.pod.uid in self._deferred_statuses:
                await asyncio.sleep(_STATUS_RETRY_S)
                self._requeue_status(status.pod.uid)

    def _requeue_status(self, uid: str) -> None:
        """Queues a deferred status again, unless it was replaced or the pod is being bound."""
        status = self._deferred_statuses.pop(uid, None)
        if status is not None:
            self._queue_status(status)

    async def _write_status(self, status: SetStatus) -> None:
        pod, body = status.pod, effect_patches.status_patch(status, time.time())
        result = await self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, body, "strategic", "status")
        if result.outcome in _RETRYABLE and pod.uid not in self._binding:
            newer = self._statuses.pop(pod.uid, None)
            self._deferred_statuses[pod.uid] = status
            if newer is not None:
                self._queue_status(newer)

    def _emit_event(self, effect: EmitPodEvent) -> None:
        if effect.reason in (PRE_ENQUEUE_REJECTED, WAITING_ON_PERMIT, WAITING_ON_PRE_BIND):
            _log.info("pod %s/%s is held: %s", effect.pod.namespace, effect.pod.name, effect.message)
        self._events.emit(effect_patches.event_of(effect))

    async def wait_until_idle(self) -> None:
        """Waits until no binding is in flight, but not for ever."""
        if not self._idle.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_WAIT_S):
                    await self._idle.wait()
