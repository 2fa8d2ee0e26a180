"""One client connection (``headgate.http``) with one request at a time, without the connection pool.

It uses little CPU, because it runs on the same machine as the measured server. All servers of a comparison are measured
with the same code.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

import msgspec

from headgate.http.client_connection import HTTPClientConnection
from headgate.http.request_encoder import ServerAddress, common_fields, parse_server_address


class Target(msgspec.Struct, frozen=True):
    """A server to measure."""

    url: str
    token: str
    ca: str


class Http:
    """One connection; ``status`` is that of the last response."""

    def __init__(self, line: HTTPClientConnection, place: ServerAddress, token: str) -> None:
        self._line = line
        self._fields: Final = f"{common_fields(place, token)}User-Agent: bench\r\n"
        self._watch: asyncio.Task[None] | None = None
        self.status = 0

    async def request(self, method: str, path: str, body: bytes = b"", fields: str = "") -> bytes:
        """The body as received, still compressed if the server compressed it. ``fields`` are header lines."""
        response = await self._line.fetch(self._encode(method, path, body, fields))
        self.status = response.status
        return b"".join(response.parts)

    def watch(self, path: str, events: Callable[[bytes], None]) -> None:
        """Calls ``events`` with the bytes of a watch as they arrive; the connection cannot be used for anything else
        afterwards."""

        async def listen() -> None:
            await self._line.fetch_head(self._encode("GET", path, b"", ""))
            async for part in self._line.parts(idle_s=3600):
                events(part)

        self._watch = asyncio.create_task(listen())

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._line.abort()

    def _encode(self, method: str, path: str, body: bytes, fields: str) -> bytes:
        extra = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\n{self._fields}{fields}{extra}\r\n".encode() + body


async def connect(target: Target) -> Http:
    place = parse_server_address(target.url)
    if isinstance(place, str):
        raise ValueError(place)
    context = ssl.create_default_context(cafile=target.ca)
    context.set_alpn_protocols(["http/1.1"])
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(
        lambda: HTTPClientConnection(loop, set()), place.host, place.port, ssl=context
    )
    return Http(line, place, target.token)
