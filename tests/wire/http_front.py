"""The HTTP front of the embedded server in its own thread, with limits small enough to reach in a test.

The complete API behind it runs in memory. Clients are plain sockets, because no library does what hostile clients do.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import msgspec

from embedded import TOKEN, Embedded
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.io.certificate_files import ensure_certificates
from headgate.apiserver.io.http_server import SecureServing
from headgate.http.server import listen
from headgate.http.server_limits import ServerLimits
from headgate.http.server_tls import TLSFiles
from headgate.store.io.committer import Committer

PATIENCE_S = 30.0
ADMIN, SOMEBODY = TOKEN, "somebody"
MAPS = "/api/v1/namespaces/default/configmaps"


class Front:
    def __init__(self, folder: Path, limits: ServerLimits) -> None:
        self.certificates = ensure_certificates(folder / "pki", "127.0.0.1")
        self._api = Embedded(namespace="default", users={SOMEBODY: UserInfo("somebody")}).api
        self._sock = listen("127.0.0.1", 0)
        self.port: int = self._sock.getsockname()[1]
        self._limits = limits
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        self.client_tls = ssl.create_default_context(cafile=str(self.certificates.ca))

    async def _run(self) -> None:
        self.endpoint = APIServer(self._api)
        committer = Committer(self._api.store, None, publish=self.endpoint.publish)
        self.endpoint.attach(committer)
        files = TLSFiles(self.certificates.server, self.certificates.server_key, (self.certificates.ca,))
        self.server = SecureServing(self.endpoint, self._sock, files, self._limits)
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self.server.serve()
        await self.endpoint.close()
        await committer.close()

    def stop(self) -> None:
        def stop() -> None:
            self.endpoint.stop()
            self.server.stop()

        self._loop.call_soon_threadsafe(stop)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self._sock.close()

    def renew(self) -> None:
        self._loop.call_soon_threadsafe(self.server.renew)

    def connect(self) -> socket.socket:
        """TCP, and not a word of TLS."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def line(self, tls: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        plain = self.connect()
        try:
            return (tls or self.client_tls).wrap_socket(plain, server_hostname="127.0.0.1")
        except BaseException:
            plain.close()
            raise

    def ask(
        self, method: str, path: str, body: Any = None, token: str = ADMIN, tls: ssl.SSLContext | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """One request on a connection of its own."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S, context=tls or self.client_tls
        )
        try:
            fields = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
            connection.request(method, path, None if body is None else msgspec.json.encode(body), fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


class GoodClient:
    """A well-behaved client while others misbehave: one connection, kept alive, and each request gets its response in
    time."""

    def __init__(self, front: Front) -> None:
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", front.port, timeout=PATIENCE_S, context=front.client_tls
        )
        self._fields = {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN}"}
        self._made = 0
        self.work()
        self._socket = self._connection.sock

    def work(self) -> None:
        """A write and a read of it."""
        self._made += 1
        name = f"good-{self._made}"
        assert self._ask("POST", MAPS, {"metadata": {"name": name}}) == 201
        assert self._ask("GET", f"{MAPS}/{name}") == 200

    def _ask(self, method: str, path: str, body: Any = None) -> int:
        self._connection.request(method, path, None if body is None else msgspec.json.encode(body), self._fields)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    @property
    def was_cut(self) -> bool:
        return self._connection.sock is not self._socket

    def close(self) -> None:
        self._connection.close()


def closed_by_server(sock: socket.socket) -> bool:
    """Whether there is an end of what the server has to say; does not wait for one."""
    sock.setblocking(False)
    try:
        while sock.recv(65536):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        sock.setblocking(True)
    return True
