"""The webhook server over TLS: unusual and hostile clients get one response each, and ordinary ones are served on."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from event_loops import Run, on_both_loops
from harness.processes import free_ports
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import STAMP
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime import decision_log
from headgate.runtime.webhooks.certificates import WebhookCertificates, ensure_certificates
from headgate.runtime.webhooks.server import WebhookServer, webhook_limits
from headgate.runtime.webhooks.target import WebhookTarget, parse_url

MIB = 1024 * 1024
PATIENCE_S = 0.4
REVIEW = msgspec.json.encode(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "n",
            "object": {"metadata": {"name": "p"}, "spec": {}},
        },
    }
)
HEAD = b"POST /pods/mutate HTTP/1.1\r\nHost: x\r\n"
SIZED = HEAD + b"Content-Length: %d\r\n" % len(REVIEW)
CLOSES = SIZED + b"Connection: close\r\n\r\n" + REVIEW


async def absent(request: HTTPRequest) -> HTTPResponse:
    return HTTPResponse(404, {}, b"{}")


def target() -> WebhookTarget:
    parsed = parse_url("https://127.0.0.1:1")
    assert isinstance(parsed, WebhookTarget)
    return parsed


def certificates() -> WebhookCertificates:
    return ensure_certificates({}, target(), datetime.datetime.now(datetime.UTC))


class Served:
    def __init__(self, server: WebhookServer, port: int, trust: ssl.SSLContext) -> None:
        self.server = server
        self.port = port
        self.trust = trust

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust, server_hostname="127.0.0.1")

    async def exchange(self, *sent: bytes) -> bytes:
        """Everything that comes back until the server closes the connection."""
        reader, writer = await self.connect()
        try:
            for piece in sent:
                writer.write(piece)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
            async with asyncio.timeout(20):
                return await reader.read()
        finally:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def serving(patience_s: float = PATIENCE_S) -> AsyncIterator[Served]:
    kept = certificates()
    server = WebhookServer(InProcessTransport(absent), AdmissionSettings(frozenset({"s"})), client_timeout_s=patience_s)
    await server.use_certificate(kept)
    trust = ssl.create_default_context(cadata=kept.bundle.decode())
    async with server.listening("127.0.0.1", 0) as port:
        yield Served(server, port, trust)


def heard(*sent: bytes, patience_s: float = PATIENCE_S) -> bytes:
    async def run() -> bytes:
        async with serving(patience_s) as served:
            return await served.exchange(*sent)

    return asyncio.run(run())


def statuses(heard: bytes) -> list[int]:
    return [int(each[2:5]) for each in heard.split(b"HTTP/1.")[1:]]


def test_the_limits_are_those_that_webhooks_need() -> None:
    limits = webhook_limits()
    assert limits.body_bytes_at("/pods/mutate") == 8 * MIB
    assert limits.body_bytes_at("/kueue/convert") == 128 * MIB
    assert limits.connections == 2000
    assert limits.idle_s == 120.0
    assert {limits.handshake_s, limits.head_s, limits.body_s, limits.body_silent_s} == {10.0}


def test_reviews_that_come_at_once_are_answered_in_order() -> None:
    got = heard((SIZED + b"\r\n" + REVIEW) * 40 + CLOSES)
    assert statuses(got) == [200] * 41
    assert got.count(b'"uid":"u"') == 41


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_a_refused_write_is_logged_unless_it_is_a_dry_run(is_dry_run: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=decision_log.LOGGER)
    review = msgspec.json.decode(REVIEW)
    review["request"]["object"]["metadata"]["annotations"] = {STAMP: "{}"}
    review["request"] |= {"dryRun": is_dry_run, "userInfo": {"username": "eve"}}
    body = msgspec.json.encode(review)
    head = b"POST /pods/validate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert b'"allowed":false' in heard(head + body)
    lines = [each.__dict__["fields"] for each in caplog.records if each.name == decision_log.LOGGER]
    assert [(each["name"], each["namespace"], each["reason"]) for each in lines] == (
        [] if is_dry_run else [("p", "n", "WebhookCreate")]
    )


UNUSUAL: dict[str, tuple[bytes, list[int], bytes]] = {
    "HTTP/1.0": (CLOSES.replace(b"HTTP/1.1", b"HTTP/1.0"), [200], b'"allowed":true'),
    "HEAD": (CLOSES.replace(b"POST", b"HEAD"), [405], b"Connection: close\r\n\r\n"),
    "PUT": (CLOSES.replace(b"POST", b"PUT"), [405], b"POST AdmissionReview\n"),
    "unknown path": (
        CLOSES.replace(b"/pods/mutate", b"/else"),
        [404],
        b"there is no webhook at /else; the paths are: /",
    ),
    "escaped path": (CLOSES.replace(b"/pods/mutate", b"/pods%2Fmutate"), [200], b'"allowed":true'),
    "livez of HTTP/1.0": (b"GET /livez HTTP/1.0\r\n\r\n", [200], b"\r\n\r\nok\n"),
    "readyz": (b"GET /readyz HTTP/1.0\r\n\r\n", [500], b"no test call to this server has succeeded yet\n"),
    "unknown page": (b"GET /else HTTP/1.0\r\n\r\n", [404], b"404 page not found\n"),
    "no review": (HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}", [400], b"\n"),
    "oversized head": (HEAD + b"X: " + b"y" * (MIB + 4096), [431], b"Request Header Fields Too Large"),
    "broken chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", [400], b"invalid byte in chunk length\n"),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", [400], b"400 Bad Request"),
    "unknown coding": (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", [501], b"Unsupported transfer encoding"),
    "unknown expectation": (HEAD + b"Expect: more\r\n\r\n", [417], b"\r\n\r\n"),
    "expectation with its body": (
        SIZED + b"Expect: 100-continue\r\nConnection: close\r\n\r\n" + REVIEW,
        [200],
        b'"allowed":true',
    ),
    "slow body": (HEAD + b"Content-Length: 10\r\n\r\n{", [408], b"the body was not complete after 0 s\n"),
    "long body": (
        HEAD + b"Content-Length: 900000000\r\n\r\n" + b" " * (8 * MIB + 9),
        [413],
        b"more than 8388608 bytes\n",
    ),
    "unknown path without its body": (
        b"POST /else HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
        [404],
        b"there is no webhook at /else",
    ),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_requests_get_one_response(name: str) -> None:
    sent, expected, text = UNUSUAL[name]
    got = heard(sent)
    assert statuses(got) == expected
    assert text in got


def test_a_body_is_asked_for_when_its_client_waits_for_that() -> None:
    async def run() -> None:
        async with serving(20) as served:
            reader, writer = await served.connect()
            writer.write(SIZED + b"Expect: 100-continue\r\nConnection: close\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(REVIEW)
            assert statuses(await reader.read()) == [200]
            writer.transport.abort()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_conversion_may_be_longer_than_a_review() -> None:
    sent = b"POST /kueue/convert HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (9 * MIB)
    assert b"the body is not JSON" in heard(sent, b" " * (9 * MIB), patience_s=20)


def test_a_client_that_closes_its_half_is_answered() -> None:
    def speak(served: Served) -> bytes:
        with socket.create_connection(("127.0.0.1", served.port), 10) as plain:
            line = served.trust.wrap_socket(plain, server_hostname="127.0.0.1")
            line.sendall(CLOSES)
            socket.socket.shutdown(line, socket.SHUT_WR)  # below TLS
            with line:
                return b"".join(iter(lambda: line.recv(65536), b""))

    async def run() -> bytes:
        async with serving(20) as served:
            return await asyncio.to_thread(speak, served)

    assert statuses(asyncio.run(run())) == [200]


def test_a_client_that_does_not_read_does_not_keep_the_server_from_stopping() -> None:
    async def run() -> None:
        async with serving(20) as served:
            _, writer = await served.connect()
            writer.write((SIZED + b"\r\n" + REVIEW) * 2000)
            assert statuses(await served.exchange(CLOSES)) == [200]
        writer.transport.abort()

    asyncio.run(asyncio.wait_for(run(), 20))


@on_both_loops
def test_a_new_certificate_is_shown_to_new_connections(run: Run) -> None:
    async def scenario() -> None:
        async with serving(20) as served:
            assert await served.server.call_itself("127.0.0.1", served.port, "127.0.0.1") == ""
            assert served.server.health() == ""
            await served.server.use_certificate(certificates())
            with pytest.raises(ssl.SSLCertVerificationError):
                await served.connect()
            assert await served.server.call_itself("127.0.0.1", served.port, "127.0.0.1") == ""

    run(scenario())


def closed_port() -> int:
    return free_ports(1)[0]


@pytest.mark.parametrize(
    ("name", "port", "says"),
    [
        ("other.example", None, "the test call to other.example at 127.0.0.1:"),
        ("127.0.0.1", closed_port, "the test call to 127.0.0.1 at 127.0.0.1:"),
    ],
)
def test_a_server_that_cannot_call_itself_says_why(name: str, port: Callable[[], int] | None, says: str) -> None:
    async def run() -> str:
        async with serving(20) as served:
            return await served.server.call_itself("127.0.0.1", port() if port else served.port, name)

    assert asyncio.run(run()).startswith(says)
