"""Health and metrics over HTTP: what probes and Prometheus get, and that no client can disturb the component."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from harness.fake_protocol import response_to
from headgate.runtime.health.handler import HealthHandler, HealthPage
from headgate.runtime.health.server import health_limits, serve_health

LIMITS = health_limits()


def broken() -> str:
    raise RuntimeError("no idea")


def answers(synced: str = "", *, breaks: bool = False) -> HealthHandler:
    ready = {"ping": lambda: "", "informer-sync": broken if breaks else lambda: synced}
    pages = {"/metrics": HealthPage("text/plain; version=0.0.4", lambda: b"scheduler_pending_pods 1\n")}
    return HealthHandler({"/livez": {"ping": lambda: ""}, "/readyz": ready}, pages)


def asked(target: str, to: HealthHandler | None = None, method: str = "GET") -> tuple[int, bytes]:
    response = response_to(to or answers(), f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), LIMITS)
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def test_all_is_well() -> None:
    assert asked("/livez") == (200, b"ok")
    assert asked("/readyz") == (200, b"ok")


def test_every_check_is_named_on_demand() -> None:
    assert asked("/readyz?verbose") == (200, b"[+]ping ok\n[+]informer-sync ok\nreadyz check passed\n")


def test_a_check_that_fails_says_why_and_the_others_stand_beside_it() -> None:
    status, body = asked("/readyz", answers("pods are not listed yet"))
    assert status == 500
    assert body == b"[+]ping ok\n[-]informer-sync failed: pods are not listed yet\nreadyz check failed\n"


def test_a_component_may_live_and_not_be_ready() -> None:
    assert asked("/livez", answers("pods are not listed yet")) == (200, b"ok")


def test_a_check_that_breaks_has_failed() -> None:
    status, body = asked("/readyz", answers(breaks=True))
    assert (status, b"RuntimeError: no idea" in body) == (500, True)


def test_metrics_are_a_page_of_text() -> None:
    response = response_to(answers(), b"GET /metrics HTTP/1.1\r\n\r\n", LIMITS)
    assert b"Content-Type: text/plain; version=0.0.4\r\n" in response
    assert response.endswith(b"\r\n\r\nscheduler_pending_pods 1\n")


def test_a_head_has_the_length_and_no_body() -> None:
    response = response_to(answers(), b"HEAD /metrics HTTP/1.1\r\n\r\n", LIMITS)
    assert b"Content-Length: 25\r\n" in response
    assert response.endswith(b"\r\n\r\n")


def test_a_page_that_breaks_is_an_error_and_not_an_end() -> None:
    pages = {"/metrics": HealthPage("text/plain", lambda: broken().encode())}
    assert asked("/metrics", HealthHandler({}, pages)) == (500, b"/metrics failed: RuntimeError: no idea\n")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /else HTTP/1.1", 404),
        ("POST /metrics HTTP/1.1", 405),
        ("DELETE /livez HTTP/1.1", 405),
        ("GET /metrics", 400),
        ("", 400),
        ("GET  /metrics HTTP/1.1", 400),
        ("GET /metrics SPDY/3", 400),
    ],
)
def test_other_requests_are_refused(line: str, status: int) -> None:
    answered = response_to(answers(), line.encode() + b"\r\n\r\n", LIMITS)
    assert answered.startswith(f"HTTP/1.1 {status} ".encode())


async def exchange(port: int, sent: bytes, *, ends: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        if ends:
            writer.write_eof()
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def test_a_probe_is_answered_over_a_connection_that_then_ends() -> None:
    async def scenario() -> bytes:
        async with serve_health(answers(), "127.0.0.1", 0) as port:
            return await exchange(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")

    assert asyncio.run(scenario()).endswith(b"\r\n\r\nok")


@pytest.mark.parametrize(
    ("sent", "ends", "status"),
    [
        (b"GET /" + b"x" * 20_000, False, b"431"),
        (b"GET /metrics HT", True, b"400"),
        (b"GET /metrics HT", False, b"408"),
    ],
)
def test_heads_that_are_too_long_too_short_or_too_slow_are_refused(sent: bytes, ends: bool, status: bytes) -> None:
    async def scenario() -> bytes:
        async with serve_health(answers(), "127.0.0.1", 0, client_timeout_s=0.2) as port:
            return await exchange(port, sent, ends=ends)

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 " + status)


def test_one_connection_too_many_is_cut_and_the_others_are_served() -> None:
    async def is_cut(port: int) -> bool:
        try:
            return not await exchange(port, b"GET /livez HTTP/1.1\r\n\r\n")
        except ConnectionError:
            return True

    async def scenario() -> bytes:
        async with serve_health(answers(), "127.0.0.1", 0, max_connections=1) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while not await is_cut(port):
                pass  # the first one has not been taken in yet
            writer.write(b"GET /livez HTTP/1.1\r\n\r\n")
            served = await reader.read()
            writer.close()
            await writer.wait_closed()
            return served

    assert asyncio.run(scenario()).endswith(b"ok")


def test_an_open_connection_does_not_delay_the_end() -> None:
    async def scenario() -> None:
        async with serve_health(answers(), "127.0.0.1", 0) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            assert (await exchange(port, b"GET /livez HTTP/1.1\r\n\r\n")).endswith(b"ok")
        writer.close()
        await writer.wait_closed()

    asyncio.run(asyncio.wait_for(scenario(), 5))


GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n"


UNUSUAL = {
    "two at once": (GET + b"\r\n" + GET + b"\r\n", b"HTTP/1.1 200 OK\r\n", b"\r\n\r\nok"),
    "HTTP/1.0": (b"GET /livez HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n", b"\r\n\r\nok"),
    "HTTP/1.0 kept alive": (
        b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"\r\n\r\nok",
    ),
    "HEAD": (b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"Connection: close\r\n\r\n"),
    "expectation": (GET + b"Content-Length: 2000000\r\nExpect: 100-continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"ok"),
    "chunks that do not come": (GET + b"Transfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"\r\n\r\nok"),
    "broken chunks": (
        GET + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"Bad Request\n",
    ),
    "unknown expectation": (GET + b"Expect: more\r\n\r\n", b"HTTP/1.1 417 Expectation Failed\r\n", b"\r\n\r\n"),
    "oversized head": (GET + b"X: " + b"y" * 9000, b"HTTP/1.1 431 Request Header Fields Too Large\r\n", b"Too Large\n"),
    "HTTP/2.0": (b"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n", b"HTTP/1.1 400 Bad Request\r\n", b"\r\n\r\nBad Request\n"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_requests_get_one_answer_and_the_end_of_the_connection(name: str) -> None:
    sent, starts, ends = UNUSUAL[name]

    async def scenario() -> bytes:
        async with serve_health(answers(), "127.0.0.1", 0) as port:
            return await asyncio.wait_for(exchange(port, sent), 5)

    heard = asyncio.run(scenario())
    assert heard.startswith(starts)
    assert heard.endswith(ends)
    assert heard.count(b"HTTP/1.") == 1


def test_a_probe_that_closes_its_half_is_answered() -> None:
    async def scenario() -> bytes:
        async with serve_health(answers(), "127.0.0.1", 0) as port:
            return await exchange(port, GET + b"\r\n", ends=True)

    assert asyncio.run(scenario()).endswith(b"\r\n\r\nok")


@pytest.mark.parametrize("piece", [b"X: y\r\n", b""])
def test_a_head_that_comes_too_slowly_is_refused_however_it_is_cut(piece: bytes) -> None:
    async def scenario() -> bytes:
        async with serve_health(answers(), "127.0.0.1", 0, client_timeout_s=0.3) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            response = asyncio.create_task(reader.read())
            writer.write(GET)
            while not response.done():
                if not writer.transport.is_closing():
                    writer.write(piece)
                await asyncio.wait([response], timeout=0.02)
            writer.transport.abort()
            return response.result()

    assert asyncio.run(asyncio.wait_for(scenario(), 10)).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


@pytest.mark.parametrize("part_bytes", [0, 65536])
def test_a_client_that_reads_a_page_too_slowly_or_not_at_all_is_dropped(part_bytes: int) -> None:
    """It gave up its place: another one is served though only one may be connected."""
    pages = {"/metrics": HealthPage("text/plain", lambda: b"x" * 50_000_000)}

    async def scenario() -> None:
        handler = HealthHandler({"/livez": {"ping": lambda: ""}}, pages)
        async with serve_health(handler, "127.0.0.1", 0, client_timeout_s=0.3, max_connections=1) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            while True:
                with contextlib.suppress(ConnectionError):
                    if (await exchange(port, GET + b"\r\n")).endswith(b"ok"):
                        break
                with contextlib.suppress(ConnectionError):
                    await reader.read(part_bytes)
                await asyncio.sleep(0.02)
            writer.transport.abort()

    asyncio.run(asyncio.wait_for(scenario(), 5))
