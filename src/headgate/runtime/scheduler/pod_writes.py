"""Performs the writes to pods that do not bind them: gate removals, conditions and Events.

Gate removals are sent at once and in parallel; conditions and Events have lower priority and are written by a few
workers. One table maps the outcome of a write to a ``WriteResult``. ``api_dispatcher.py`` adds bindings and preemption
for the scheduler; ``runtime/gates/runner.py`` uses this class as it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, Protocol

from headgate.client.io.event_recorder import EventRecorder, no_delay
from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome, WriteStatus
from headgate.kube.api_resources import PODS
from headgate.kube.conditions import (
    PRE_ENQUEUE_REJECTED,
    QUEUE_ADMISSION_REJECTED,
    WAITING_ON_PERMIT,
    WAITING_ON_PRE_BIND,
)
from headgate.runtime import decision_log
from headgate.runtime.scheduler import effect_patches
from headgate.scheduling.framework.effects import Effect, EmitPodEvent, RemoveSchedulingGate, SetStatus, WriteResult

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
_HELD_REASONS: Final = (PRE_ENQUEUE_REJECTED, QUEUE_ADMISSION_REJECTED, WAITING_ON_PERMIT, WAITING_ON_PRE_BIND)
_STILL_GATED: Final = "non-empty .spec.schedulingGates"
_STATUS_WORKERS: Final = 4
_MAX_PENDING_EVENTS: Final = 16_384
_STATUS_RETRY_S: Final = 1.0
RETRYABLE: Final = (WriteOutcome.LATER, WriteOutcome.UNKNOWN)
_log: Final = logging.getLogger(__name__)


def result_of(result: WriteStatus) -> WriteResult:
    """The engine's result for the outcome of a write."""
    if result.outcome is WriteOutcome.CONFLICT and _STILL_GATED in result.message:
        return WriteResult.GATED
    return _RESULTS[result.outcome]


class GateRemovalResults(Protocol):
    """The engine that requested the removal of gates."""

    def gate_removed(self, uid: str, result: WriteResult, message: str, now_s: float) -> list[Effect]: ...


class PodWrites:
    """``on_result`` is called after the engine got a result. ``before_event`` is awaited before each Event is
    written."""

    def __init__(
        self,
        results: GateRemovalResults,
        writer: Writer,
        on_result: Callable[[], None],
        instance: str = "",
        before_event: Callable[[], Awaitable[None]] = no_delay,
    ) -> None:
        self._results = results
        self._writer = writer
        self._on_result = on_result
        self._statuses: dict[str, SetStatus] = {}
        self._deferred_statuses: dict[str, SetStatus] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._statuses_added = asyncio.Event()
        self._failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._events = EventRecorder(
            writer, max_events=_MAX_PENDING_EVENTS, before_write=before_event, instance=instance
        )
        self._perform: dict[type[Effect], Callable[[Any], None]] = {
            RemoveSchedulingGate: self._start_gate_removal,
            SetStatus: self._queue_status,
            EmitPodEvent: self._emit_event,
        }

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
            tasks = self._tasks_in_flight()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tasks_in_flight(self) -> list[asyncio.Task[None]]:
        return list(self._writing.values())

    async def _raise_failure(self) -> None:
        """Raises the first error of a task, so that the engine is replaced by a new one. Otherwise the pod of that
        task would stay in flight without end."""
        raise await self._failure

    def _check_failure(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failure.done():
            self._failure.set_result(error)

    def _start_write(self, key: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._writing[key] = asyncio.create_task(coroutine)
        task.add_done_callback(lambda done: self._write_ended(key, done))
        return task

    def _write_ended(self, key: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]
        self._check_failure(task)

    # Gates

    def _start_gate_removal(self, removal: RemoveSchedulingGate) -> None:
        self._start_write(f"remove-gate/{removal.pod.uid}", self._remove_gate(removal))

    async def _remove_gate(self, removal: RemoveSchedulingGate) -> None:
        pod = removal.pod
        body = effect_patches.gate_patch(removal)
        started_s = time.monotonic()
        result = await self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, body, "strategic")
        if decision_log.is_enabled():
            took_s = time.monotonic() - started_s
            decision_log.log_gate_removal(removal, result_of(result), result.message, took_s)
        self.perform(self._results.gate_removed(pod.uid, result_of(result), result.message, time.monotonic()))
        self._on_result()

    # Conditions and Events

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
        pod, body = status.pod, self._status_body(status)
        result = await self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, body, "strategic", "status")
        if result.outcome in RETRYABLE and self._may_repeat_status(pod.uid):
            newer = self._statuses.pop(pod.uid, None)
            self._deferred_statuses[pod.uid] = status
            if newer is not None:
                self._queue_status(newer)
        elif result.outcome is WriteOutcome.CONFLICT:
            self._status_conflicted(pod.uid)

    def _status_conflicted(self, uid: str) -> None:
        """The status was written for a version of the pod that is not the newest one. A scheduler names no version."""

    def _status_body(self, status: SetStatus) -> dict[str, Any]:
        return effect_patches.status_patch(status, time.time())

    def _may_repeat_status(self, uid: str) -> bool:
        """Whether a status that could not be written is still useful."""
        return True

    def _emit_event(self, effect: EmitPodEvent) -> None:
        if effect.reason in _HELD_REASONS:
            _log.debug("pod %s/%s is held: %s", effect.pod.namespace, effect.pod.name, effect.message)
        self._events.emit(effect_patches.event_of(effect))
