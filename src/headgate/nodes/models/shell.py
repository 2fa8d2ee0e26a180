"""An autoscaler at work: a model follows all pods and nodes of a server, and its machines become Node objects there.

The models decide (``cluster_autoscaler.py``, ``karpenter.py``). A bought node is somebody else's to play: hollow
kubelets (``nodes/shell.py``) take it over by its mark, and so does KWOK. An order that does not reach the server is a
machine that never came, which the models know what to do about.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headgate.client.events.shell import EventWriter, Said
from headgate.client.informer import Applied, Event, Informer, Removed
from headgate.client.outcome import Outcome
from headgate.client.redelivery import Redelivery
from headgate.client.transport import Transport
from headgate.client.writer import Writer
from headgate.kube.resource import NODES, PODS, Resource
from headgate.kube.timestamps import format_time, parse_time
from headgate.nodes.clock import SteadyClock
from headgate.nodes.models.contract import Buy, Effect, Model, Remove, Taint, Tell

Object = dict[str, Any]

_log: Final = logging.getLogger(__name__)
_CLOCKS_DIFFER_S: Final = 1.0  # creation times are whole seconds


class Autoscaler:
    """One model, one server. ``component`` is whom Events are said to come from."""

    def __init__(
        self, model: Model, transport: Transport, component: str, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._model = model
        self._transport = transport
        self._component = component
        self._writer = Writer(transport, jitter=random.random, sleep=asyncio.sleep)
        self._events = EventWriter(self._writer)
        self._moved = asyncio.Event()  # the next deadline may have changed
        self._unsynced = {PODS, NODES}
        self._wall = wall
        self.bought: Final[list[str]] = []
        """The names of all machines that joined by order of the model, in order."""
        self.removed: Final[list[str]] = []

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._clock = SteadyClock(asyncio.get_running_loop().time, self._wall)
        # One object that cannot be understood must not stop the others.
        pod_events = Redelivery(self._component, "pod", self._pod_happened)
        node_events = Redelivery(self._component, "node", self._node_happened)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informer(PODS, pod_events.deliver).run())
                group.create_task(self._informer(NODES, node_events.deliver).run())
                group.create_task(self._events.run())
                group.create_task(self._keep_time())
        finally:
            pod_events.close()
            node_events.close()

    def _informer(self, resource: Resource, deliver: Callable[[Event], None]) -> Informer:
        def hear(event: Event) -> None:
            deliver(event)
            self._moved.set()

        return Informer(
            self._transport,
            resource.collection(),
            hear,
            jitter=random.random,
            sleep=asyncio.sleep,
            report=lambda problem: _log.warning("%s: %s", self._component, problem),
        )

    # -- in --------------------------------------------------------------------------------------------------------

    def _pod_happened(self, event: Event) -> None:
        if isinstance(event, Applied):
            self._model.pod_applied(self._in_own_time(event.object), self._now_s())
        elif isinstance(event, Removed):
            self._model.pod_removed(event.uid, self._now_s())
        else:
            self._told_all(PODS)

    def _node_happened(self, event: Event) -> None:
        if isinstance(event, Applied):
            self._model.node_applied(self._in_own_time(event.object), self._now_s())
        elif isinstance(event, Removed):
            self._model.node_removed(event.name, self._now_s())
        else:
            self._told_all(NODES)

    def _told_all(self, resource: Resource) -> None:
        self._unsynced.discard(resource)
        if not self._unsynced:
            self._model.synced(self._now_s())

    async def _keep_time(self) -> None:
        while True:
            self._moved.clear()
            deadline_s = self._model.next_deadline_s()
            wait_s = None if deadline_s is None else deadline_s - self._now_s()
            if wait_s is not None and wait_s <= 0:
                for effect in self._model.due(self._now_s()):
                    await self._perform(effect)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._moved.wait()

    def _now_s(self) -> float:
        return self._clock.now_s()

    def _in_own_time(self, obj: Object) -> Object:
        """The model asks how old objects are: when the wall clock was set, they are not younger or older for it."""
        ahead_s = self._clock.ahead_s()
        created = parse_time(obj["metadata"].get("creationTimestamp") or "")
        if abs(ahead_s) < _CLOCKS_DIFFER_S or isinstance(created, str):
            return obj
        return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": format_time(created - ahead_s)}}

    # -- out -------------------------------------------------------------------------------------------------------

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Buy(node=node):
                verdict = await self._writer.create(NODES, "", node)
                if verdict.outcome in (Outcome.DONE, Outcome.CONFLICT):
                    self.bought.append(node["metadata"]["name"])
            case Taint(name=name, uid=uid, key=key, off=off):
                taint = {"key": key, "$patch": "delete"} if off else {"key": key, "effect": "NoSchedule"}
                verdict = await self._writer.patch(NODES, "", name, uid, {"spec": {"taints": [taint]}}, "strategic")
            case Remove(name=name, uid=uid):
                verdict = await self._writer.delete(NODES, "", name, uid)
                if verdict.outcome in (Outcome.DONE, Outcome.GONE):
                    self.removed.append(name)
            case Tell():
                self._tell(effect)
                return
        if verdict.outcome is not Outcome.DONE:
            _log.warning("%s: %s was answered: %s", self._component, effect, verdict.message)

    def _tell(self, told: Tell) -> None:
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": told.namespace,
            "name": told.name,
            "uid": told.uid,
        }
        self._events.tell(Said(about, told.reason, told.message, "Normal", self._component))
