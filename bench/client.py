"""A client that costs little, because it shares the machine with the server it measures.

One connection, one request at a time, kept alive; answers are cut out of the stream by hand. The same code speaks to
every server of a comparison.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import urlsplit

import msgspec


class Target(msgspec.Struct, frozen=True):
    """A server to measure."""

    url: str
    token: str
    ca: str


class Http(asyncio.Protocol):
    """One connection."""

    def __init__(self, host: str, token: str) -> None:
        self._fields: Final = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nUser-Agent: bench\r\n"
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._need = 0  # up to here the answer reaches, once its head is known
        self._body_from = 0
        self._lines: Callable[[bytes], None] | None = None
        self._chunk_left = 0
        self.status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done() and self._lines is None:
            self._answer.set_exception(ConnectionError("the server closed the connection"))

    def request(self, method: str, path: str, body: bytes = b"", fields: str = "") -> asyncio.Future[bytes]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        extra = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._transport.write(f"{method} {path} HTTP/1.1\r\n{self._fields}{fields}{extra}\r\n".encode() + body)
        return self._answer

    def watch(self, path: str, events: Callable[[bytes], None]) -> None:
        """Call ``events`` with the bytes of a watch as they come; the connection serves nothing else from then on."""
        self._lines = events
        self.request("GET", path)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._need:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._read_head(bytes(self._buffer[:end]).lower(), end + 4)
        if self._lines is not None and self._need < 0:
            self._read_chunks()
        elif self._need > 0 and len(self._buffer) >= self._need:
            self._complete(bytes(self._buffer[self._body_from : self._need]))
        elif self._need < 0 and self._buffer.endswith(b"\r\n0\r\n\r\n"):
            self._complete(_joined(bytes(self._buffer[self._body_from :])))

    def _read_head(self, head: bytes, body_from: int) -> None:
        self.status = int(head[9:12])
        self._body_from = body_from
        at = head.find(b"\r\ncontent-length:")
        if at < 0:
            self._need = -1  # in chunks
            if self._lines is not None:
                del self._buffer[:body_from]
        else:
            stop = head.find(b"\r\n", at + 2)
            self._need = body_from + int(head[at + 17 : stop if stop >= 0 else len(head)])

    def _complete(self, body: bytes) -> None:
        self._buffer.clear()
        self._need = 0
        assert self._answer is not None
        self._answer.set_result(body)

    def _read_chunks(self) -> None:
        buffer = self._buffer
        while True:
            if not self._chunk_left:
                end = buffer.find(b"\r\n")
                if end < 0:
                    return
                self._chunk_left = int(bytes(buffer[:end]), 16) + 2
                del buffer[: end + 2]
            if len(buffer) < self._chunk_left:
                return
            assert self._lines is not None
            self._lines(bytes(buffer[: self._chunk_left - 2]))
            del buffer[: self._chunk_left]
            self._chunk_left = 0


def _joined(framed: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while True:
        end = framed.index(b"\r\n", at)
        size = int(framed[at:end], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(framed[end + 2 : end + 2 + size])
        at = end + size + 4


async def connect(target: Target) -> Http:
    place = urlsplit(target.url)
    context = ssl.create_default_context(cafile=target.ca)
    context.set_alpn_protocols(["http/1.1"])
    host = place.hostname or ""
    port = place.port or 443
    _, protocol = await asyncio.get_running_loop().create_connection(
        lambda: Http(host, target.token), host, port, ssl=context
    )
    return protocol
