"""The HTTP transport against a small server on the loopback, with and without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import InlineOrFile, RESTConfig
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable

Test = Callable[[str], Awaitable[None]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        # A client that does not trust the certificate, or goes away, is part of the tests.
        with contextlib.suppress(OSError):
            super().handle()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        if "watch=true" in self.path:
            self._send_chunks(b'{"a":1}\n{"b":', b'"' + b"x" * 300_000 + b'"}\n')
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        token = self.headers.get("Authorization", "")
        text = f"{self.command} {self.path} {token} {body}".encode()
        self.send_response(401 if token == "Bearer old" else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_PATCH = do_GET

    def _send_chunks(self, *chunks: bytes) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in (*chunks, b""):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def log_message(self, format: str, *args: object) -> None:
        return


def serve(test: Test, tls: ssl.SSLContext | None = None) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    async def run() -> None:
        await test(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}")

    try:
        asyncio.run(run())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return built.public_bytes(serialization.Encoding.PEM), private


def test_a_request_arrives_as_it_was_written() -> None:
    async def test(server: str) -> None:
        transport = HTTPTransport(RESTConfig(server=server, token="secret"))
        request = HTTPRequest("PATCH", "/api/v1/nodes/a%2Fb", "x=1%2C2", {"content-type": "text/plain"}, b"body")
        response = await transport.request(request)
        assert response.body == b"PATCH /api/v1/nodes/a%2Fb?x=1%2C2 Bearer secret body"
        await transport.close()

    serve(test)


def test_a_watch_gives_lines_of_any_length() -> None:
    async def test(server: str) -> None:
        transport = HTTPTransport(RESTConfig(server=server))
        lines = await transport.stream(HTTPRequest("GET", "/w", "watch=true"), idle_s=5)
        assert not isinstance(lines, HTTPResponse)
        assert [len(line) async for line in lines] == [7, 300_008]
        await lines.close()
        await transport.close()

    serve(test)


def test_a_token_in_a_file_is_read_again_when_it_is_refused(tmp_path: Path) -> None:
    async def test(server: str) -> None:
        (tmp_path / "token").write_text("old\n")
        transport = HTTPTransport(RESTConfig(server=server, token_file=str(tmp_path / "token")))
        assert (await transport.request(HTTPRequest("GET", "/"))).status == 401
        (tmp_path / "token").write_text("new\n")
        assert (await transport.request(HTTPRequest("GET", "/"))).status == 200
        await transport.close()

    serve(test)


def test_tls_trusts_the_given_authority_and_shows_the_client_certificate(tmp_path: Path) -> None:
    public, private = certificate()
    (tmp_path / "pair").write_bytes(public + private)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=public.decode())
    tls.load_cert_chain(tmp_path / "pair")
    tls.verify_mode = ssl.CERT_REQUIRED

    async def test(server: str) -> None:
        transport = HTTPTransport(
            RESTConfig(
                server=server,
                authority=InlineOrFile(data=public),
                client_certificate=InlineOrFile(data=public),
                client_key=InlineOrFile(data=private),
            )
        )
        assert (await transport.request(HTTPRequest("GET", "/"))).ok
        await transport.close()
        stranger = HTTPTransport(RESTConfig(server=server))
        with pytest.raises(Unreachable, match="certificate"):
            await stranger.request(HTTPRequest("GET", "/"))
        await stranger.close()

    serve(test, tls)


def test_a_request_whose_time_is_up_before_it_can_be_sent_is_not_sent() -> None:
    async def test(server: str) -> None:
        transport = HTTPTransport(RESTConfig(server=server))
        await transport.request(HTTPRequest("GET", "/", "", {}))
        with pytest.raises(Unreachable, match="timed out before it could be sent") as caught:
            await transport.request(HTTPRequest("POST", "/", "", {}, b"too late", timeout_s=0.0))
        assert not caught.value.sent
        await transport.close()

    serve(test)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    async def run() -> None:
        transport = HTTPTransport(RESTConfig(server="http://127.0.0.1:1"))
        with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1 cannot be reached") as refused:
            await transport.request(HTTPRequest("GET", "/"))
        assert (refused.value.sent, refused.value.connected) == (False, False)
        with pytest.raises(Unreachable) as refused:
            await transport.stream(HTTPRequest("GET", "/"), idle_s=1)
        assert (refused.value.sent, refused.value.connected) == (False, False)
        await transport.close()

    asyncio.run(run())
