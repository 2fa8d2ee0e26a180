"""One client connection: it sends requests one after the other, and receives their responses. asyncio does TLS.

The caller waits for the whole response (``fetch``) or takes its parts as they arrive (``fetch_head``, ``parts``); then
reading pauses while too many parts wait. After an error, or if the caller stops in the middle of a response, the
connection is closed; ``reusable`` says whether it may be used again. ``client_pool.py`` keeps idle connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final, Literal, cast

from headgate.http.response_parser import LONGEST_BODY, MalformedResponse, ResponseParser

_MAX_WAITING_BYTES: Final = 1 << 20
"""Reading pauses when the caller has not taken more bytes of a streamed body than this."""


BreakReason = Literal["closed", "reset", "timeout", "malformed", "too long"]


class ConnectionBroken(Exception):
    """The connection ended before the response did. ``in_body``: the head of the response was complete."""

    def __init__(self, text: str, reason: BreakReason, *, response_started: bool, in_body: bool) -> None:
        super().__init__(text)
        self.reason = reason
        self.response_started = response_started
        self.in_body = in_body


class HTTPClientConnection(asyncio.Protocol):
    """``connections``: the set of all open connections. A connection adds itself when it is open, and removes itself
    when the event loop has closed its socket."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connections: set[HTTPClientConnection], generation: int = 0
    ) -> None:
        self._loop = loop
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._response: ResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._streaming = False
        self._paused = False
        self._waiting_bytes = 0  # bytes of a streamed body that the caller has not taken
        self._max_bytes = LONGEST_BODY
        self._error: Exception | None = None
        self.closed = False
        self.idle_since_s = 0.0
        self.generation = generation  # of the pool when the connection was opened: see ClientConnectionPool.drop

    # -- for the pool ----------------------------------------------------------------------------------------------

    @property
    def reusable(self) -> bool:
        return not self.closed and self._response is None

    async def fetch(self, request: bytes, max_bytes: int = LONGEST_BODY) -> ResponseParser:
        """The whole response. Raises ``ConnectionBroken``. A caller that stops waiting must call ``abort``."""
        self._max_bytes = max_bytes
        response = self._begin(request)
        await self._wait(lambda: response.done and response.size <= max_bytes)
        self._finish(response)
        return response

    async def fetch_head(self, request: bytes) -> ResponseParser:
        """The response up to the end of its head; ``parts`` returns the body."""
        self._streaming = True
        response = self._begin(request)
        await self._wait(lambda: response.status >= 200)
        return response

    async def parts(self, idle_s: float) -> AsyncGenerator[bytes, None]:
        """The body's bytes as they arrive. The connection fails if none arrive for ``idle_s``."""
        response = self._response
        assert response is not None
        while True:
            while response.parts:
                taken = response.parts
                response.parts = []
                self._waiting_bytes = 0
                self._resume()
                for part in taken:
                    yield part
            if response.done:
                return
            watchdog = self._loop.call_later(idle_s, self.fail, f"the server sent nothing for {idle_s:.0f} s")
            try:
                await self._wait(lambda: bool(response.parts) or response.done)
            finally:
                watchdog.cancel()

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # -- one request -----------------------------------------------------------------------------------------------

    def _begin(self, request: bytes) -> ResponseParser:
        assert self._transport is not None
        assert self._response is None
        self._response = response = ResponseParser()
        self._transport.write(request)
        return response

    def _finish(self, response: ResponseParser) -> None:
        """Makes the connection reusable, or closes it."""
        if response.keep_alive:
            self._response = None
        else:
            self.abort()

    async def _wait(self, satisfied: Callable[[], bool]) -> None:
        """Waits until ``satisfied`` returns true. Raises the error of the connection."""
        while not satisfied():
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def fail(self, text: str, reason: BreakReason = "timeout") -> None:
        """Ends the request in progress with an error, and closes the connection."""
        self._set_error(text, reason)
        self.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _set_error(self, text: str, reason: BreakReason, cause: Exception | None = None) -> None:
        if self._error is None:
            response = self._response
            self._error = ConnectionBroken(
                text,
                reason,
                response_started=response is not None and response.started,
                in_body=response is not None and response.has_head,
            )
            self._error.__cause__ = cause
        self._wake()

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self.closed:
            self._paused = False
            self._transport.resume_reading()

    # -- callbacks of the event loop -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # transports of uvloop do not inherit from asyncio.Transport
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self.abort()  # no request is in progress: these bytes must not become the response to the next one
            return
        try:
            response.feed(data)
        except MalformedResponse as error:
            self._set_error(f"the response is not valid HTTP: {error}", "malformed", error)
            self.abort()
            return
        if self._streaming:
            self._count_waiting(response, len(data))
        elif response.size > self._max_bytes:
            self.fail(f"a response is longer than {self._max_bytes} bytes", "too long")
        elif response.done:
            self._wake()

    def _count_waiting(self, response: ResponseParser, size: int) -> None:
        if response.status >= 200:
            self._waiting_bytes += size
            if self._waiting_bytes > _MAX_WAITING_BYTES and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake()

    def eof_received(self) -> bool:
        return False  # asyncio then closes the connection for writing, too

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._connections.discard(self)
        response = self._response
        if response is not None:
            response.closed()
        if response is not None and response.done:
            self._wake()
        else:
            reason: BreakReason = "reset" if isinstance(exc, ConnectionResetError) else "closed"
            self._set_error(f"the connection ended too early{f': {exc}' if exc else ''}", reason, exc)
