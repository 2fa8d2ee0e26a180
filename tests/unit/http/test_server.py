"""The server with a small handler, over plain HTTP and over TLS, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from event_loops import Run, on_both_loops
from headgate.http.certificates import CertificateKeyPair, make_authority, make_server_certificate
from headgate.http.request_handler import ClientPeer, HandlerResponse, RequestProblem
from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest
from headgate.http.server import HTTPServer, _within_file_limit, listen
from headgate.http.server_limits import ServerLimits
from headgate.http.server_tls import key_pair_context

LIMITS = ServerLimits(
    body_bytes=100, body_bytes_of_path={"/long": 1000}, head_s=0.3, body_s=0.3, idle_s=0.3, stop_s=0.3, handshake_s=0.3
)
POST = b"POST /echo HTTP/1.1\r\nHost: x\r\n"


class CountedStream:
    """A body in three parts; the last part is delayed."""

    def __init__(self) -> None:
        self._remaining = 3
        self._wake: Callable[[], None] = lambda: None
        self.closed = False

    def begin(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def take(self, now_s: float, limit_bytes: int) -> bytes:
        self._remaining -= 1
        if self._remaining == 1:
            asyncio.get_running_loop().call_later(0.01, self._wake)
        return f"part {2 - self._remaining};".encode()

    @property
    def ended(self) -> bool:
        return self._remaining == 0

    @property
    def behind(self) -> bool:
        return self._remaining > 1

    @property
    def due_s(self) -> float:
        return asyncio.get_running_loop().time() + 3600

    def close(self) -> None:
        self.closed = True


class EchoHandler:
    def __init__(self) -> None:
        self.handled: list[str] = []
        self.stream = CountedStream()

    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        return head.path != "/unread"

    def handle(
        self, request: ReceivedRequest, peer: ClientPeer
    ) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]:
        path = request.head.path
        self.handled.append(path)
        if path == "/bug":
            raise RuntimeError("a bug")
        if path == "/parts":
            return HandlerResponse(200, self.stream)
        if path == "/later":
            return self._later()
        return HandlerResponse(200 if request.complete else 413, b"%d:" % len(request.body) + request.body[:10])

    async def _later(self) -> HandlerResponse:
        await asyncio.sleep(0.05)
        return HandlerResponse(200, b"later", closes=True)

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        return None


@contextlib.asynccontextmanager
async def serving(limits: ServerLimits = LIMITS) -> AsyncIterator[tuple[int, EchoHandler]]:
    handler = EchoHandler()
    async with HTTPServer(handler, limits, None).listening("127.0.0.1", 0) as port:
        yield port, handler


async def exchange(port: int, sent: bytes, *, ends: bool = True) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        if ends:
            writer.write_eof()
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def bodies(received: bytes) -> list[bytes]:
    return [each.partition(b"\r\n\r\n")[2] for each in received.split(b"HTTP/1.")[1:]]


@on_both_loops
def test_pipelined_requests_are_answered_in_order_even_if_one_is_slow(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (port, handler):
            first = POST + b"Content-Length: 2\r\n\r\n{}"
            received = await exchange(port, first + b"GET /later HTTP/1.1\r\nHost: x\r\n\r\n")
            assert bodies(received) == [b"2:{}", b"later"]
            assert handler.handled == ["/echo", "/later"]

    run(scenario())


@on_both_loops
def test_a_server_that_closes_after_responses_still_accepts_connections(run: Run) -> None:
    """The request that was in progress gets the header, too."""

    async def scenario() -> None:
        server = HTTPServer(EchoHandler(), LIMITS, None)
        async with server.listening("127.0.0.1", 0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(POST + b"Content-Length: 2\r\n\r\n{}" + POST + b"Content-Length: 2\r\n\r\n{")
            assert b"Connection: close" not in await reader.readuntil(b"2:{}")
            server.close_after_responses()
            writer.write(b"}")
            assert b"Connection: close" in await reader.read()
            writer.close()
            assert b"Connection: close" in await exchange(port, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", ends=False)

    run(scenario())


@on_both_loops
def test_a_client_that_closes_its_half_gets_every_response(run: Run) -> None:
    """More requests than one turn of the event loop handles."""

    async def scenario() -> None:
        async with serving() as (port, _):
            assert bodies(await exchange(port, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * 40)) == [b"0:"] * 40

    run(scenario())


@on_both_loops
def test_a_streamed_body_is_chunked_and_for_http_1_0_ends_with_the_connection(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as (port, handler):
            received = await exchange(port, b"GET /parts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", ends=False)
            assert received.endswith(b"7\r\npart 0;\r\n7\r\npart 1;\r\n7\r\npart 2;\r\n0\r\n\r\n")
            assert handler.stream.closed
        async with serving() as (port, _):
            received = await exchange(port, b"GET /parts HTTP/1.0\r\n\r\n", ends=False)
            assert bodies(received) == [b"part 0;part 1;part 2;"]

    run(scenario())


def test_a_stream_is_closed_when_its_client_disconnects() -> None:
    async def scenario() -> None:
        async with serving() as (port, handler):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /parts HTTP/1.1\r\nHost: x\r\n\r\n")
            writer.transport.abort()
            while not handler.stream.closed and "/parts" not in handler.handled:
                await asyncio.sleep(0)
        assert handler.stream.closed or not handler.handled

    asyncio.run(asyncio.wait_for(scenario(), 10))


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        (POST + b"Content-Length: 102\r\n\r\n" + b"x" * 102, 413, b"101:xxxxxxxxxx"),
        (b"POST /long HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n" + b"x" * 101, 200, b"101:xxxxxxxxxx"),
        (b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nx", 413, b"0:"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, b"invalid byte in chunk length\n"),
        (POST + b"Content-Length: 50\r\n\r\nx", 408, b"the body was not complete in time\n"),
        (b"GET /bug HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 500, b"Internal Server Error\n"),
        (b"GET /a HTTP/1.1\r\n\r\n", 400, b"400 Bad Request: missing required Host header"),
        (b"GET a HTTP/1.1\r\n\r\n", 400, b"400 Bad Request"),
        (POST + b"Expect: more\r\n\r\n", 417, b""),
    ],
)
def test_every_problem_gets_a_response_and_closes_the_connection(sent: bytes, status: int, body: bytes) -> None:
    async def scenario() -> bytes:
        async with serving() as (port, _):
            return await exchange(port, sent, ends=False)

    received = asyncio.run(scenario())
    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert bodies(received) == [body]


def test_incomplete_bodies_are_bounded_in_total_and_a_complete_one_counts_no_more() -> None:
    limits = msgspec.structs.replace(LIMITS, total_body_bytes=60, body_s=20.0)

    async def scenario() -> None:
        async with serving(limits) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(POST + b"Content-Length: 50\r\n\r\n" + b"x" * 40)
            while not (received := await exchange(port, POST + b"Content-Length: 50\r\n\r\n" + b"x" * 40)):
                pass  # the first body has not arrived yet, and this one was cut off
            assert received.startswith(b"HTTP/1.1 429 ")
            assert bodies(received) == [b"Too many requests, please try again later.\n"]
            writer.write(b"x" * 10)
            assert (await reader.readuntil(b"50:xxxxxxxxxx")).startswith(b"HTTP/1.1 200 ")
            writer.close()
            await writer.wait_closed()

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_100_continue_is_sent_to_a_client_that_expects_it() -> None:
    async def scenario() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"{}")
            assert (await reader.readuntil(b"2:{}")).startswith(b"HTTP/1.1 200 OK\r\n")
            writer.close()
            await writer.wait_closed()

    asyncio.run(asyncio.wait_for(scenario(), 10))


@pytest.mark.parametrize("sent", [b"", b"GET /a HT", POST + b"Content-Length: 2\r\n\r\n{}"])
def test_a_connection_without_further_bytes_is_closed(sent: bytes) -> None:
    async def scenario() -> bytes:
        async with serving() as (port, _):
            return await exchange(port, sent, ends=False)

    assert len(bodies(asyncio.run(scenario()))) == (1 if sent.endswith(b"{}") else 0)


def test_a_stop_waits_for_the_response_in_progress() -> None:
    async def scenario() -> bytes:
        async with serving() as (port, handler):
            request_task = asyncio.create_task(exchange(port, b"GET /later HTTP/1.1\r\nHost: x\r\n\r\n", ends=False))
            while not handler.handled:
                await asyncio.sleep(0)
        return await request_task

    assert bodies(asyncio.run(scenario())) == [b"later"]


def pair_of(authority: CertificateKeyPair, name: str) -> CertificateKeyPair:
    return make_server_certificate(authority, name, ["127.0.0.1"], datetime.datetime.now(datetime.UTC))


@on_both_loops
def test_new_connections_use_the_new_certificate_and_open_ones_keep_the_old_one(run: Run) -> None:
    async def scenario() -> None:
        authority = make_authority("test-ca", datetime.datetime.now(datetime.UTC))
        trust = ssl.create_default_context(cadata=authority.certificate.decode())
        server = HTTPServer(EchoHandler(), msgspec.structs.replace(LIMITS, idle_s=10.0), None)
        server.use_tls(key_pair_context(pair_of(authority, "first")))

        async def get_subject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
            writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n0:")
            subject = writer.get_extra_info("peercert")["subject"]
            return str(subject[0][0][1])

        async with server.listening("127.0.0.1", 0) as port:
            kept = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            assert await get_subject(*kept) == "first"
            server.use_tls(key_pair_context(pair_of(authority, "second")))
            fresh = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            assert await get_subject(*fresh) == "second"
            assert await get_subject(*kept) == "first"
            for _, writer in (kept, fresh):
                writer.close()
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    await writer.wait_closed()

    run(scenario())


def test_plain_http_to_a_tls_port_gets_an_explanation() -> None:
    async def scenario() -> bytes:
        authority = make_authority("test-ca", datetime.datetime.now(datetime.UTC))
        server = HTTPServer(EchoHandler(), LIMITS, key_pair_context(pair_of(authority, "x")))
        async with server.listening("127.0.0.1", 0) as port:
            return await exchange(port, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", ends=False)

    assert asyncio.run(scenario()).endswith(b"Client sent an HTTP request to an HTTPS server.\n")


def test_accepted_connections_have_tcp_nodelay() -> None:
    """Nagle's algorithm and a client's delayed acknowledgement would cost 40 ms per response."""

    async def accepted_option() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock: socket.socket = writer.get_extra_info("socket")
            seen.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        sock = listen("127.0.0.1", 0)
        async with await asyncio.start_server(accepted, sock=sock):
            _, writer = await asyncio.open_connection(*sock.getsockname())
            try:
                return await seen
            finally:
                writer.close()
                await writer.wait_closed()

    assert asyncio.run(accepted_option()) == 1


@pytest.mark.parametrize(
    ("files", "requested", "connections"),
    [(1000, 5000, 936), (1000, 936, 936), (1000, 935, 935), (1000, 10, 10), (66, 10, 2), (65, 10, 1), (30, 10, 1)],
)
def test_connections_are_bounded_by_the_files_that_the_process_may_open(
    files: int, requested: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: None)
    assert _within_file_limit(ServerLimits(connections=requested)).connections == connections
