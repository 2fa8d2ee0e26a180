"""One of the two clusters of the autoscaler demo: an embedded cluster without nodes, and an autoscaler that adds them.

The cluster runs as in ``headgate up``, in a temporary folder and on a free port. ``wait_until_idle`` returns when
nothing has changed for some time; ``counts`` has the observed result. ``autoscaler.py`` has the scenario.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.cli.embedded import components
from headgate.cli.embedded.cluster_options import COMPONENTS, ClusterOptions, StartupError
from headgate.cli.embedded.credentials import AccessOptions
from headgate.cli.embedded.server import serve
from headgate.cli.wiring.event_loop import run_in_background
from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.io.writer import Writer
from headgate.http.server import listen
from headgate.http.transport import Transport
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.kube.feature_gates import DEFAULTS
from headgate.nodes.autoscalers.model import AutoscalerModel
from headgate.nodes.io.autoscaler_runner import AutoscalerRunner

Object = dict[str, Any]

_TICK_S: Final = 0.1
_SHORT_IDLE_S: Final = 1.0
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class MachineCounts(msgspec.Struct, frozen=True):
    added: int
    idle: int
    """Machines that exist and have no pod."""
    unused: int
    """Machines that never had a pod."""
    running: int
    waiting: int


class DemoCluster:
    def __init__(self, transport: Transport, autoscaler: AutoscalerRunner) -> None:
        self._transport = transport
        self._autoscaler = autoscaler
        self._writer = Writer(transport, jitter=random.random, sleep=asyncio.sleep)
        self._seen: dict[APIResource, dict[str, Object]] = {PODS: {}, NODES: {}}
        self._used: set[str] = set()
        self._last_event_s = 0.0

    async def watch(self, resource: APIResource) -> None:
        def handle(event: InformerEvent) -> None:
            self._last_event_s = asyncio.get_running_loop().time()
            if isinstance(event, ObjectApplied):
                self._seen[resource][event.object["metadata"]["name"]] = event.object
                self._used.add(event.object["spec"].get("nodeName", ""))
            elif isinstance(event, ObjectDeleted):
                self._seen[resource].pop(event.name, None)

        informer = Informer(
            self._transport, resource.collection_path(), handle, jitter=random.random, sleep=asyncio.sleep
        )
        await informer.run()

    # -- actions ---------------------------------------------------------------------------------------------------

    async def create(self, resource: APIResource, obj: Object) -> None:
        result = await self._writer.create(resource, "default", obj)
        if not result.done:
            raise StartupError(f"{obj['metadata']['name']} was not created: {result.message}")

    async def patch(self, resource: APIResource, name: str, body: Object) -> None:
        result = await self._writer.patch(resource, "default", name, "", body)
        if not result.done:
            raise StartupError(f"{name} was not changed: {result.message}")

    async def wait_until_idle(self, idle_s: float) -> None:
        """Waits until there was no event for ``idle_s``, or for a shorter time if no pod is pending. Ticks in which
        this process was delayed do not count."""
        loop = asyncio.get_running_loop()
        idle_ticks = 0
        while idle_ticks * _TICK_S < (idle_s if self.counts().waiting else _SHORT_IDLE_S):
            last_event_s, started_s = self._last_event_s, loop.time()
            await asyncio.sleep(_TICK_S)
            if self._last_event_s != last_event_s:
                idle_ticks = 0
            elif loop.time() - started_s < 2 * _TICK_S:
                idle_ticks += 1

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        """The names of the pods that have a node, sorted."""
        return [name for name, pod in sorted(self._live_pods().items()) if pod["spec"].get("nodeName")]

    @property
    def removed(self) -> int:
        """How many nodes were removed."""
        return len(self._autoscaler.removed)

    def counts(self) -> MachineCounts:
        alive = self._live_pods()
        busy = {pod["spec"].get("nodeName", "") for pod in alive.values()}
        running = len(self.running)
        return MachineCounts(
            added=len(self._autoscaler.added),
            idle=sum(name not in busy for name in self._seen[NODES]),
            unused=sum(name not in self._used for name in self._autoscaler.added),
            running=running,
            waiting=len(alive) - running,
        )

    def _live_pods(self) -> dict[str, Object]:
        return {name: pod for name, pod in self._seen[PODS].items() if pod["status"].get("phase") not in _TERMINAL}


@contextlib.asynccontextmanager
async def start_demo_cluster(
    folder: Path, make: Callable[[], AutoscalerModel], component: str
) -> AsyncIterator[DemoCluster]:
    options = ClusterOptions(
        data=folder,
        host="127.0.0.1",
        port=0,
        kubeconfig=folder / "kubeconfig",
        components=frozenset(COMPONENTS),
        node_count=0,
        node_resources={},
        features=DEFAULTS,
        access=AccessOptions(),
    )
    async with contextlib.AsyncExitStack() as stack:
        sock = stack.enter_context(contextlib.closing(listen(options.host, options.port)))
        served = await serve(options, sock, lambda line: None, stack)
        await components.start(options, served, stack)
        autoscaler = AutoscalerRunner(make(), served.client(component), component)
        run_in_background(stack, autoscaler.run())
        cluster = DemoCluster(served.client("headgate-demo"), autoscaler)
        for resource in (PODS, NODES):
            run_in_background(stack, cluster.watch(resource))
        yield cluster
