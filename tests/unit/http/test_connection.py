"""Requests and answers on one line: what is written, in how many pieces, in which order."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from embedded import TOKEN, Embedded
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.io.http_connection import Connection, ConnectionContext
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import TLSServerProtocol
from headgate.store.io.committer import Committer

LIMITS = ServerLimits(unsent_bytes=100_000)
HEAD = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\nUser-Agent: test\r\nContent-Type: application/json\r\n"
MAPS = "/api/v1/namespaces/t/configmaps"


class Written:
    """A line that remembers what is written to it; its client reads when the test says so."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        self.stalled = False
        self.client_certificate = None
        self.source = "127.0.0.1"
        self.waiting_bytes: Callable[[], int] = int
        self.waits: list[float | None] = []

    def write(self, data: bytes | memoryview) -> None:
        self.writes.append(bytes(data))

    def wait(self, seconds: float | None) -> None:
        self.waits.append(seconds)

    def hold_input(self, hold: bool) -> None: ...
    def close(self, *, linger: bool = False) -> None:
        self.closed = True

    def abort(self, reason: str) -> None: ...
    def finish(self) -> None: ...


Scenario = Callable[[Written, Connection], Coroutine[Any, Any, None]]


def play(scenario: Scenario, limits: ServerLimits = LIMITS) -> None:
    async def run() -> None:
        api = Embedded().api
        endpoint = APIServer(api)
        committer = Committer(api.store, None, publish=endpoint.publish)
        endpoint.attach(committer)
        line = Written()
        await scenario(
            line,
            Connection(ConnectionContext(endpoint, ConnectionTracker(limits), limits), cast(TLSServerProtocol, line)),
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


async def answered(line: Written) -> None:
    """A request with a long body is worked on in a thread."""
    async with asyncio.timeout(30):
        while not line.writes:
            await asyncio.sleep(0.001)
    await settle()


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def test_head_and_body_leave_in_one_write() -> None:
    async def scenario(line: Written, connection: Connection) -> None:
        connection.received(request("GET /api/v1/namespaces/t"))
        (answer,) = line.writes
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"}\n")

    play(scenario)


def test_answers_keep_the_order_of_requests_that_came_at_once() -> None:
    async def scenario(line: Written, connection: Connection) -> None:
        create = request(f"POST {MAPS}", '{"metadata":{"name":"a"}}')
        connection.received(create + request(f"GET {MAPS}/a") + request(f"GET {MAPS}/b"))
        await settle()
        assert [answer[9:12] for answer in line.writes] == [b"201", b"200", b"404"]

    play(scenario)


def test_a_long_answer_leaves_in_pieces_and_none_while_the_client_does_not_read() -> None:
    async def scenario(line: Written, connection: Connection) -> None:
        long = '{"metadata":{"name":"a"},"data":{"x":"' + "y" * 350_000 + '"}}'
        connection.received(request(f"POST {MAPS}", long))
        await answered(line)
        line.writes.clear()
        line.stalled = True
        connection.received(request(f"GET {MAPS}/a"))
        await settle()
        assert len(line.writes) == 2
        assert line.waiting_bytes() > 200_000
        line.stalled = False
        connection.may_write()
        await settle()
        assert len(line.writes) > 3
        assert all(len(piece) <= LIMITS.unsent_bytes for piece in line.writes)
        assert b"".join(line.writes).endswith(b'y"}}\n')

    play(scenario)


def test_a_long_answer_is_compressed_for_who_wants_it() -> None:
    async def scenario(line: Written, connection: Connection) -> None:
        long = '{"metadata":{"name":"a"},"data":{"x":"' + "y" * 350_000 + '"}}'
        connection.received(request(f"POST {MAPS}", long))
        await answered(line)
        line.writes.clear()
        connection.received(request(f"GET {MAPS}/a", fields="Accept-Encoding: gzip\r\n"))
        while not line.writes:
            await asyncio.sleep(0.001)
        (answer,) = line.writes
        assert b"Content-Encoding: gzip\r\n" in answer
        assert b"y" * 350_000 in gzip.decompress(body_of(answer))

    play(scenario)


def test_events_that_gathered_leave_in_one_write_and_the_end_of_a_watch_is_marked() -> None:
    async def scenario(line: Written, connection: Connection) -> None:
        connection.received(request(f"GET {MAPS}?watch=true&resourceVersion=1&timeoutSeconds=3600"))
        other = Written()
        writer = Connection(connection._hub, cast(TLSServerProtocol, other))
        line.writes.clear()
        line.stalled = True
        for name in "abc":
            writer.received(request(f"POST {MAPS}", f'{{"metadata":{{"name":"{name}"}}}}'))
        await settle()
        assert not line.writes
        line.stalled = False
        connection.may_write()
        (events,) = line.writes
        assert events.count(b'"type":"ADDED"') == 3
        connection._hub.endpoint.stop()
        await settle()
        assert line.writes[-1].endswith(b"0\r\n\r\n")

    play(scenario)


def test_a_body_has_so_long_in_all_and_so_long_between_two_pieces() -> None:
    async def scenario(line: Written, connection: Connection) -> None:
        connection.received(request(f"POST {MAPS}", fields="Content-Length: 100\r\n"))
        assert line.waits[-1] == 30.0
        connection._body_ends_s -= 50.0  # as if it had come slowly so far
        connection.received(b" ")
        assert 9.0 < (line.waits[-1] or 0.0) <= 10.0
        connection._body_ends_s -= 50.0
        connection.received(b" ")
        assert line.waits[-1] == 0.0
        connection.expired()
        assert line.writes[-1].startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")
        assert line.closed

    play(scenario)


def test_broken_chunks_are_a_bad_request_and_the_end_of_the_connection() -> None:
    async def scenario(line: Written, connection: Connection) -> None:
        connection.received(request(f"POST {MAPS}", fields="Transfer-Encoding: chunked\r\n") + b"zz\r\n{}\r\n0\r\n\r\n")
        (answer,) = line.writes
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b'"reason":"BadRequest"' in answer
        assert line.closed

    play(scenario)


def test_long_heads_that_do_not_end_are_bounded_together() -> None:
    limits = ServerLimits(heads_in_all_bytes=100_000)

    async def scenario(line: Written, connection: Connection) -> None:
        lines = [Written() for _ in range(5)]
        crowd = [Connection(connection._hub, cast(TLSServerProtocol, each)) for each in lines]
        for each in crowd:
            each.received(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 60_000)
        assert [each.closed for each in lines] == [False, False, True, True, True]
        connection.received(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 10_000)
        assert not line.closed
        connection.received(b"\r\n\r\n")
        assert line.writes[-1].startswith(b"HTTP/1.1 403 Forbidden\r\n")
        crowd[0].received(b"\r\n\r\n")
        await answered(lines[0])  # a head that long is judged beside the event loop
        assert lines[0].writes[-1].startswith(b"HTTP/1.1 403 Forbidden\r\n")
        for closed in lines[2:]:
            connection._hub.accounts.remove(cast(TLSServerProtocol, closed))
        last = Written()
        Connection(connection._hub, cast(TLSServerProtocol, last)).received(b"GET / HTTP/1.1\r\nX: " + b"y" * 60_000)
        assert not last.closed, "what is complete is counted no more"

    play(scenario, limits)


@pytest.mark.parametrize("number", [16, 17, 33, 50])
def test_requests_that_come_at_once_are_all_answered_however_many_there_are(number: int) -> None:
    """A turn of the event loop answers a few of them, and the next turns answer the rest."""

    async def scenario(line: Written, connection: Connection) -> None:
        connection.received(request("GET /api/v1/namespaces/t") * number)
        assert len(line.writes) == 16
        await settle()
        assert [answer[9:12] for answer in line.writes] == [b"200"] * number
        connection.received(request("GET /api/v1/namespaces/u"))
        await settle()
        assert line.writes[number][9:12] == b"404"

    play(scenario)
