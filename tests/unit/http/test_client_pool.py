"""The pool reuses connections, closes idle ones, and drops them when the TLS settings change."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from event_loops import Run, on_both_loops
from headgate.http.client_connection import HTTPClientConnection
from headgate.http.client_pool import ClientConnectionPool
from headgate.http.request_encoder import ServerAddress
from headgate.http.request_handler import ClientPeer, HandlerResponse, RequestProblem
from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest
from headgate.http.server import HTTPServer
from headgate.http.server_limits import ServerLimits

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class OkHandler:
    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        return True

    def handle(self, request: ReceivedRequest, peer: ClientPeer) -> HandlerResponse:
        return HandlerResponse(200, b"{}")

    def refuse(self, problem: RequestProblem) -> None:
        return None


@contextlib.asynccontextmanager
async def open_pool(keep_alive_s: float = 60.0) -> AsyncIterator[ClientConnectionPool]:
    async with HTTPServer(OkHandler(), ServerLimits(), None).listening("127.0.0.1", 0) as port:
        pool = ClientConnectionPool(ServerAddress("127.0.0.1", port, False, "x"), keep_alive_s=keep_alive_s)
        yield pool
        await pool.close()


async def fetch_once(pool: ClientConnectionPool) -> HTTPClientConnection:
    deadline_s = asyncio.get_running_loop().time() + 10
    connection = pool.idle_connection() or await pool.connect(deadline_s)
    assert (await pool.fetch(connection, REQUEST, deadline_s)).body() == b"{}"
    return connection


@on_both_loops
def test_a_connection_is_used_again_and_is_gone_after_the_close(run: Run) -> None:
    async def scenario() -> None:
        async with open_pool() as pool:
            first = await fetch_once(pool)
            assert await fetch_once(pool) is first
        assert first.closed

    run(scenario())


@on_both_loops
def test_an_idle_connection_is_closed_without_a_further_request(run: Run) -> None:
    async def scenario() -> None:
        async with open_pool(keep_alive_s=0.05) as pool:
            first = await fetch_once(pool)
            async with asyncio.timeout(10):
                while not first.closed:
                    await asyncio.sleep(0.01)
            assert pool.idle_connection() is None

    run(scenario())


def test_only_the_longest_idle_connections_expire() -> None:
    async def scenario() -> None:
        async with open_pool(keep_alive_s=0.4) as pool:
            loop = asyncio.get_running_loop()
            first, second = [await pool.connect(loop.time() + 10) for _ in range(2)]
            for connection in (first, second):
                await pool.fetch(connection, REQUEST, loop.time() + 10)
            while not first.closed:
                assert await fetch_once(pool) is second
                await asyncio.sleep(0.01)
            assert not second.closed

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_new_tls_settings_close_idle_connections_and_those_in_use_after_their_response() -> None:
    async def scenario() -> None:
        async with open_pool() as pool:
            idle, used = await fetch_once(pool), await pool.connect(asyncio.get_running_loop().time() + 10)
            under_way = asyncio.create_task(pool.fetch(used, REQUEST, asyncio.get_running_loop().time() + 10))
            await asyncio.sleep(0)
            pool.use_tls(ssl.create_default_context())
            assert idle.closed
            assert (await under_way).status == 200
            assert used.closed
            assert pool.idle_connection() is None

    asyncio.run(scenario())
