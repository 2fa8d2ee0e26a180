"""The API dispatcher: it performs the effects of the scheduler and returns the results to the scheduler.

Gate removals and bindings are sent at once and in parallel; conditions and Events have lower priority
(``pod_writes.py``). A bound pod is never reported as unschedulable: when a binding starts, the conditions that wait for
the pod are dropped, and a write in flight is awaited. A preemption victim gets its condition and is then deleted, both
with the uid as a precondition; a victim that is gone or was replaced is not an error. ``runner.py`` calls
:meth:`APIDispatcher.perform`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome, WriteStatus
from headgate.kube.api_resources import PODS
from headgate.kube.backoff import ExponentialBackoff
from headgate.runtime import decision_log
from headgate.runtime.scheduler import effect_patches
from headgate.runtime.scheduler.pod_writes import RETRYABLE, PodWrites, result_of
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import Bind, ObjectPatch, PreBindWrites, Preempt, RemoveStamp
from headgate.scheduling.framework.plugin_timers import BIND, ERROR, SUCCESS
from headgate.scheduling.scheduler import Scheduler

_MAX_EVICTIONS: Final = 8
_GONE: Final = (WriteOutcome.GONE, WriteOutcome.REPLACED)


async def evict_victims(writer: Writer, effect: Preempt) -> tuple[list[str], bool]:
    """Deletes the victims, a few at a time. Returns the uids of those that were deleted, and whether all are gone."""
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


_REMOVE_STAMP_ATTEMPTS: Final = 30
_REMOVE_STAMP_BACKOFF: Final = ExponentialBackoff(1.0, 2.0)
_IDLE_WAIT_S: Final = 0.25
"""How long an Event waits until no binding is in flight; after that it is written anyway."""


class APIDispatcher(PodWrites):
    """``on_result`` is called after the scheduler got a result, and when fewer bindings are in flight."""

    def __init__(self, scheduler: Scheduler, writer: Writer, on_result: Callable[[], None], instance: str = "") -> None:
        super().__init__(scheduler, writer, on_result, instance, self.wait_until_idle)
        self._scheduler = scheduler
        self._binding: dict[str, asyncio.Task[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._perform |= {
            Bind: self._start_binding,
            RemoveStamp: self._start_stamp_removal,
            PreBindWrites: self._start_pre_bind,
            ObjectPatch: self._start_patch,
            Preempt: self._start_preemption,
        }

    @property
    def in_flight(self) -> int:
        """The number of bindings in flight, including their PreBind writes."""
        return len(self._binding)

    def _tasks_in_flight(self) -> list[asyncio.Task[None]]:
        return [*self._binding.values(), *super()._tasks_in_flight()]

    def _may_repeat_status(self, uid: str) -> bool:
        return uid not in self._binding

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
        self._on_result()  # fewer bindings are in flight now, so another one may start

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
        if decision_log.is_enabled():
            queue = self._scheduler.queues.queue_of(pod.uid)
            decision_log.log_binding(bind, result_of(result), result.message, queue, now_s - started_s)
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

    # Stamps

    def _start_stamp_removal(self, removal: RemoveStamp) -> None:
        self._start_write(f"remove-stamp/{removal.pod.uid}", self._remove_stamp(removal))

    async def _remove_stamp(self, removal: RemoveStamp) -> None:
        """Removes the stamp, with attempts for about a minute: after a restart, a remaining stamp would count as a
        promise."""
        pod = removal.pod
        operations = effect_patches.stamp_removal_patch(removal)
        for failures in range(1, _REMOVE_STAMP_ATTEMPTS + 1):
            result = await self._writer.json_patch(PODS, pod.namespace, pod.name, pod.uid, operations)
            if result.outcome not in RETRYABLE:
                break
            await asyncio.sleep(_REMOVE_STAMP_BACKOFF.delay_s(failures))
        if decision_log.is_enabled():
            decision_log.log_revocation(removal, result_of(result))
        self.perform(self._scheduler.stamp_removed(pod.uid, removal.stamp, result_of(result), time.monotonic()))
        self._on_result()

    # Preemption and patches

    def _start_patch(self, write: ObjectPatch) -> None:
        self._start_write(f"{write.resource.plural}/{write.uid}", self._write(write))

    def _start_preemption(self, effect: Preempt) -> None:
        self._start_write(f"preempt/{effect.pod.uid}", self._preempt(effect))

    async def _preempt(self, effect: Preempt) -> None:
        started_s = time.monotonic()
        evicted, ok = await evict_victims(self._writer, effect)
        if decision_log.is_enabled():
            decision_log.log_preemption(effect, evicted, time.monotonic() - started_s)
        self.perform(self._scheduler.preempted(effect, evicted, time.monotonic(), ok=ok))
        self._on_result()

    async def _write(self, write: ObjectPatch) -> None:
        await self._patch(write)

    async def _patch(self, write: ObjectPatch) -> WriteStatus:
        return await self._writer.patch(
            write.resource, write.namespace, write.name, write.uid, dict(write.body), write.how, write.subresource
        )

    async def wait_until_idle(self) -> None:
        """Waits until no binding is in flight, at most :data:`_IDLE_WAIT_S`."""
        if not self._idle.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_WAIT_S):
                    await self._idle.wait()
