"""A scheduler that is killed at every write, before the request and before the response.

It runs on the embedded server in this process; the next scheduler starts from the objects of that server. Each pod is
bound once, the pods fill their nodes exactly, and the pod that does not fit has a condition.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from clusters import a_node, a_pod
from headgate.client.io.writer import Writer
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport
from headgate.runtime.scheduler.runner import SchedulerRunner
from unit.runtime.serving import a_server, ask, until
from unit.runtime.test_scheduler_runner import PODS, a_scheduler

Object = dict[str, Any]


class DyingTransport:
    """A ``Transport`` whose owner dies at write number ``at``, before it is sent or when it was carried out."""

    def __init__(self, transport: Transport, bound: Counter[str], at: int = 0, *, sent: bool = False) -> None:
        self._transport = transport
        self._at = at
        self._sent = sent
        self._bound = bound
        self.writes = 0
        self.dead = asyncio.Event()

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.method == "GET" or request.path.endswith("/events"):
            return await self._transport.request(request)
        self.writes += 1
        dies = self.writes == self._at
        if dies and not self._sent:
            await self._die()
        response = await self._transport.request(request)
        if request.path.endswith("/binding") and response.ok:
            self._bound[request.path.split("/")[-2]] += 1
        if dies:
            await self._die()
        return response

    async def _die(self) -> None:
        self.dead.set()
        await asyncio.Event().wait()

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        pass


async def fill(server: Transport) -> None:
    """Three nodes, as much as they hold, and one pod more."""
    await ask(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    for node in "abc":
        await ask(server, "POST", "/api/v1/nodes", a_node(node, cpu="2"))
    for name, cpu in (("p", 2), ("q", 2), ("r", 2), ("huge", 9)):
        pod = a_pod(name, {"cpu": str(cpu)})
        del pod["metadata"]["uid"]
        status, told = await ask(server, "POST", PODS, pod)
        assert status == 201, told


async def live(transport: DyingTransport, server: Transport) -> None:
    """A scheduler until its death, or until there is nothing left to do."""
    writer = Writer(transport, jitter=random.random, sleep=asyncio.sleep)
    running = asyncio.create_task(SchedulerRunner(a_scheduler, transport, writer).run())

    async def is_over() -> bool:
        assert not running.done(), running
        return transport.dead.is_set() or is_settled(await pods_of(server))

    await until(is_over)
    running.cancel()
    await asyncio.wait([running])


async def pods_of(server: Transport) -> dict[str, Object]:
    _, listed = await ask(server, "GET", PODS)
    return {each["metadata"]["name"]: each for each in listed["items"]}


def is_settled(pods: dict[str, Object]) -> bool:
    reasons = [each.get("reason") for each in pods["huge"]["status"].get("conditions") or ()]
    return reasons == ["Unschedulable"] and all(pods[name]["spec"].get("nodeName") for name in "pqr")


def test_whichever_write_is_its_last_the_next_one_finishes_the_work() -> None:
    async def scenario(at: int, *, sent: bool) -> int:
        """How many writes the first one made."""
        bound: Counter[str] = Counter()
        async with a_server() as server:
            await fill(server)
            first = DyingTransport(server, bound, at, sent=sent)
            await live(first, server)
            if at:
                await live(DyingTransport(server, bound), server)
            pods = await pods_of(server)
        assert is_settled(pods)
        assert max(bound.values(), default=0) <= 1, bound  # some were bound and their answers not heard any more
        assert {pods[name]["spec"]["nodeName"] for name in "pqr"} == {"a", "b", "c"}
        return first.writes

    all_writes = asyncio.run(scenario(0, sent=False))
    assert all_writes >= 4
    for at in range(1, all_writes + 1):
        for sent in (False, True):
            asyncio.run(scenario(at, sent=sent))
