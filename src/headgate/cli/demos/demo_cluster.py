"""One side of a comparison: an embedded cluster without nodes, an autoscaler that buys them, and the observed result.

Everything is as in ``headgate up``, in a temporary folder and on a free port. ``settle`` returns when nothing has
changed for a while. ``autoscaler.py`` has the scenario.
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
from headgate.cli.embedded.server import run_in_background, serve
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
_MOMENT_S: Final = 1.0
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class MachineCounts(msgspec.Struct, frozen=True):
    bought: int
    idle: int
    """Machines that are there and have nothing to do."""
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
        self._moved_s = 0.0

    async def follow(self, resource: APIResource) -> None:
        def hear(event: InformerEvent) -> None:
            self._moved_s = asyncio.get_running_loop().time()
            if isinstance(event, ObjectApplied):
                self._seen[resource][event.object["metadata"]["name"]] = event.object
                self._used.add(event.object["spec"].get("nodeName", ""))
            elif isinstance(event, ObjectDeleted):
                self._seen[resource].pop(event.name, None)

        informer = Informer(
            self._transport, resource.collection_path(), hear, jitter=random.random, sleep=asyncio.sleep
        )
        await informer.run()

    # -- what is done in it ----------------------------------------------------------------------------------------

    async def create(self, resource: APIResource, obj: Object) -> None:
        verdict = await self._writer.create(resource, "default", obj)
        if not verdict.done:
            raise StartupError(f"{obj['metadata']['name']} was not created: {verdict.message}")

    async def patch(self, resource: APIResource, name: str, body: Object) -> None:
        verdict = await self._writer.patch(resource, "default", name, "", body)
        if not verdict.done:
            raise StartupError(f"{name} was not changed: {verdict.message}")

    async def settle(self, quiet_s: float) -> None:
        """Until nothing has changed for so long, or for a moment if no pod waits: nothing will, then. Times at which
        this process itself was held up do not count."""
        loop = asyncio.get_running_loop()
        quiet = 0
        while quiet * _TICK_S < (quiet_s if self.counts().waiting else _MOMENT_S):
            moved_s, began_s = self._moved_s, loop.time()
            await asyncio.sleep(_TICK_S)
            if self._moved_s != moved_s:
                quiet = 0
            elif loop.time() - began_s < 2 * _TICK_S:
                quiet += 1

    # -- what became of it -----------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        """The pods that have a node, by name."""
        return [name for name, pod in sorted(self._alive().items()) if pod["spec"].get("nodeName")]

    @property
    def removed(self) -> int:
        """How many machines were given back."""
        return len(self._autoscaler.removed)

    def counts(self) -> MachineCounts:
        alive = self._alive()
        busy = {pod["spec"].get("nodeName", "") for pod in alive.values()}
        running = len(self.running)
        return MachineCounts(
            bought=len(self._autoscaler.bought),
            idle=sum(name not in busy for name in self._seen[NODES]),
            unused=sum(name not in self._used for name in self._autoscaler.bought),
            running=running,
            waiting=len(alive) - running,
        )

    def _alive(self) -> dict[str, Object]:
        return {name: pod for name, pod in self._seen[PODS].items() if pod["status"].get("phase") not in _TERMINAL}


@contextlib.asynccontextmanager
async def start_demo_cluster(
    folder: Path, make: Callable[[], AutoscalerModel], component: str
) -> AsyncIterator[DemoCluster]:
    plan = ClusterOptions(
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
        sock = stack.enter_context(contextlib.closing(listen(plan.host, plan.port)))
        served = await serve(plan, sock, lambda line: None, stack)
        await components.start(plan, served, stack)
        autoscaler = AutoscalerRunner(make(), served.client(component), component)
        run_in_background(stack, autoscaler.run())
        arm = DemoCluster(served.client("headgate-demo"), autoscaler)
        for resource in (PODS, NODES):
            run_in_background(stack, arm.follow(resource))
        yield arm
