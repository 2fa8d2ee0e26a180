"""The transport without a wire: requests go straight to the embedded server's handle.

The handle is given as an awaitable function, so this room never imports the server. It answers with a ``Response``, or
with an async generator of the watch's bytes. It may answer without suspending, so requests give way to other tasks
(``client/time_slice.py``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

import msgspec

from headgate.client.time_slice import give_way
from headgate.client.transport import Lines, Request, Response, split_lines

Handle = Callable[[Request], Awaitable[Response | AsyncGenerator[bytes, None]]]


class InProcess:
    """A ``Transport``; ``headers`` (who is asking) go with every request."""

    def __init__(self, handle: Handle, headers: Mapping[str, str] | None = None) -> None:
        self._handle = handle
        self._headers = dict(headers or {})

    async def request(self, request: Request) -> Response:
        await give_way()
        answer = await self._handle(self._signed(request))
        if isinstance(answer, Response):
            return answer
        await answer.aclose()
        return Response(status=200, headers={}, body=b"")

    async def stream(self, request: Request, *, idle_s: float) -> Lines | Response:
        """``idle_s`` has no meaning here: a server in the same process cannot be out of reach."""
        await give_way()
        answer = await self._handle(self._signed(request))
        return answer if isinstance(answer, Response) else _Lines(answer)

    async def close(self) -> None:
        """There is nothing to close."""

    def _signed(self, request: Request) -> Request:
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
