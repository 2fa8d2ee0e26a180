"""Runs hollow kubelets: one watch of all nodes, one watch of all bound pods, one timer, and a few writers.

The state machine in ``nodes/hollow_kubelets.py`` decides; this module sends its writes through a ``Transport``, in
order for each object, many objects at a time, and reports failed writes to it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.io.redelivery import Redelivery
from headgate.http.transport import Transport, Unreachable
from headgate.kube.api_resources import NODES, PODS
from headgate.nodes import effects
from headgate.nodes.behaviour import annotation_problems
from headgate.nodes.clock import FollowingClock
from headgate.nodes.effect_requests import create_lease, request_for
from headgate.nodes.effects import Effect
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.node_clock import NodeClock

Object = dict[str, Any]

_log: Final = logging.getLogger(__name__)
_WRITERS: Final = 16
_NOT_FOUND: Final = 404
_FINAL_STATUSES: Final = frozenset({404, 409, 410, 422})
"""The object is gone or was replaced, or the server will never accept the write: it is not retried."""


class HollowKubeletRunner:
    """One set of hollow kubelets, one server."""

    def __init__(
        self,
        kubelets: HollowKubelets,
        transport: Transport,
        *,
        writers: int = _WRITERS,
        wall: Callable[[], float] = time.time,
        node_clock: NodeClock | None = None,
    ) -> None:
        self._kubelets = kubelets
        self._transport = transport
        self._writers = writers
        self._queues: dict[str, deque[Effect]] = {}  # by object; a key is present while a writer works on it or will
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._deadline_changed = asyncio.Event()  # the next deadline may have changed
        self._wall = wall
        self._node_clock = node_clock or NodeClock()
        self._node_clock.subscribe(self._deadline_changed.set)
        self.reported: Final = asyncio.Event()
        """Set when every initial node has been seen with its Ready condition."""

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._clock = FollowingClock(asyncio.get_running_loop().time, self._wall, self._clock_moved)
        # An error on one object must not stop the others.
        node_events = Redelivery("hollow nodes", "node", self._handle_node_event)
        pod_events = Redelivery("hollow nodes", "pod", self._handle_pod_event)
        nodes = self._informer(NODES.collection_path(), {}, node_events.deliver)
        pods = self._informer(PODS.collection_path(), {"fieldSelector": "spec.nodeName!="}, pod_events.deliver)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(nodes.run())
                group.create_task(pods.run())
                group.create_task(self._run_timers())
                for _ in range(self._writers):
                    group.create_task(self._run_writer())
        finally:
            node_events.close()
            pod_events.close()

    def _informer(self, path: str, query: dict[str, str], sink: Callable[[InformerEvent], None]) -> Informer:
        return Informer(
            self._transport,
            path,
            sink,
            jitter=random.random,
            sleep=asyncio.sleep,
            query=query,
            report=lambda problem: _log.warning("hollow nodes: %s", problem),
        )

    # -- events ----------------------------------------------------------------------------------------------------

    def _handle_node_event(self, event: InformerEvent) -> None:
        now_s = self._now_s()
        if isinstance(event, ObjectApplied):
            self._warn("node", event.object)
            self._send(self._kubelets.node_applied(event.object, now_s))
        elif isinstance(event, ObjectDeleted):
            self._send(self._kubelets.node_removed(event.name, event.uid, now_s))
        else:
            self._send(self._kubelets.nodes_synced(now_s))
        if self._kubelets.has_reported:
            self.reported.set()

    def _handle_pod_event(self, event: InformerEvent) -> None:
        now_s = self._now_s()
        if isinstance(event, ObjectApplied):
            self._warn("pod", event.object)
            self._send(self._kubelets.pod_applied(event.object, now_s))
        elif isinstance(event, ObjectDeleted):
            self._send(self._kubelets.pod_removed(event.namespace, event.name, event.uid, now_s))
        else:
            self._send(self._kubelets.pods_synced(now_s))

    def _warn(self, kind: str, obj: Object) -> None:
        if "annotations" in obj["metadata"]:
            for line in annotation_problems(obj["metadata"]):
                _log.warning("%s %s: %s", kind, obj["metadata"]["name"], line)

    async def _run_timers(self) -> None:
        while True:
            self._deadline_changed.clear()
            now_s = self._now_s()  # first: if the clock was set, it moves the deadline
            deadline_s = self._kubelets.next_deadline_s()
            wait_s = None if deadline_s is None else deadline_s - now_s
            if wait_s is not None and wait_s <= 0:
                try:
                    self._send(self._kubelets.due(self._now_s()))
                except Exception:
                    _log.exception("hollow nodes: a timer failed and runs again later; the other timers run now")
                await asyncio.sleep(0)
                continue
            # Not wait_for: before Python 3.12 it forgets a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._deadline_changed.wait()

    def _now_s(self) -> float:
        return self._clock.now_s() + self._node_clock.ahead_s

    def _clock_moved(self, by_s: float) -> None:
        _log.debug("hollow nodes: the clock was set by %.3f s", by_s)
        self._kubelets.clock_moved(by_s)

    # -- writes ----------------------------------------------------------------------------------------------------

    def _send(self, effects: list[Effect]) -> None:
        for effect in effects:
            key = _key(effect)
            queue = self._queues.get(key)
            if queue is not None:
                queue.append(effect)
            else:
                self._queues[key] = deque((effect,))
                self._ready.put_nowait(key)
        self._deadline_changed.set()

    async def _run_writer(self) -> None:
        while True:
            key = await self._ready.get()
            queue = self._queues[key]
            while queue:
                effect = queue[0]
                done = await self._write(effect)
                if done:
                    queue.popleft()
                else:
                    queue.clear()  # later writes depend on the failed one; ``failed`` returns what to retry
                    self._send(self._kubelets.failed(effect, self._now_s()))
            del self._queues[key]

    async def _write(self, effect: Effect) -> bool:
        """False if the write may be retried later."""
        try:
            status, text = await self._perform(effect)
        except Unreachable as error:
            _log.warning("hollow nodes: %s", error)
            return False
        except Exception:
            _log.exception("hollow nodes: the write to %s failed and is tried again", _key(effect))
            return False
        if 200 <= status < 300:
            return True
        if status in _FINAL_STATUSES:
            _log.debug(
                "hollow nodes: the write to %s was refused and is not repeated: %s %s", _key(effect), status, text
            )
            return True
        _log.warning("hollow nodes: the write to %s failed with status %s: %s", _key(effect), status, text)
        return False

    async def _perform(self, effect: Effect) -> tuple[int, str]:
        response = await self._transport.request(request_for(effect))
        if response.status == _NOT_FOUND and isinstance(effect, effects.RenewLease):
            response = await self._transport.request(create_lease(effect))
        return response.status, "" if response.ok else response.body[:300].decode(errors="replace")


def _key(effect: Effect) -> str:
    """Writes to the same object are done one after another. A lease is an object of its own."""
    match effect:
        case effects.PatchPodStatus(namespace=namespace, name=name) | effects.DeletePod(namespace=namespace, name=name):
            return f"pod {namespace}/{name}"
        case effects.RenewLease(name=name):
            return f"lease {name}"
        case effects.CreateNode(node=node):
            return f"node {node['metadata']['name']}"
        case _:
            return f"node {effect.name}"
