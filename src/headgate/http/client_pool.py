"""A pool of client connections to one server.

The pool opens connections and keeps them for a while. Its user limits the number of requests in flight and decides
about retries: ``client/io/http_transport.py`` for requests to an API server,
``apiserver/io/webhook_client.py`` for calls of webhooks. ``client_connection.py`` is one connection.
"""

from __future__ import annotations

import asyncio
from ssl import SSLContext
from typing import Final

from headgate.http.client_connection import HTTPClientConnection
from headgate.http.request_encoder import ServerAddress
from headgate.http.response_parser import LONGEST_BODY, ResponseParser

_CLOSE_TURNS: Final = 10


class ClientConnectionPool:
    """It must be created in a running event loop. Several pools may share one set of ``connections``."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        keep_alive_s: float,
        server_hostname: str = "",
        connections: set[HTTPClientConnection] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.address: Final = address
        self._keep_alive_s = keep_alive_s
        self._server_hostname = server_hostname or address.host
        self._connections = set() if connections is None else connections
        self._idle: list[HTTPClientConnection] = []  # the most recently used one is at the end
        self._expiry: asyncio.TimerHandle | None = None
        self._context: SSLContext | None = None
        self._generation = 0  # how often `drop` was called: connections that were opened before are not used again

    def use_tls(self, context: SSLContext) -> None:
        """Sets the TLS context of new connections. Connections in use are closed after their response."""
        self._context = context
        self.drop()

    def drop(self) -> None:
        """Closes idle connections, and those in use after their response."""
        self._generation += 1
        self.drop_idle()

    def drop_idle(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def idle_connection(self) -> HTTPClientConnection | None:
        oldest_s = self._loop.time() - self._keep_alive_s
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.idle_since_s >= oldest_s:
                return connection
            connection.abort()
        return None

    async def connect(self, deadline_s: float) -> HTTPClientConnection:
        """Opens a connection. Raises ``OSError``: ``TimeoutError`` without an errno at the deadline,
        ``socket.gaierror`` for an unknown host name, ``ssl.SSLError`` for a failed handshake."""
        generation = self._generation
        tls = self.address.tls
        async with asyncio.timeout_at(deadline_s):
            _, connection = await self._loop.create_connection(
                lambda: HTTPClientConnection(self._loop, self._connections, generation),
                self.address.host,
                self.address.port,
                ssl=self._context if tls else None,
                server_hostname=self._server_hostname if tls else None,
            )
        return connection

    async def fetch(
        self, connection: HTTPClientConnection, payload: bytes, deadline_s: float, max_bytes: int = LONGEST_BODY
    ) -> ResponseParser:
        """The whole response; a reusable connection returns to the pool. Raises ``ConnectionBroken``."""
        timer = self._loop.call_at(deadline_s, connection.fail, "no response came in time")
        try:
            return await connection.fetch(payload, max_bytes)
        except BaseException:
            connection.abort()  # a late response must not reach the next request
            raise
        finally:
            timer.cancel()
            self.release(connection)

    def release(self, connection: HTTPClientConnection) -> None:
        if not connection.reusable or connection.generation != self._generation:
            connection.abort()
            return
        connection.idle_since_s = self._loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = self._loop.call_later(self._keep_alive_s, self._expire)

    async def close(self) -> None:
        """Closes all connections, including those in use."""
        self.drop()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        await close_connections(self._connections)

    def _expire(self) -> None:
        """Closes connections that have been idle for too long; the longest idle ones are at the front."""
        self._expiry = None
        now_s = self._loop.time()
        while self._idle and self._idle[0].idle_since_s + self._keep_alive_s <= now_s:
            self._idle.pop(0).abort()
        if self._idle:
            self._expiry = self._loop.call_at(self._idle[0].idle_since_s + self._keep_alive_s, self._expire)


async def close_connections(connections: set[HTTPClientConnection]) -> None:
    for connection in list(connections):
        connection.abort()
    for _ in range(_CLOSE_TURNS):
        if not connections:
            break
        await asyncio.sleep(0)  # the event loop closes sockets in its next turns
