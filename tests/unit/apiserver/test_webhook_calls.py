"""The hands that call webhooks: what they trust, what they refuse, and how a failure reads."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.processes import free_ports
from harness.webhook_server import Raw, WebhookServer, make_certificates
from headgate.apiserver.io.webhook_client import MAX_RESPONSE_BYTES, WebhookClient
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall
from headgate.http.certificates import CertificateKeyPair
from headgate.http.server_tls import key_pair_context


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with WebhookServer(Path(tmp_path_factory.mktemp("hook"))) as running:
        running.hooks["/echo"] = lambda review: {"got": review}
        running.hooks["/moved"] = lambda review: Raw(status=307, headers={"Location": running.url("/echo")})
        running.hooks["/huge"] = lambda review: Raw(b"x" * (MAX_RESPONSE_BYTES + 1))
        running.hooks["/late"] = lambda review: Raw(late=True)
        running.hooks["/once"] = lambda review: Raw(b"{}", once=True)
        running.hooks["/cut"] = lambda review: Raw(cut=True)
        yield running


def called(*calls: WebhookCall) -> tuple[WebhookAnswer, ...]:
    async def run() -> tuple[WebhookAnswer, ...]:
        webhooks = WebhookClient()
        try:
            return await webhooks.call(calls)
        finally:
            await webhooks.close()

    return asyncio.run(run())


def a_call(server: WebhookServer, path: str, ca: bytes | None = None, timeout_s: float = 5) -> WebhookCall:
    return WebhookCall(server.url(path), b"{}", timeout_s, server.ca if ca is None else ca)


def test_a_response_is_returned_completely(server: WebhookServer) -> None:
    (response,) = called(a_call(server, "/echo?timeout=5s"))
    assert (response.status, response.body, response.content_type) == (200, b'{"got": {}}', "application/json")
    assert (response.problem, response.no_client) == ("", "")


def test_calls_are_made_together_and_answered_in_order(server: WebhookServer) -> None:
    waiting = [a_call(server, "/late", timeout_s=0.5), a_call(server, "/echo"), a_call(server, "/late", timeout_s=0.5)]
    late, prompt, late_too = called(*waiting)
    assert prompt.status == 200
    assert late.problem == late_too.problem == f'Post "{server.url("/late")}": context deadline exceeded'
    assert late.took_s + late_too.took_s < 2


def test_a_connection_is_used_again(server: WebhookServer) -> None:
    async def run() -> None:
        webhooks = WebhookClient()
        before = server.connections
        for _ in range(3):
            (response,) = await webhooks.call((a_call(server, "/echo"),))
            assert response.status == 200
        assert server.connections == before + 1
        await webhooks.close()

    asyncio.run(run())


def test_a_kept_connection_that_the_webhook_closes_is_no_failure(server: WebhookServer) -> None:
    async def run() -> None:
        webhooks = WebhookClient()
        before = server.connections
        for _ in range(3):
            (response,) = await webhooks.call((a_call(server, "/once"),))
            assert (response.status, response.problem) == (200, "")
        assert server.connections == before + 3
        await webhooks.close()

    asyncio.run(run())


def test_a_redirect_is_an_answer_and_is_not_followed(server: WebhookServer) -> None:
    asked = len(server.asked)
    (response,) = called(a_call(server, "/moved"))
    assert response.status == 307
    assert [path for path, _ in server.asked[asked:]] == ["/moved"]


def test_an_answer_without_end_is_cut_off(server: WebhookServer) -> None:
    (response,) = called(a_call(server, "/huge"))
    assert response.problem == f'Post "{server.url("/huge")}": the response is longer than {MAX_RESPONSE_BYTES} bytes'


def test_a_webhook_that_hangs_up_is_an_eof(server: WebhookServer) -> None:
    (response,) = called(a_call(server, "/cut"))
    assert response.problem == f'Post "{server.url("/cut")}": EOF'


def test_a_certificate_of_an_unknown_authority_is_rejected(server: WebhookServer) -> None:
    for ca in (b"", make_certificates("another-authority")[0]):
        (response,) = called(a_call(server, "/echo", ca))
        reason = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        assert response.problem == f'Post "{server.url("/echo")}": {reason}'


def test_a_name_that_the_certificate_does_not_have_is_not_believed(server: WebhookServer) -> None:
    port = server.address.rpartition(":")[2]
    (response,) = called(WebhookCall(f"https://127.0.0.2:{port}/echo", b"{}", 5, server.ca))
    assert "failed to verify certificate" in response.problem or "connection refused" in response.problem
    (response,) = called(WebhookCall(f"https://localhost:{port}/echo", b"{}", 5, server.ca))
    assert response.status == 200


def test_a_bundle_that_is_none_gives_no_client(server: WebhookServer) -> None:
    (response,) = called(a_call(server, "/echo", b"nonsense"))
    assert response.no_client == "unable to load root certificates: unable to parse bytes as PEM block"
    (response,) = called(a_call(server, "/echo", b"-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n"))
    assert response.no_client == "unable to load root certificates: no valid certificate authority data seen"


def test_without_a_server_the_connection_is_refused() -> None:
    (port,) = free_ports(1)
    (response,) = called(WebhookCall(f"https://127.0.0.1:{port}/x", b"{}", 5, make_certificates("a")[0]))
    assert response.problem == (
        f'Post "https://127.0.0.1:{port}/x": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )


def test_only_https_is_spoken(server: WebhookServer) -> None:
    (response,) = called(WebhookCall(f"http://{server.address}/echo", b"{}", 5, server.ca))
    assert response.problem.endswith("only https is allowed")


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
UNREADABLE = "unexpected error when reading response body. Please retry. Original error: "
BROKEN = "net/http: HTTP/1.x transport connection broken: "
ODD = {
    "the end of a head is missing": (b"HTTP/1.1 200 OK\r\nContent-T", "EOF"),
    "not HTTP": (b"hello world\r\n\r\n", BROKEN + "a response starts with 'hello world'"),
    "no status": (b"HTTP/1.1 abc OK\r\n\r\n", BROKEN + "a response starts with 'HTTP/1.1 abc OK'"),
    "no length": (OK + b"Content-Length: -2\r\n\r\n{}", BROKEN + "a response has the content-length '-2'"),
    "the end of a body is missing": (OK + b"Content-Length: 100\r\n\r\n{", UNREADABLE + "unexpected EOF"),
    "the end of chunks is missing": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        UNREADABLE + "unexpected EOF",
    ),
    "broken compression": (
        OK + b"Content-Encoding: gzip\r\nContent-Length: 8\r\n\r\n{}{}{}{}",
        UNREADABLE + "unexpected EOF",
    ),
    "a compressed body that is too long": (
        OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b" " * (MAX_RESPONSE_BYTES + 1)),
        f"the response is longer than {MAX_RESPONSE_BYTES} bytes",
    ),
    "chunks that are too long": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n400000\r\n" + b" " * 0x400000 + b"\r\n0\r\n\r\n",
        f"the response is longer than {MAX_RESPONSE_BYTES} bytes",
    ),
}
GOOD = {
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    "compression": OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"{}"),
    "an informational response first": b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
}


def called_raw(
    sent: bytes, *, hangs: bool = False, plain: bool = False, resets: bool = False, timeout_s: float = 5
) -> tuple[WebhookAnswer, str]:
    """The answer of a server that sends these bytes after a request, or after the first bytes without TLS."""
    ca, chain, key = make_certificates("raw")
    talks: list[asyncio.Task[None]] = []

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.append(asyncio.create_task(talk(reader, writer)))

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await (reader.read(100) if plain else reader.readuntil(b"\r\n\r\n{}"))
            writer.write(sent)
            if hangs:
                await reader.read()
            if resets:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            writer.close()
            await writer.wait_closed()

    async def run() -> tuple[WebhookAnswer, str]:
        context = None if plain else key_pair_context(CertificateKeyPair(chain, key))
        server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/x?timeout=5s"
        webhooks = WebhookClient()
        async with server:
            (response,) = await webhooks.call((WebhookCall(url, b"{}", timeout_s, ca),))
            await webhooks.close()
            await asyncio.gather(*talks)
        return response, url

    return asyncio.run(run())


@pytest.mark.parametrize("name", ODD)
def test_an_odd_response_reads_as_in_client_go(name: str) -> None:
    sent, text = ODD[name]
    response, url = called_raw(sent)
    assert response.problem == (text if text.startswith(UNREADABLE) else f'Post "{url}": {text}')


@pytest.mark.parametrize("name", GOOD)
def test_a_response_may_be_framed_in_any_way(name: str) -> None:
    response, _ = called_raw(GOOD[name])
    assert (response.status, response.content_type, response.body) == (200, "application/json", b"{}")


def test_a_deadline_in_a_body_reads_otherwise_than_one_before_it() -> None:
    response, url = called_raw(OK + b"Content-Le", hangs=True, timeout_s=0.3)
    assert response.problem == f'Post "{url}": context deadline exceeded'
    response, _ = called_raw(OK + b"Content-Length: 5\r\n\r\n{", hangs=True, timeout_s=0.3)
    assert response.problem == UNREADABLE + "context deadline exceeded"


def test_a_server_without_tls_is_distinguished_from_a_closed_or_silent_connection() -> None:
    response, url = called_raw(b"HTTP/1.0 400 Bad Request\r\n\r\n", plain=True)
    assert response.problem == f'Post "{url}": http: server gave HTTP response to HTTPS client'
    response, url = called_raw(b"", plain=True)
    assert response.problem == f'Post "{url}": EOF'
    response, url = called_raw(b"", plain=True, hangs=True, timeout_s=0.3)
    assert response.problem == f'Post "{url}": context deadline exceeded'


def test_a_reset_is_distinguished_from_the_end_of_a_connection() -> None:
    response, url = called_raw(b"", resets=True)
    assert response.problem == f'Post "{url}": connection reset by peer'


def test_a_name_that_is_unknown_and_addresses_that_refuse_are_named() -> None:
    ca = make_certificates("a")[0]
    (port,) = free_ports(1)
    unknown, refused, refused_6 = called(
        WebhookCall("https://nosuch.invalid:8443/x", b"{}", 5, ca),
        WebhookCall(f"https://localhost:{port}/x", b"{}", 5, ca),
        WebhookCall(f"https://[::1]:{port}/x", b"{}", 5, ca),
    )
    assert unknown.problem == 'Post "https://nosuch.invalid:8443/x": dial tcp: lookup nosuch.invalid: no such host'
    assert refused.problem.endswith(f"dial tcp localhost:{port}: connect: connection refused")
    assert refused_6.problem.startswith(f'Post "https://[::1]:{port}/x": dial tcp [::1]:{port}: connect: ')


def test_a_path_is_escaped_as_in_a_browser(tmp_path: Path) -> None:
    with WebhookServer(tmp_path) as server:
        server.hooks["/a%20b/%C3%BC%20%25zz"] = lambda review: {}
        (response,) = called(a_call(server, "/a b/ü%20%zz?timeout=5s"))
    assert response.status == 200


def test_connections_are_kept_apart_by_the_bundle_that_they_were_opened_with(server: WebhookServer) -> None:
    """An address that is believed for one bundle is not believed for another."""

    async def run() -> None:
        webhooks = WebhookClient()
        (good,) = await webhooks.call((a_call(server, "/echo"),))
        (bad,) = await webhooks.call((a_call(server, "/echo", make_certificates("b")[0]),))
        assert (good.status, bad.status) == (200, 0)
        assert "certificate signed by unknown authority" in bad.problem
        await webhooks.close()

    asyncio.run(run())
