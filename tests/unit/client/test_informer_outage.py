"""An informer and a server that stops and starts again, on a virtual clock: how long the informer needs afterwards."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator

import pytest

from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable

GOAL_S = 3.0
KILLED_S = 100.0
REFUSALS = (403, 429, 500, 503)


class RestartedServer:
    """It is killed at :data:`KILLED_S`. Then it refuses connections until ``starts_s``, answers with errors until
    ``ready_s``, and then works; all watches are too old. Only ``sleep`` moves the clock."""

    def __init__(self, starts_s: float, ready_s: float, seed: int) -> None:
        self.now_s = 0.0
        self.starts_s, self.ready_s = starts_s, ready_s
        self.chance = random.Random(seed)
        self.synced_s: list[float] = []
        self.applied_s: list[float] = []
        self.requests = 0
        self.over = asyncio.Event()

    async def handle(self, request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        self.requests += 1
        is_watch = "watch=true" in request.query
        if self.now_s < KILLED_S:
            return self.watch_until_killed() if is_watch else listed(7)
        if self.now_s < self.starts_s:
            raise Unreachable("connection refused", sent=False, connected=False)
        if self.now_s < self.ready_s:
            code = self.chance.choice(REFUSALS)
            headers = {"retry-after": {429: "1", 503: "5"}[code]} if code in (429, 503) else {}
            return HTTPResponse(code, headers, b"{}")
        if not is_watch:
            return listed(9)
        if "resourceVersion=7" in request.query:
            return HTTPResponse(410, {}, b"{}")
        return self.live_watch()

    async def watch_until_killed(self) -> AsyncGenerator[bytes, None]:
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}).encode() + b"\n"
        self.now_s = KILLED_S
        raise Unreachable("the connection broke")

    async def live_watch(self) -> AsyncGenerator[bytes, None]:
        pod = {"metadata": {"name": "new", "uid": "u", "resourceVersion": "10"}}
        yield json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n"
        self.over.set()
        await asyncio.Event().wait()

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)

    def observe(self, event: InformerEvent) -> None:
        if isinstance(event, ListSynced):
            self.synced_s.append(self.now_s)
        elif isinstance(event, ObjectApplied):
            self.applied_s.append(self.now_s)

    def run(self) -> None:
        async def main() -> None:
            transport = InProcessTransport(self.handle)
            informer = Informer(transport, "/api/v1/pods", self.observe, jitter=self.chance.random, sleep=self.sleep)
            task = asyncio.create_task(informer.run())
            async with asyncio.timeout(20):
                await self.over.wait()
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(main())


def listed(revision: int) -> HTTPResponse:
    return HTTPResponse(200, {}, json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": []}).encode())


@pytest.mark.parametrize("starting_s", [0.0, 2.0, 10.0, 20.0])
@pytest.mark.parametrize("outage_s", [0.0, 1.0, 12.0, 60.0, 600.0])
def test_an_informer_has_caught_up_within_three_seconds_of_the_end_of_an_outage(
    outage_s: float, starting_s: float
) -> None:
    for seed in range(10):
        starts_s = KILLED_S + outage_s
        server = RestartedServer(starts_s, starts_s + starting_s, seed)
        server.run()
        assert len(server.synced_s) == 2, "the list before, and the list after"
        assert server.applied_s[0] - server.ready_s <= GOAL_S, (outage_s, starting_s, seed)


def test_an_outage_of_two_hours_costs_less_than_two_connection_attempts_a_second() -> None:
    server = RestartedServer(KILLED_S + 7200.0, KILLED_S + 7200.0, seed=1)
    server.run()
    assert server.requests < 7200
