"""One client connection: sends a request, receives its response, and then the next. The event loop does TLS.

A connection carries one request at a time. The caller waits for the whole response (``fetch``) or takes its parts as
they arrive (``fetch_head``, ``parts``); then reading pauses while too many parts wait. A connection that broke, or was
abandoned in a response, is closed; ``reusable`` says whether it may be used again. ``client/io/http_transport.py`` has
the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final, cast

from headgate.http.response_parser import LONGEST_BODY, MalformedResponse, ResponseParser

_Condition = Callable[[], bool]

_FULL_BYTES: Final = 1 << 20
"""So much of a watch may wait for its consumer before reading stops."""


class ConnectionBroken(Exception):
    """The connection ended before the response did. ``heard`` says whether any of the response had arrived."""

    def __init__(self, text: str, *, heard: bool) -> None:
        super().__init__(text)
        self.heard = heard


class HTTPClientConnection(asyncio.Protocol):
    """``lines`` holds every connection from the moment it is open until the event loop has closed its socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lines: set[HTTPClientConnection], tls_age: int = 0) -> None:
        self._loop = loop
        self._lines = lines
        self._transport: asyncio.Transport | None = None
        self._answer: ResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._streaming = False
        self._paused = False
        self._waiting_bytes = 0
        self._trouble: Exception | None = None
        self.closed = False
        self.idle_since_s = 0.0
        self.tls_age = tls_age

    # -- what the pool asks ----------------------------------------------------------------------------------------

    @property
    def reusable(self) -> bool:
        return not self.closed and self._answer is None

    async def fetch(self, request: bytes) -> ResponseParser:
        """The whole answer. Raises ``ConnectionBroken``; who stops waiting must ``abort``."""
        answer = self._begin(request)
        await self._wait(lambda: answer.done)
        self._finish(answer)
        return answer

    async def fetch_head(self, request: bytes) -> ResponseParser:
        """The answer up to its head; ``parts`` gives the body."""
        self._streaming = True
        answer = self._begin(request)
        await self._wait(lambda: answer.status >= 200)
        return answer

    async def parts(self, idle_s: float) -> AsyncGenerator[bytes, None]:
        """The body's bytes as they come. ``idle_s`` without any break the line."""
        answer = self._answer
        assert answer is not None
        while True:
            while answer.parts:
                taken = answer.parts
                answer.parts = []
                self._waiting_bytes = 0
                self._resume()
                for part in taken:
                    yield part
            if answer.done:
                return
            watchdog = self._loop.call_later(idle_s, self.give_up, f"nothing was heard for {idle_s:.0f} s")
            try:
                await self._wait(lambda: bool(answer.parts) or answer.done)
            finally:
                watchdog.cancel()

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # -- one request -----------------------------------------------------------------------------------------------

    def _begin(self, request: bytes) -> ResponseParser:
        assert self._transport is not None
        assert self._answer is None
        self._answer = answer = ResponseParser()
        self._transport.write(request)
        return answer

    def _finish(self, answer: ResponseParser) -> None:
        if answer.keeps:
            self._answer = None
        else:
            self.abort()

    async def _wait(self, satisfied: _Condition) -> None:
        while not satisfied():
            if self._trouble is not None:
                raise self._trouble
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def give_up(self, text: str) -> None:
        """What is waited for will not be waited for any longer."""
        self._break(text)
        self.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _break(self, text: str) -> None:
        if self._trouble is None:
            heard = self._answer is not None and self._answer.started
            self._trouble = ConnectionBroken(text, heard=heard)
        self._wake()

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self.closed:
            self._paused = False
            self._transport.resume_reading()

    # -- what the event loop tells ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of that class
        self._lines.add(self)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.abort()  # nobody asked: whatever this is, it must not become the answer to the next request
            return
        try:
            answer.feed(data)
        except MalformedResponse as error:
            self.give_up(f"it does not speak HTTP: {error}")
            return
        if self._streaming:
            self._heard(answer, len(data))
        elif answer.size > LONGEST_BODY:
            self.give_up(f"an answer is longer than {LONGEST_BODY} bytes")
        elif answer.done:
            self._wake()

    def _heard(self, answer: ResponseParser, size: int) -> None:
        if answer.status >= 200:
            self._waiting_bytes += size
            if self._waiting_bytes > _FULL_BYTES and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            self._wake()

    def eof_received(self) -> bool:
        return False  # close our half too

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._lines.discard(self)
        answer = self._answer
        if answer is not None:
            answer.closed()
        if answer is not None and answer.done:
            self._wake()
        else:
            self._break(f"the connection ended too early{f': {exc}' if exc else ''}")
