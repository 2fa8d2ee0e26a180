"""Requests and responses on one connection: what is written, in how many pieces, in which order."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from embedded import TOKEN, Embedded
from harness.fake_protocol import FakeProtocol
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.io.http_handler import APIRequestHandler
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.server_connection import ServerConnection, ServerContext
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import ServerProtocol
from headgate.store.io.committer import Committer

LIMITS = ServerLimits(unsent_bytes=100_000)
HEAD = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\nUser-Agent: test\r\nContent-Type: application/json\r\n"
MAPS = "/api/v1/namespaces/t/configmaps"


Scenario = Callable[[FakeProtocol, ServerConnection], Coroutine[Any, Any, None]]


def run_scenario(scenario: Scenario, limits: ServerLimits = LIMITS) -> None:
    async def run() -> None:
        api = Embedded().api
        endpoint = APIServer(api)
        committer = Committer(api.store, None, publish=endpoint.publish)
        endpoint.attach(committer)
        context = ServerContext(APIRequestHandler(endpoint, limits), ConnectionTracker(limits), limits)
        protocol = FakeProtocol()
        await scenario(
            protocol,
            ServerConnection(context, cast(ServerProtocol, protocol)),
        )
        await endpoint.close()
        await committer.close()

    asyncio.run(run())


def request(line: str, body: str = "", fields: str = "") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{line} HTTP/1.1\r\n{HEAD}{fields}{length}\r\n{body}".encode()


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def wait_for_response(protocol: FakeProtocol) -> None:
    """A request with a long body is handled in a thread."""
    async with asyncio.timeout(30):
        while not protocol.writes:
            await asyncio.sleep(0.001)
    await settle()


def endpoint_of(connection: ServerConnection) -> APIServer:
    handler = connection._context.handler
    assert isinstance(handler, APIRequestHandler)
    return handler._endpoint


def body_of(response: bytes) -> bytes:
    return response.partition(b"\r\n\r\n")[2]


def test_head_and_body_are_sent_in_one_write() -> None:
    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        connection.received(request("GET /api/v1/namespaces/t"))
        (response,) = protocol.writes
        assert response.startswith(b"HTTP/1.1 200 OK\r\n")
        assert response.endswith(b"}\n")

    run_scenario(scenario)


def test_responses_keep_the_order_of_pipelined_requests() -> None:
    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        create = request(f"POST {MAPS}", '{"metadata":{"name":"a"}}')
        connection.received(create + request(f"GET {MAPS}/a") + request(f"GET {MAPS}/b"))
        await settle()
        assert [response[9:12] for response in protocol.writes] == [b"201", b"200", b"404"]

    run_scenario(scenario)


def test_a_long_response_is_sent_in_pieces_and_only_while_the_client_reads() -> None:
    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        long = '{"metadata":{"name":"a"},"data":{"x":"' + "y" * 350_000 + '"}}'
        connection.received(request(f"POST {MAPS}", long))
        await wait_for_response(protocol)
        protocol.writes.clear()
        protocol.stalled = True
        connection.received(request(f"GET {MAPS}/a"))
        await settle()
        assert len(protocol.writes) == 2
        assert protocol.waiting_bytes() > 200_000
        protocol.stalled = False
        connection.may_write()
        await settle()
        assert len(protocol.writes) > 3
        assert all(len(piece) <= LIMITS.unsent_bytes for piece in protocol.writes)
        assert b"".join(protocol.writes).endswith(b'y"}}\n')

    run_scenario(scenario)


def test_a_long_response_is_compressed_for_a_client_that_accepts_gzip() -> None:
    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        long = '{"metadata":{"name":"a"},"data":{"x":"' + "y" * 350_000 + '"}}'
        connection.received(request(f"POST {MAPS}", long))
        await wait_for_response(protocol)
        protocol.writes.clear()
        connection.received(request(f"GET {MAPS}/a", fields="Accept-Encoding: gzip\r\n"))
        while not protocol.writes:
            await asyncio.sleep(0.001)
        (response,) = protocol.writes
        assert b"Content-Encoding: gzip\r\n" in response
        assert b"y" * 350_000 in gzip.decompress(body_of(response))

    run_scenario(scenario)


def test_pending_watch_events_are_sent_in_one_write_and_a_last_chunk_ends_the_watch() -> None:
    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        connection.received(request(f"GET {MAPS}?watch=true&resourceVersion=1&timeoutSeconds=3600"))
        other = FakeProtocol()
        writer = ServerConnection(connection._context, cast(ServerProtocol, other))
        protocol.writes.clear()
        protocol.stalled = True
        for name in "abc":
            writer.received(request(f"POST {MAPS}", f'{{"metadata":{{"name":"{name}"}}}}'))
        await settle()
        assert not protocol.writes
        protocol.stalled = False
        connection.may_write()
        (events,) = protocol.writes
        assert events.count(b'"type":"ADDED"') == 3
        endpoint_of(connection).stop()
        await settle()
        assert protocol.writes[-1].endswith(b"0\r\n\r\n")

    run_scenario(scenario)


def test_a_body_has_a_total_deadline_and_a_deadline_between_two_pieces() -> None:
    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        connection.received(request(f"POST {MAPS}", fields="Content-Length: 100\r\n"))
        assert protocol.deadlines[-1] == 30.0
        connection._body_ends_s -= 50.0  # as if the body had arrived slowly
        connection.received(b" ")
        assert 9.0 < (protocol.deadlines[-1] or 0.0) <= 10.0
        connection._body_ends_s -= 50.0
        connection.received(b" ")
        assert protocol.deadlines[-1] == 0.0
        connection.expired()
        assert protocol.writes[-1].startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")
        assert protocol.closed

    run_scenario(scenario)


def test_malformed_chunks_get_400_and_the_connection_is_closed() -> None:
    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        connection.received(request(f"POST {MAPS}", fields="Transfer-Encoding: chunked\r\n") + b"zz\r\n{}\r\n0\r\n\r\n")
        (response,) = protocol.writes
        assert response.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b'"reason":"BadRequest"' in response
        assert protocol.closed

    run_scenario(scenario)


def test_incomplete_long_heads_are_limited_in_total() -> None:
    limits = ServerLimits(total_head_bytes=100_000)

    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        protocols = [FakeProtocol() for _ in range(5)]
        connections = [ServerConnection(connection._context, cast(ServerProtocol, each)) for each in protocols]
        for each in connections:
            each.received(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 60_000)
        assert [each.closed for each in protocols] == [False, False, True, True, True]
        connection.received(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 10_000)
        assert not protocol.closed
        connection.received(b"\r\n\r\n")
        assert protocol.writes[-1].startswith(b"HTTP/1.1 403 Forbidden\r\n")
        connections[0].received(b"\r\n\r\n")
        await wait_for_response(protocols[0])  # a long head is handled outside the event loop
        assert protocols[0].writes[-1].startswith(b"HTTP/1.1 403 Forbidden\r\n")
        for closed in protocols[2:]:
            connection._context.tracker.remove(cast(ServerProtocol, closed))
        last = FakeProtocol()
        ServerConnection(connection._context, cast(ServerProtocol, last)).received(
            b"GET / HTTP/1.1\r\nX: " + b"y" * 60_000
        )
        assert not last.closed, "what is complete is counted no more"

    run_scenario(scenario, limits)


@pytest.mark.parametrize("number", [16, 17, 33, 50])
def test_all_pipelined_requests_are_answered(number: int) -> None:
    """One turn of the event loop answers some of them, and the next turns answer the rest."""

    async def scenario(protocol: FakeProtocol, connection: ServerConnection) -> None:
        connection.received(request("GET /api/v1/namespaces/t") * number)
        assert len(protocol.writes) == 16
        await settle()
        assert [response[9:12] for response in protocol.writes] == [b"200"] * number
        connection.received(request("GET /api/v1/namespaces/u"))
        await settle()
        assert protocol.writes[number][9:12] == b"404"

    run_scenario(scenario)
