"""The scheduler and the gate controller as controllers of a ``World``: their effects are performed at once.

The writes are those of ``runtime/scheduler/``: the same bodies, the same client, and the same results.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from embedded import TOKEN, Embedded
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.client.io.writer import Writer
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    WatchSpec,
)
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.runtime.scheduler import effect_patches
from headgate.runtime.scheduler.pod_writes import result_of
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    EmitPodEvent,
    Preempt,
    RemoveSchedulingGate,
    RemoveStamp,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.gates.gate_controller import GateController
from headgate.scheduling.scheduler import Scheduler

T = TypeVar("T")
Object = dict[str, Any]
_STEP = "step"
_MAX_PODS = 1000


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for something")


class _Transport:
    def __init__(self, server: Embedded) -> None:
        self._server = server

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        headers = {**request.headers, "authorization": f"Bearer {TOKEN}", "user-agent": "headgate"}
        response = self._server.send(ServerRequest(request.method, request.path, request.query, headers, request.body))
        assert isinstance(response, ServerResponse)
        return HTTPResponse(response.status, {}, response.body)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        raise AssertionError("the world delivers events, so nothing is watched")

    async def close(self) -> None: ...


async def _no_wait(seconds: float) -> None: ...


class _Engine(Protocol):
    def gate_removed(self, uid: str, result: WriteResult, message: str, now_s: float) -> list[Effect]: ...

    def next_deadline_s(self) -> float | None: ...


class _PodEngineProcess(Controller):
    """Watches what the engine watches, steps it after each event and at its deadlines, and performs its effects."""

    def __init__(self, server: Embedded, engine: _Engine) -> None:
        self._server = server
        self._any_engine = engine
        self._writer = Writer(_Transport(server), jitter=lambda: 0.0, sleep=_no_wait, clock=lambda: server.epoch_s)
        self._served: frozenset[APIResource] = frozenset()

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        return (Enqueue(_STEP),)

    def watches(self) -> Iterable[WatchSpec]:
        return [WatchSpec(each, ALL_FIELDS) for each in self._watched() if each in self._served]

    @abstractmethod
    def _watched(self) -> Iterable[APIResource]: ...

    @abstractmethod
    def _step(self, now_s: float) -> list[Effect]: ...

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        yield from ()
        if effects := self._step(now_s):
            self._perform(effects, now_s)
            return Done([Enqueue(_STEP)])
        deadline_s = self._any_engine.next_deadline_s()
        if deadline_s is None:
            return Done()
        return Done([Enqueue(_STEP)]) if deadline_s == -math.inf else RequeueAfter(max(deadline_s - now_s, 0.001))

    def _perform(self, effects: Iterable[Effect], now_s: float) -> None:
        for effect in effects:
            self._perform(self._perform_one(effect, now_s), now_s)

    def _perform_one(self, effect: Effect, now_s: float) -> list[Effect]:
        match effect:
            case RemoveSchedulingGate(pod):
                body = effect_patches.gate_patch(effect)
                done = run_now(self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, body, "strategic"))
                return self._any_engine.gate_removed(pod.uid, result_of(done), done.message, now_s)
            case SetStatus(pod):
                body = effect_patches.status_patch(effect, now_s)
                run_now(self._writer.patch(PODS, pod.namespace, pod.name, pod.uid, body, "strategic", "status"))
            case EmitPodEvent():
                pass
            case _:
                raise AssertionError(effect)
        return []


class GateProcess(_PodEngineProcess):
    name = "gates"

    def __init__(self, server: Embedded, engine: GateController) -> None:
        super().__init__(server, engine)
        self._engine = engine

    def _watched(self) -> Iterable[APIResource]:
        return (*self._engine.watched, PODS)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            self._engine.pod_applied(obj, now_s)
        else:
            self._engine.object_applied(resource, obj)
        return (Enqueue(_STEP),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            self._engine.pod_removed(uid, now_s)
        else:
            self._engine.object_removed(resource, namespace, name)
        return (Enqueue(_STEP),)

    def _step(self, now_s: float) -> list[Effect]:
        return self._engine.step(now_s)


class SchedulerProcess(_PodEngineProcess):
    name = "scheduler"

    def __init__(self, server: Embedded, engine: Scheduler) -> None:
        super().__init__(server, engine)
        self._engine = engine

    def _watched(self) -> Iterable[APIResource]:
        others: Mapping[APIResource, Iterable[str]] = self._engine.cluster.watched()
        return (*others, NODES, PODS)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            self._engine.pod_applied(obj, now_s)
        elif resource == NODES:
            self._engine.node_applied(obj, now_s)
        else:
            self._engine.object_applied(resource, obj, now_s)
        return (Enqueue(_STEP),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            self._engine.pod_removed(uid, now_s)
        elif resource == NODES:
            self._engine.node_removed(name, now_s)
        else:
            self._engine.object_removed(resource, namespace, name, now_s)
        return (Enqueue(_STEP),)

    def _step(self, now_s: float) -> list[Effect]:
        return self._engine.step(now_s, _MAX_PODS)

    def _perform_one(self, effect: Effect, now_s: float) -> list[Effect]:
        match effect:
            case Bind(pod, node_name):
                done = run_now(self._writer.bind(pod.namespace, pod.name, pod.uid, node_name))
                return self._engine.bound(pod.uid, result_of(done), done.message, now_s)
            case RemoveStamp(pod, stamp):
                operations = effect_patches.stamp_removal_patch(effect)
                done = run_now(self._writer.json_patch(PODS, pod.namespace, pod.name, pod.uid, operations))
                return self._engine.stamp_removed(pod.uid, stamp, result_of(done), now_s)
            case Preempt(victims=victims):
                for each in victims:
                    run_now(self._writer.delete(PODS, each.namespace, each.name, each.uid))
                return self._engine.preempted(effect, [each.uid for each in victims], now_s, ok=True)
            case _:
                return super()._perform_one(effect, now_s)
