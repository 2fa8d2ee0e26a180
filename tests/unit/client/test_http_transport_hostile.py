"""The HTTP transport with servers that close connections, stop sending, send too much, or send nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable

Talk = Callable[["Peer"], Coroutine[Any, Any, None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Peer:
    """The server's end of one connection; ``number`` counts them from 0."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self._reader = reader
        self.writer = writer
        self.number = number

    async def receive(self) -> str:
        """The request line of the next request; its body is read too."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        length = next((line.split(":")[1] for line in head.splitlines() if line.startswith("Content-Length")), "0")
        await self._reader.readexactly(int(length))
        return head.splitlines()[0]

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hang(self) -> None:
        """Until the other end closes."""
        while await self._reader.read(65536):
            pass


def play(talk: Talk, test: Callable[[HTTPTransport], Awaitable[None]], pool: int = 4) -> list[Peer]:
    peers: list[Peer] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, len(peers))
        peers.append(peer)
        try:
            await talk(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = HTTPTransport(RESTConfig(server=f"http://127.0.0.1:{port}"), pool=pool)
        try:
            async with asyncio.timeout(20):
                await test(transport)
        finally:
            await transport.close()
            server.close()
            await asyncio.wait_for(server.wait_closed(), 5)

    asyncio.run(run())
    return peers


async def once(peer: Peer) -> None:
    """Answers one request on each connection, keeps it open to the eye, and drops it when the next one comes."""
    await peer.receive()
    await peer.send(OK)
    await peer.receive()


def test_a_read_on_a_kept_connection_that_is_dead_is_sent_again() -> None:
    async def test(transport: HTTPTransport) -> None:
        for _ in range(3):
            assert (await transport.request(HTTPRequest("GET", "/"))).body == b"ok"

    assert len(play(once, test)) == 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_a_write_on_a_kept_connection_that_is_dead_is_not_and_may_have_arrived(method: str) -> None:
    async def test(transport: HTTPTransport) -> None:
        assert (await transport.request(HTTPRequest("GET", "/"))).ok
        with pytest.raises(Unreachable) as caught:
            await transport.request(HTTPRequest(method, "/", body=b"{}"))
        assert caught.value.sent

    assert len(play(once, test)) == 1


def test_a_read_is_not_sent_again_once_its_answer_began() -> None:
    async def half(peer: Peer) -> None:
        await peer.receive()
        await peer.send(OK)
        await peer.receive()
        await peer.send(OK[:20])

    async def test(transport: HTTPTransport) -> None:
        assert (await transport.request(HTTPRequest("GET", "/"))).ok
        with pytest.raises(Unreachable, match="too early"):
            await transport.request(HTTPRequest("GET", "/"))

    assert len(play(half, test)) == 1


def test_an_answer_that_does_not_come_in_time_is_given_up() -> None:
    async def silent(peer: Peer) -> None:
        await peer.receive()
        await peer.hang()

    async def test(transport: HTTPTransport) -> None:
        with pytest.raises(Unreachable, match="in time") as caught:
            await transport.request(HTTPRequest("GET", "/", timeout_s=0.05))
        assert caught.value.sent

    play(silent, test)


def test_a_request_that_gets_no_free_connection_in_time_is_not_sent() -> None:
    async def silent(peer: Peer) -> None:
        await peer.receive()
        await peer.hang()

    async def test(transport: HTTPTransport) -> None:
        first = asyncio.create_task(transport.request(HTTPRequest("GET", "/", timeout_s=0.4)))
        await asyncio.sleep(0)
        with pytest.raises(Unreachable, match="became free") as caught:
            await transport.request(HTTPRequest("POST", "/", timeout_s=0.05))
        assert not caught.value.sent
        with pytest.raises(Unreachable):
            await first

    assert len(play(silent, test, pool=1)) == 1


def test_many_requests_share_a_few_connections() -> None:
    async def talk(peer: Peer) -> None:
        while True:
            await peer.receive()
            await peer.send(OK)

    async def test(transport: HTTPTransport) -> None:
        responses = await asyncio.gather(*(transport.request(HTTPRequest("GET", f"/{n}")) for n in range(200)))
        assert all(response.body == b"ok" for response in responses)

    assert len(play(talk, test, pool=4)) <= 4


def test_the_response_to_a_cancelled_request_reaches_no_other_request() -> None:
    requests = asyncio.Event()

    async def echo(peer: Peer) -> None:
        while True:
            line = await peer.receive()
            requests.set()
            if "/slow" in line:
                await peer.hang()
            target = line.split()[1].encode()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target))

    async def test(transport: HTTPTransport) -> None:
        slow = asyncio.create_task(transport.request(HTTPRequest("GET", "/slow")))
        await requests.wait()
        slow.cancel()
        await asyncio.wait([slow])
        assert (await transport.request(HTTPRequest("GET", "/next"))).body == b"/next"

    assert len(play(echo, test, pool=1)) == 2


def test_what_comes_unasked_is_not_taken_for_the_next_answer() -> None:
    async def chatty(peer: Peer) -> None:
        await peer.receive()
        await peer.send(OK + OK.replace(b"ok", b"no"))
        await peer.hang()

    async def test(transport: HTTPTransport) -> None:
        assert [(await transport.request(HTTPRequest("GET", "/"))).body for _ in range(2)] == [b"ok", b"ok"]

    assert len(play(chatty, test)) == 2


def test_garbage_is_unreachable_in_words() -> None:
    async def garbage(peer: Peer) -> None:
        await peer.receive()
        await peer.send(b"220 mail.example ESMTP\r\n")
        await peer.hang()

    async def test(transport: HTTPTransport) -> None:
        with pytest.raises(Unreachable, match="is not valid HTTP"):
            await transport.request(HTTPRequest("GET", "/"))

    play(garbage, test)


def test_a_path_that_would_make_two_requests_of_one_is_never_sent() -> None:
    async def test(transport: HTTPTransport) -> None:
        with pytest.raises(ValueError, match="invalid path"):
            await transport.request(HTTPRequest("GET", "/a HTTP/1.1\r\nX: y"))
        with pytest.raises(ValueError, match="not a header value"):
            await transport.request(HTTPRequest("GET", "/", headers={"x": "a\r\nb: c"}))

    assert play(once, test) == []


async def opened(transport: HTTPTransport, idle_s: float = 5.0) -> LineStream:
    lines = await transport.stream(HTTPRequest("GET", "/"), idle_s=idle_s)
    assert not isinstance(lines, HTTPResponse)
    return lines


async def listen(transport: HTTPTransport, received: list[bytes], idle_s: float = 5.0) -> None:
    """Into ``heard``, line by line: what was heard before the break counts too."""
    lines = aiter(await opened(transport, idle_s))
    while (line := await anext(lines, None)) is not None:
        received.append(line)


def test_a_watch_that_falls_silent_is_noticed() -> None:
    async def stall(peer: Peer) -> None:
        await peer.receive()
        await peer.send(STREAM + b"4\r\n{}\n{\r\n")
        await peer.hang()

    async def test(transport: HTTPTransport) -> None:
        received: list[bytes] = []
        with pytest.raises(Unreachable, match="the server sent nothing"):
            await listen(transport, received, idle_s=0.05)
        assert received == [b"{}"]

    play(stall, test)


def test_a_watch_without_a_reader_stops_the_server_instead_of_filling_memory() -> None:
    sent = 0
    stuck = asyncio.Event()

    async def flood(peer: Peer) -> None:
        nonlocal sent
        await peer.receive()
        await peer.send(STREAM)
        chunk = b"10000\r\n" + b"x" * 65535 + b"\n\r\n"
        while True:
            peer.writer.write(chunk)
            try:
                async with asyncio.timeout(0.5):
                    await peer.writer.drain()
            except TimeoutError:
                stuck.set()
                return
            sent += 65536

    async def test(transport: HTTPTransport) -> None:
        lines = await opened(transport)
        await stuck.wait()
        await lines.close()

    play(flood, test)
    assert sent < 32 << 20  # what the kernel holds for both ends, and one MiB of ours


def test_a_watch_cut_at_any_byte_gives_whole_lines_and_then_the_break() -> None:
    whole = STREAM + b'8\r\n{"a":1}\n\r\n8\r\n{"b":2}\n\r\n0\r\n\r\n'

    async def cut(peer: Peer) -> None:
        await peer.receive()
        await peer.send(whole[: peer.number])

    async def test(transport: HTTPTransport) -> None:
        for length in range(len(whole)):
            received: list[bytes] = []
            with pytest.raises(Unreachable):
                await listen(transport, received)
            assert received == [b'{"a":1}', b'{"b":2}'][: len(received)], length
        assert [line async for line in await opened(transport)] == [b'{"a":1}', b'{"b":2}']

    play(cut, test)
