"""Writes of the API dispatcher through outages and conflicts of the API server, on a virtual clock."""

from __future__ import annotations

import asyncio

import pytest

from clusters import a_pod
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.client.io.writer import Writer
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable
from headgate.runtime.scheduler.api_dispatcher import APIDispatcher
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.effects import RemoveStamp
from unit.nodes.virtual_loop import run
from unit.scheduling.world import World

GOAL_S = 3.0


@pytest.mark.parametrize("outage_s", [0.0, 5.0, 20.0, 45.0])
def test_a_stamp_is_removed_within_three_seconds_of_the_end_of_an_outage(outage_s: float) -> None:
    removed_s: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def handle(request: HTTPRequest) -> HTTPResponse:
            if loop.time() < outage_s:
                raise Unreachable("connection refused", sent=False, connected=False)
            removed_s.append(loop.time())
            return HTTPResponse(200, {}, b"{}")

        writer = Writer(InProcessTransport(handle), jitter=lambda: 0.5, sleep=asyncio.sleep)
        answered = asyncio.Event()
        dispatcher = APIDispatcher(World().scheduler, writer, answered.set)
        pod = read_pod(a_pod("p", schedulerName="ours"), ShapeTable())
        assert isinstance(pod, PodInfo)
        dispatcher.perform([RemoveStamp(pod, "s")])
        await answered.wait()

    run(main())
    (at_s,) = removed_s
    assert at_s - outage_s <= GOAL_S


def test_the_removal_of_a_stamp_is_repeated_after_a_conflict() -> None:
    answers = [HTTPResponse(409, {}, b'{"kind":"Status","reason":"Conflict","message":"the object has been modified"}')]
    requests: list[HTTPRequest] = []

    async def main() -> None:
        async def handle(request: HTTPRequest) -> HTTPResponse:
            requests.append(request)
            return answers.pop() if answers else HTTPResponse(200, {}, b"{}")

        writer = Writer(InProcessTransport(handle), jitter=lambda: 0.5, sleep=asyncio.sleep)
        answered = asyncio.Event()
        dispatcher = APIDispatcher(World().scheduler, writer, answered.set)
        pod = read_pod(a_pod("p", schedulerName="ours"), ShapeTable())
        assert isinstance(pod, PodInfo)
        dispatcher.perform([RemoveStamp(pod, "s")])
        await answered.wait()

    run(main())
    first, second = requests
    assert first.body == second.body
