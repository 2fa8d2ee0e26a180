"""HTTP/1.1 over TLS for an :class:`~headgate.apiserver.io.api_server.APIServer`: the socket, start and stop.

Each connection is an ``http/server_protocol.py`` (TLS and deadlines) that drives an ``apiserver/io/http_connection.py``
(requests and responses). The limits are in ``http/server_limits.py``; ``http/connection_tracker.py`` decides which
connections are closed when all together hold too much.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from typing import Final

import msgspec

from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.io.http_connection import Connection, ConnectionContext
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import TLSServerProtocol
from headgate.http.server_tls import TLSFiles, server_context

_log: Final = logging.getLogger(__name__)
_BACKLOG: Final = 1024
_DRAIN_STEP_S: Final = 0.02
_OTHER_FILES: Final = 64  # what the process has open besides its connections


def listen(host: str, port: int) -> socket.socket:
    """Bind at once, so that a port in use is known before anything else is set up."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sends small answers at once only on sockets that it knows to be TCP's.
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
    def __init__(
        self, endpoint: APIServer, sock: socket.socket, files: TLSFiles, limits: ServerLimits | None = None
    ) -> None:
        limits = _that_fit(limits or ServerLimits())
        self._sock = sock
        self._files = files
        self._limits = limits
        self._context = server_context(files)
        self._accounts = ConnectionTracker(limits)
        self._hub = ConnectionContext(endpoint, self._accounts, limits)
        self._stopped = asyncio.Event()

    async def serve(self) -> None:
        """Until ``stop``; then what is being answered is answered, within the time that the limits give it."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._make_line, sock=self._sock, backlog=_BACKLOG)
        try:
            await self._stopped.wait()
        finally:
            server.close()
            await self._drain()

    def stop(self) -> None:
        self._hub.stopping = True
        self._stopped.set()

    def renew(self) -> None:
        """Use the certificate, key and authorities that the files hold now, for connections from here on."""
        try:
            self._context = server_context(self._files)
        except OSError:
            _log.exception("the new certificates cannot be used; the old ones stay")

    def _make_line(self) -> TLSServerProtocol:
        return TLSServerProtocol(self._accounts, self._context, self._limits, lambda line: Connection(self._hub, line))

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        for holder in self._accounts.connections():
            holder.finish()
        ends_s = loop.time() + self._limits.stop_s
        while len(self._accounts) and loop.time() < ends_s:
            await asyncio.sleep(_DRAIN_STEP_S)
        for holder in self._accounts.connections():
            holder.abort("the server stops")


def _that_fit(limits: ServerLimits) -> ServerLimits:
    """As many connections as the process may have files, after asking for as many as it may ask for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits
    return msgspec.structs.replace(limits, connections=max(min(limits.connections, files - _OTHER_FILES), 1))
