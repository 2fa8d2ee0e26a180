"""Performs what the scheduler decided: gates and bindings at once and many at a time, conditions and Events behind.

A pod's condition never overtakes its binding: what waits to be written about a pod is dropped when it is bound, and a
write that is under way is awaited first, so a pod that has a node is not called unschedulable by a latecomer. Answers
go back to the scheduler as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from headgate.capacity.names import GATE, STAMP
from headgate.client.events.shell import EventWriter, Said
from headgate.client.outcome import Outcome, Verdict
from headgate.client.writer import Writer
from headgate.control.scheduler.eviction import preempt
from headgate.control.scheduler.results import result_of
from headgate.kube.conditions import PRE_ENQUEUE_REJECTED, WAITING_ON_PERMIT, WAITING_ON_PRE_BIND
from headgate.kube.resource import PODS
from headgate.kube.timestamps import format_time
from headgate.scheduling.effects import Bind, Effect, LiftGate, Preempt, Prepare, RemoveStamp, Say, SetStatus, Write
from headgate.scheduling.meters import BIND, ERROR, SUCCESS
from headgate.scheduling.pod import Pod
from headgate.scheduling.scheduler import Scheduler

_log: Final = logging.getLogger(__name__)
_STATUS_WORKERS: Final = 4
_EVENTS_KEPT: Final = 16_384
_AGAIN_S: Final = 1.0
_NOT_YET: Final = (Outcome.LATER, Outcome.UNKNOWN)
_UNSTAMPING_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Waits between attempts to remove a stamp."""
_BREATH_S: Final = 0.25
"""How long an Event waits for a moment without bindings: on a cluster that never rests it still gets its turn."""


class Hands:
    """``woken`` is called whenever the scheduler was told something, and fewer bindings are under way than before."""

    def __init__(self, scheduler: Scheduler, writer: Writer, woken: Callable[[], None], instance: str = "") -> None:
        self._scheduler = scheduler
        self._writer = writer
        self._woken = woken
        self._binding: dict[str, asyncio.Task[None]] = {}
        self._statuses: dict[str, SetStatus] = {}
        self._put_off: dict[str, SetStatus] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._more = asyncio.Event()
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._events = EventWriter(writer, most=_EVENTS_KEPT, turn=self.rest, instance=instance)
        self._perform: Final[dict[type[Effect], Callable[[Any], None]]] = {
            Bind: self._start_binding,
            LiftGate: self._start_lifting,
            RemoveStamp: self._start_unstamping,
            Prepare: self._start_preparing,
            Write: self._start_writing,
            SetStatus: self._keep_status,
            Preempt: self._start_preempting,
            Say: self._say,
        }

    @property
    def under_way(self) -> int:
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

    def _start_preparing(self, prepare: Prepare) -> None:
        self._start(prepare.pod, self._prepare(prepare))

    def _start(self, pod: Pod, steps: Coroutine[Any, Any, None]) -> None:
        self._statuses.pop(pod.uid, None)
        self._put_off.pop(pod.uid, None)
        task = asyncio.create_task(steps)
        self._binding[pod.uid] = task
        self._at_rest.clear()
        task.add_done_callback(lambda done: self._ended(pod.uid, done))

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._binding.get(uid) is task:
            del self._binding[uid]
        if not self._binding:
            self._at_rest.set()
        self._look_at(task)
        self._woken()  # only now is there room for another one

    def _look_at(self, task: asyncio.Task[None]) -> None:
        broken = None if task.cancelled() else task.exception()
        if broken is not None and not self._broken.done():
            self._broken.set_result(broken)

    async def _bind(self, bind: Bind) -> None:
        pod = bind.pod
        await self._quiet(pod.uid)
        began_s = time.monotonic()
        if bind.instead is None:
            verdict = await self._writer.bind(pod.namespace, pod.name, pod.uid, bind.node_name)
        else:
            verdict = await self._patch(bind.instead)
        now_s = time.monotonic()
        status = SUCCESS if verdict.done else ERROR
        self._scheduler.metrics.point_took(BIND, status, pod.scheduler_name, now_s - began_s)
        self.perform(self._scheduler.bound(pod.uid, result_of(verdict), verdict.message, now_s))

    async def _prepare(self, prepare: Prepare) -> None:
        problem = ""
        for write in prepare.writes:
            verdict = await self._patch(write)
            if not verdict.done:
                problem = f"{write.resource.plural} {write.name}: {verdict.message}"
                break
        self.perform(self._scheduler.prepared(prepare.pod.uid, problem, time.monotonic()))

    async def _quiet(self, uid: str) -> None:
        writing = self._writing.get(uid)
        if writing is not None:
            await asyncio.wait([writing])

    # Gates

    def _start_lifting(self, lift: LiftGate) -> None:
        self._beside(f"lift/{lift.pod.uid}", self._lift(lift))

    async def _lift(self, lift: LiftGate) -> None:
        pod = lift.pod
        verdict = await self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, _lifted(lift), "strategic")
        self.perform(self._scheduler.lifted(pod.uid, result_of(verdict), verdict.message, time.monotonic()))
        self._woken()

    def _start_unstamping(self, removal: RemoveStamp) -> None:
        self._beside(f"unstamp/{removal.pod.uid}", self._unstamp(removal))

    async def _unstamp(self, removal: RemoveStamp) -> None:
        """A stamp that outlives its promise counts again for whoever starts anew: so it is not given up soon."""
        pod = removal.pod
        path = f"/metadata/annotations/{STAMP.replace('/', '~1')}"
        steps = [{"op": "test", "path": path, "value": removal.stamp}, {"op": "remove", "path": path}]
        for wait_s in _UNSTAMPING_S:
            verdict = await self._writer.patch_steps(PODS, pod.namespace, pod.name, pod.uid, steps)
            if verdict.outcome not in _NOT_YET:
                break
            await asyncio.sleep(wait_s)
        self.perform(self._scheduler.unstamped(pod.uid, removal.stamp, result_of(verdict), time.monotonic()))
        self._woken()

    # Everything else

    def _start_writing(self, write: Write) -> None:
        self._beside(f"{write.resource.plural}/{write.uid}", self._write(write))

    def _start_preempting(self, wanted: Preempt) -> None:
        self._beside(f"preempt/{wanted.pod.uid}", self._preempt(wanted))

    def _beside(self, key: str, steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._writing[key] = asyncio.create_task(steps)
        task.add_done_callback(lambda done: self._beside_ended(key, done))
        return task

    def _beside_ended(self, key: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]
        self._look_at(task)

    async def _preempt(self, wanted: Preempt) -> None:
        told, ok = await preempt(self._writer, wanted)
        self.perform(self._scheduler.preempted(wanted, told, time.monotonic(), ok=ok))
        self._woken()

    async def _write(self, write: Write) -> None:
        await self._patch(write)

    async def _patch(self, write: Write) -> Verdict:
        return await self._writer.patch(
            write.resource, write.namespace, write.name, write.uid, dict(write.body), write.how, write.subresource
        )

    def _keep_status(self, status: SetStatus) -> None:
        """The latest counts; a promise that was not written yet stays with it."""
        before = self._statuses.pop(status.pod.uid, None) or self._put_off.pop(status.pod.uid, None)
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
            await asyncio.wait([self._beside(status.pod.uid, self._write_status(status))])
            if status.pod.uid in self._put_off:
                await asyncio.sleep(_AGAIN_S)
                self._keep_again(status.pod.uid)

    def _keep_again(self, uid: str) -> None:
        """Unless there is something newer by now, or the pod has a node."""
        status = self._put_off.pop(uid, None)
        if status is not None:
            self._keep_status(status)

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
        if verdict.outcome in _NOT_YET and pod.uid not in self._binding:
            newer = self._statuses.pop(pod.uid, None)
            self._put_off[pod.uid] = status
            if newer is not None:
                self._keep_status(newer)

    def _say(self, say: Say) -> None:
        pod, behind = say.pod, say.related or say.pod
        name = f"{pod.name[:200]}.{say.reason.lower()}.{pod.uid}"[:253] if say.once else ""
        related = None if say.related is None else _reference(say.related)
        said = Said(
            _reference(pod), say.reason, say.message, say.type, behind.scheduler_name, say.action, name, related
        )
        if say.reason in (PRE_ENQUEUE_REJECTED, WAITING_ON_PERMIT, WAITING_ON_PRE_BIND):
            _log.info("pod %s/%s is held: %s", pod.namespace, pod.name, say.message)
        self._events.tell(said)

    async def rest(self) -> None:
        """Waits for a moment without bindings, but not for ever."""
        if not self._at_rest.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BREATH_S):
                    await self._at_rest.wait()


def _lifted(lift: LiftGate) -> dict[str, Any]:
    """Gates are told apart by name, so all others stay, in their order; one that is gone already is no matter."""
    body: dict[str, Any] = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    if lift.stamp:
        body["metadata"] = {"annotations": {STAMP: lift.stamp}}
    return body


def _reference(pod: Pod) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.revision,
    }
