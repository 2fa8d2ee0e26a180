"""A webhook server: HTTPS on its own port, in threads, with a certificate of its own authority.

The response at a path is a function of the decoded review; all reviews are kept (:attr:`WebhookServer.asked`).
:class:`Raw` responds with any bytes, status and headers, late, or not at all.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Raw:
    """An HTTP answer by the letter. ``late`` waits until the client gives up; ``cut`` closes without an answer.

    ``once`` closes without an answer too, unless the connection is fresh: the client took it for one that is kept.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    late: bool = False
    cut: bool = False
    once: bool = False


WebhookFunction = Callable[[Any], "Raw | dict[str, Any]"]


class WebhookServer:
    """``ca`` is what a ``caBundle`` holds, as PEM. Use it in a ``with`` block."""

    def __init__(self, folder: Path, certificates: tuple[bytes, bytes, bytes] | None = None) -> None:
        self.ca, chain, key = certificates or make_certificates("hook-authority")
        (folder / "hook.crt").write_bytes(chain)
        (folder / "hook.key").write_bytes(key)
        self.hooks: dict[str, WebhookFunction] = {}
        self.asked: list[tuple[str, Any]] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trust.load_cert_chain(folder / "hook.crt", folder / "hook.key")
        self._server.socket = trust.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> WebhookServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def url(self, path: str) -> str:
        return f"https://{self.address}{path}"

    def answer(self, target: str, body: bytes) -> Raw:
        path = target.partition("?")[0]
        review = json.loads(body) if body else None
        with self._lock:
            self.asked.append((target, review))
        hook = self.hooks.get(path)
        if hook is None:
            return Raw(b"404 page not found\n", 404, {"Content-Type": "text/plain; charset=utf-8"})
        made = hook(review)
        return made if isinstance(made, Raw) else Raw(json.dumps(made).encode())

    def connected(self) -> None:
        with self._lock:
            self.connections += 1


def _handler(server: WebhookServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            server.connected()

        def handle(self) -> None:
            # A client that does not like the certificate, or goes away, is part of what is tested.
            try:
                super().handle()
            except OSError:
                self.close_connection = True

        def finish(self) -> None:
            try:
                super().finish()
            except OSError:
                self.close_connection = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._reply(server.answer(self.path, body))

        def do_GET(self) -> None:
            self._reply(server.answer(self.path, b""))

        def _reply(self, made: Raw) -> None:
            if made.late:
                self.connection.recv(1)
            self.used = getattr(self, "used", 0) + 1
            if made.late or made.cut or (made.once and self.used > 1):
                self.close_connection = True
                return
            self.send_response_only(made.status)
            for name, value in made.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(made.body)))
            self.end_headers()
            self.wfile.write(made.body)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


def make_certificates(authority: str) -> tuple[bytes, bytes, bytes]:
    """The authority, and a chain and key for 127.0.0.1, all as PEM."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, authority)])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    ca = (
        _builder(issuer, issuer, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
    leaf = (
        _builder(subject, issuer, key.public_key()).add_extension(names, critical=False).sign(ca_key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (
        ca.public_bytes(serialization.Encoding.PEM),
        leaf.public_bytes(serialization.Encoding.PEM),
        secret,
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
