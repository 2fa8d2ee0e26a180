"""The transport without a network: requests go straight to the embedded server's handler.

The handler is an awaitable function, so this package never imports the server. It returns an ``HTTPResponse``, or an
async generator of the watch's bytes. It may return without suspending, so requests yield to other tasks
(``client/io/time_slice.py``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

import msgspec

from headgate.client.io.time_slice import yield_if_slice_spent
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, split_lines

Handle = Callable[[HTTPRequest], Awaitable[HTTPResponse | AsyncGenerator[bytes, None]]]


class InProcessTransport:
    """A ``Transport``. ``headers``, which identify the client, are added to every request."""

    def __init__(self, handle: Handle, headers: Mapping[str, str] | None = None) -> None:
        self._handle = handle
        self._headers = dict(headers or {})

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        await yield_if_slice_spent()
        response = await self._handle(self._with_headers(request))
        if isinstance(response, HTTPResponse):
            return response
        await response.aclose()
        return HTTPResponse(status=200, headers={}, body=b"")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        """``idle_s`` is ignored: a server in the same process is always reachable."""
        await yield_if_slice_spent()
        response = await self._handle(self._with_headers(request))
        return response if isinstance(response, HTTPResponse) else _Lines(response)

    async def close(self) -> None:
        """Does nothing."""

    def _with_headers(self, request: HTTPRequest) -> HTTPRequest:
        if not self._headers:
            return request
        return msgspec.structs.replace(request, headers={**request.headers, **self._headers})


class _Lines:
    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[bytes]:
        return split_lines(self._events)

    async def close(self) -> None:
        await self._events.aclose()
