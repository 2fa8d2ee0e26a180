"""Whether the API server is reached, as the transports of watches and the heartbeat see it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from headgate.client.io.observed_transport import ObservedTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable

WATCH = HTTPRequest("GET", "/api/v1/pods", "watch=true", {})


class Server:
    """A transport whose answer a test sets: a status, or None for a server that cannot be reached."""

    def __init__(self) -> None:
        self.status: int | None = 200
        self.asked = asyncio.Event()

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self.asked.set()
        if self.status is None:
            raise Unreachable("connection refused")
        return HTTPResponse(self.status, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self.request(request)

    async def close(self) -> None:
        self.status = None


async def wait_for(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_reached():
            await asyncio.sleep(0)


def test_a_watch_without_a_connection_is_a_problem_until_it_has_one() -> None:
    changes: list[str] = []

    async def run() -> None:
        server = Server()
        observed = ObservedTransport(server, lambda: changes.append(observed.connection.problem))
        server.status = None
        for _ in range(2):
            with pytest.raises(Unreachable):
                await observed.stream(WATCH, idle_s=1)
        assert observed.connection.problem == "connection refused"
        assert observed.connection.since_s > 0
        server.status = 410
        await observed.stream(WATCH, idle_s=1)
        assert observed.connection.problem == ""

    asyncio.run(run())
    assert changes == ["connection refused", ""]


def test_the_problem_of_a_watch_that_does_not_begin_again_is_forgotten() -> None:
    async def run() -> tuple[str, str]:
        server = Server()
        observed = ObservedTransport(server, lambda: None)
        server.status = None
        with pytest.raises(Unreachable):
            await observed.stream(WATCH, idle_s=1)
        before = observed.connection.problem
        observed.forget_watches()
        return before, observed.connection.problem

    assert asyncio.run(run()) == ("connection refused", "")


@pytest.mark.parametrize(("status", "problem"), [(None, "connection refused"), (401, "credentials"), (403, "")])
def test_the_heartbeat_notices_a_server_that_does_not_answer(status: int | None, problem: str) -> None:
    async def run() -> str:
        server = Server()
        server.status = status
        observed = ObservedTransport(server, lambda: None)
        heartbeat = asyncio.create_task(observed.keep_asking())
        await server.asked.wait()
        if problem:
            await wait_for(lambda: bool(observed.connection.problem))
        heartbeat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await heartbeat
        return observed.connection.problem

    found = asyncio.run(run())
    assert problem in found
    assert bool(problem) == bool(found)
