"""The interface of a transport, which sends requests to an API server.

There are two: ``client/io/inprocess_transport.py`` calls the handler of an embedded API server directly,
``client/io/http_transport.py`` uses HTTP. They behave alike. A transport sends and receives bytes; the caller
interprets the responses (``client/io/informer.py`` for lists and watches).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Final, Protocol
from urllib.parse import urlencode

import msgspec

Query = Mapping[str, str]

DEFAULT_TIMEOUT_S: Final = 60.0
_LONGEST_LINE: Final = 64 * 1024 * 1024


class HTTPRequest(msgspec.Struct, frozen=True):
    """One request, ready to send. Header names are lower case; ``query`` is encoded.

    ``timeout_s`` is the limit up to the last byte of the response; for a watch, up to its first byte.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_s: float = DEFAULT_TIMEOUT_S


class HTTPResponse(msgspec.Struct, frozen=True):
    """One response, fully read. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class LineStream(Protocol):
    """An open watch: lines of JSON until the server, or ``close``, ends it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class Unreachable(Exception):
    """No response came: refused, disconnected, timed out. If any of the request was ``sent``, a write may have
    happened. ``connected`` is false if no connection could be opened: another attempt costs the server nothing.
    """

    def __init__(self, text: str, *, sent: bool = True, connected: bool = True) -> None:
        super().__init__(text)
        self.sent = sent
        self.connected = connected


class Transport(Protocol):
    """Both methods raise :class:`Unreachable`, and nothing else, when the server cannot be reached."""

    async def request(self, request: HTTPRequest) -> HTTPResponse: ...

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        """Opens a watch; an ``HTTPResponse`` is the server's error. No bytes for ``idle_s`` count as unreachable."""
        ...

    async def close(self) -> None: ...


def encode_query(query: Query) -> str:
    return urlencode(query)


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream of chunks. Raises :class:`Unreachable` for a line that is too long."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *complete_lines, rest = chunk.split(b"\n")
        for piece in complete_lines:
            line = b"".join((*parts, piece))
            parts, size = [], 0
            if line:
                yield line
        parts.append(rest)
        size += len(rest)
        if size > _LONGEST_LINE:
            raise Unreachable(f"the server sent a line of more than {_LONGEST_LINE} bytes")
