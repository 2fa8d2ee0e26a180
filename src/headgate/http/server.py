"""The HTTP/1.1 server: listening sockets, change of certificates, and a graceful stop.

Each connection is a ``server_protocol.py`` (TLS and deadlines) that drives a ``server_connection.py`` (requests and
responses), which calls the ``RequestHandler``. The limits are in ``server_limits.py``; ``connection_tracker.py``
decides which connections are closed when their total exceeds a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.request_handler import RequestHandler
from headgate.http.server_connection import ServerConnection, ServerContext
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import ServerProtocol

_BACKLOG: Final = 1024
_DRAIN_STEP_S: Final = 0.02
_OTHER_FILES: Final = 64  # open files other than connections


def listen(host: str, port: int) -> socket.socket:
    """Binds at once, so that a port in use is detected before the rest of the setup."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol of the socket is given.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


class HTTPServer:
    """Without ``tls`` the server uses plain HTTP."""

    def __init__(self, handler: RequestHandler, limits: ServerLimits, tls: ssl.SSLContext | None) -> None:
        limits = _within_file_limit(limits)
        self._limits = limits
        self._tls = tls
        self._tracker = ConnectionTracker(limits)
        self._context = ServerContext(handler, self._tracker, limits)

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Sets the TLS context of new connections; open ones keep theirs."""
        self._tls = tls

    def close_after_responses(self) -> None:
        """From now on every response closes its connection. The server still accepts connections: a load balancer needs
        some time until it sends new ones to other servers."""
        self._context.stopping = True

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Serves until the block is left, on every address of the host. Yields the port."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._make_protocol, host or None, port, backlog=_BACKLOG)
        async with self._serving(server):
            yield server.sockets[0].getsockname()[1]

    @contextlib.asynccontextmanager
    async def listening_on(self, sock: socket.socket) -> AsyncIterator[None]:
        """Like :meth:`listening`, on a socket that already listens."""
        loop = asyncio.get_running_loop()
        async with self._serving(await loop.create_server(self._make_protocol, sock=sock, backlog=_BACKLOG)):
            yield

    @contextlib.asynccontextmanager
    async def _serving(self, server: asyncio.Server) -> AsyncIterator[None]:
        """At the end, waits for the requests in progress, up to ``stop_s``."""
        self._context.stopping = False
        try:
            yield
        finally:
            self._context.stopping = True
            server.close()
            await self._drain()

    def _make_protocol(self) -> ServerProtocol:
        return ServerProtocol(
            self._tracker, self._tls, self._limits, lambda protocol: ServerConnection(self._context, protocol)
        )

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self._tracker.connections():
            connection.finish()
        ends_s = loop.time() + self._limits.stop_s
        while len(self._tracker) and loop.time() < ends_s:
            await asyncio.sleep(_DRAIN_STEP_S)
        for connection in self._tracker.connections():
            connection.abort("the server stops")
        await asyncio.sleep(0)  # the event loop closes what was aborted in its next turn


def _within_file_limit(limits: ServerLimits) -> ServerLimits:
    """Raises the limit of open files to its maximum, and limits the number of connections to it."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits
    return msgspec.structs.replace(limits, connections=max(min(limits.connections, files - _OTHER_FILES), 1))
