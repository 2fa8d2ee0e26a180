"""Runs an autoscaler model: it watches all pods and nodes, and creates Node objects for new machines.

The models decide (``nodes/autoscalers/cluster_autoscaler.py``, ``nodes/autoscalers/karpenter.py``). Hollow kubelets
(``nodes/io/kubelet_runner.py``) or KWOK adopt a new node by its annotation. If the creation of a Node fails, the model
sees a machine that never starts, and handles that.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.io.redelivery import Redelivery
from headgate.client.io.writer import Writer
from headgate.client.write_status import WriteOutcome
from headgate.http.transport import Transport
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.kube.timestamps import format_time, parse_time
from headgate.nodes.autoscalers.model import (
    AddMachine,
    AutoscalerModel,
    Effect,
    EmitAutoscalerEvent,
    RemoveMachine,
    TaintNode,
)
from headgate.nodes.clock import SteadyClock

Object = dict[str, Any]

_log: Final = logging.getLogger(__name__)
_CLOCK_TOLERANCE_S: Final = 1.0  # creation times are whole seconds


class AutoscalerRunner:
    """One model, one server. ``component`` is the reporting component of its Events."""

    def __init__(
        self, model: AutoscalerModel, transport: Transport, component: str, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._model = model
        self._transport = transport
        self._component = component
        self._writer = Writer(transport, jitter=random.random, sleep=asyncio.sleep)
        self._events = EventRecorder(self._writer)
        self._deadline_changed = asyncio.Event()  # the next deadline may have changed
        self._unsynced = {PODS, NODES}
        self._wall = wall
        self.added: Final[list[str]] = []
        """The names of all nodes that the model has added, in order."""
        self.removed: Final[list[str]] = []

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._clock = SteadyClock(asyncio.get_running_loop().time, self._wall)
        # An error on one object must not stop the others.
        pod_events = Redelivery(self._component, "pod", self._handle_pod_event)
        node_events = Redelivery(self._component, "node", self._handle_node_event)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informer(PODS, pod_events.deliver).run())
                group.create_task(self._informer(NODES, node_events.deliver).run())
                group.create_task(self._events.run())
                group.create_task(self._run_timers())
        finally:
            pod_events.close()
            node_events.close()

    def _informer(self, resource: APIResource, deliver: Callable[[InformerEvent], None]) -> Informer:
        def handle(event: InformerEvent) -> None:
            deliver(event)
            self._deadline_changed.set()

        return Informer(
            self._transport,
            resource.collection_path(),
            handle,
            jitter=random.random,
            sleep=asyncio.sleep,
            report=lambda problem: _log.warning("%s: %s", self._component, problem),
        )

    # -- events ----------------------------------------------------------------------------------------------------

    def _handle_pod_event(self, event: InformerEvent) -> None:
        if isinstance(event, ObjectApplied):
            self._model.pod_applied(self._in_model_time(event.object), self._now_s())
        elif isinstance(event, ObjectDeleted):
            self._model.pod_removed(event.uid, self._now_s())
        else:
            self._synced(PODS)

    def _handle_node_event(self, event: InformerEvent) -> None:
        if isinstance(event, ObjectApplied):
            self._model.node_applied(self._in_model_time(event.object), self._now_s())
        elif isinstance(event, ObjectDeleted):
            self._model.node_removed(event.name, self._now_s())
        else:
            self._synced(NODES)

    def _synced(self, resource: APIResource) -> None:
        self._unsynced.discard(resource)
        if not self._unsynced:
            self._model.synced(self._now_s())

    async def _run_timers(self) -> None:
        while True:
            self._deadline_changed.clear()
            deadline_s = self._model.next_deadline_s()
            wait_s = None if deadline_s is None else deadline_s - self._now_s()
            if wait_s is not None and wait_s <= 0:
                for effect in self._model.due(self._now_s()):
                    await self._perform(effect)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._deadline_changed.wait()

    def _now_s(self) -> float:
        return self._clock.now_s()

    def _in_model_time(self, obj: Object) -> Object:
        """The object with its creation time on the model's clock, so that a change of the wall clock does not change
        its age."""
        ahead_s = self._clock.ahead_s()
        created = parse_time(obj["metadata"].get("creationTimestamp") or "")
        if abs(ahead_s) < _CLOCK_TOLERANCE_S or isinstance(created, str):
            return obj
        return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": format_time(created - ahead_s)}}

    # -- writes ----------------------------------------------------------------------------------------------------

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case AddMachine(node=node):
                result = await self._writer.create(NODES, "", node)
                if result.outcome in (WriteOutcome.DONE, WriteOutcome.CONFLICT):
                    self.added.append(node["metadata"]["name"])
            case TaintNode(name=name, uid=uid, key=key, off=off):
                taint = {"key": key, "$patch": "delete"} if off else {"key": key, "effect": "NoSchedule"}
                result = await self._writer.patch(NODES, "", name, uid, {"spec": {"taints": [taint]}}, "strategic")
            case RemoveMachine(name=name, uid=uid):
                result = await self._writer.delete(NODES, "", name, uid)
                if result.outcome in (WriteOutcome.DONE, WriteOutcome.GONE):
                    self.removed.append(name)
            case EmitAutoscalerEvent():
                self._emit_event(effect)
                return
        if result.outcome is not WriteOutcome.DONE:
            _log.warning("%s: %s was refused: %s", self._component, effect, result.message)

    def _emit_event(self, effect: EmitAutoscalerEvent) -> None:
        regarding = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": effect.namespace,
            "name": effect.name,
            "uid": effect.uid,
        }
        self._events.emit(EventToEmit(regarding, effect.reason, effect.message, "Normal", self._component))
