"""HTTP/1 on one server connection: reads requests one after the other, and sends responses in parts.

``request_reader.py`` parses requests, a handler (``request_handler.py``) builds the responses, ``server_protocol.py``
does TLS and timers, and closes the connection of a client that stops reading. Responses have the order of the requests:
the next request is parsed after the response to the one before.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from email.utils import formatdate
from typing import Any, Final, Literal

from headgate.http import response_encoder
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.request_handler import (
    ClientPeer,
    HandlerResponse,
    ProblemKind,
    RequestHandler,
    RequestProblem,
    StreamedBody,
)
from headgate.http.request_head import MalformedRequest, RequestHead
from headgate.http.request_reader import MalformedBody, ReceivedRequest, RequestReader
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import ServerProtocol

_log: Final = logging.getLogger(__name__)

_MAX_PIPELINED_BYTES: Final = 64 * 1024  # reading pauses when a client sends more before the response
_REQUESTS_PER_TURN: Final = 16
# A connection counts as unserved after these statuses (http/connection_tracker.py).
_UNSERVED: Final = frozenset((401, 403, 429))


class ServerContext:
    """The state that all connections of a server share."""

    def __init__(self, handler: RequestHandler, tracker: ConnectionTracker, limits: ServerLimits) -> None:
        self.handler: Final = handler
        self.tracker: Final = tracker
        self.limits: Final = limits
        self.stopping = False  # every response closes its connection
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._date = (0, "")

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def date(self) -> str:
        now = int(time.time())
        if self._date[0] != now:
            self._date = (now, formatdate(now, usegmt=True))
        return self._date[1]


class ServerConnection:
    """Requests and responses of one connection."""

    def __init__(self, context: ServerContext, protocol: ServerProtocol) -> None:
        self._context: Final = context
        self._protocol: Final = protocol
        self._loop: Final = asyncio.get_running_loop()
        self._reader: Final = RequestReader(context.limits)
        self._phase: Literal["head", "idle", "body", "handling", "sending", "streaming"] = "head"
        self._head: RequestHead | None = None  # of the request being read or handled
        self._peer: ClientPeer | None = None  # known after the handshake
        self._keep_alive = True
        self._complete = True  # the request that is being handled has arrived completely
        self._half_closed = False  # the client has closed its side of the connection
        self._body_ends_s = 0.0  # the deadline of the whole body
        self._advancing = False  # `_advance` is running: it must not call itself
        self._unsent = memoryview(b"")  # of the response being sent
        self._stream: StreamedBody | None = None
        self._part_scheduled = False
        protocol.waiting_bytes = lambda: len(self._unsent)

    # -- callbacks of the protocol ---------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._advance()

    def may_write(self) -> None:
        if self._phase == "sending":
            self._send_more()
        elif self._phase == "streaming":
            self._send_next_part()

    def expired(self) -> None:
        if self._phase == "streaming":
            self._send_next_part()
        elif self._phase == "body" and self._head is not None:
            self._refuse(self._head, "body too slow", 408, "the body was not complete in time")
        elif self._phase == "head":
            self._refuse_head("head too slow", 408, "the head was not complete in time")
        else:
            self._protocol.close()

    def sends_no_more(self) -> bool:
        self._half_closed = True
        if self._phase == "head":
            self._refuse_head("head cut off", 400, "the head ended too early")
        # An idle connection with buffered bytes has more requests, which wait for the next turn of the event loop.
        return self._phase in ("handling", "sending") or (self._phase == "idle" and self._reader.buffered > 0)

    def lost(self) -> None:
        self._unsent = memoryview(b"")
        self._end_stream()

    def finish(self) -> None:
        self._keep_alive = False
        if self._phase in ("head", "idle"):
            self._protocol.close()

    # -- requests --------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Handles the requests that have arrived, until a response takes time or the limit per turn is reached."""
        if self._advancing:
            return
        self._advancing = True
        try:
            for _ in range(_REQUESTS_PER_TURN):
                if self._phase not in ("head", "idle", "body") or self._protocol.closed:
                    break
                received = self._reader.next()
                if received is None:
                    self._await_more()
                    return
                self._process(received)
            else:
                self._loop.call_soon(self._advance)
        finally:
            self._advancing = False
        if self._reader.buffered > _MAX_PIPELINED_BYTES:
            self._protocol.pause_input(True)

    def _process(self, received: ReceivedRequest | MalformedBody | MalformedRequest) -> None:
        self._context.tracker.set_head_bytes(self._protocol, 0)
        if self._phase == "body":
            self._context.tracker.set_body_bytes(self._protocol, 0)
        match received:
            case MalformedRequest():
                self._refuse_head("malformed head", received.status, received.reason, received.response())
            case MalformedBody(head, problem):
                self._refuse(head, "malformed body", 400, problem)
            case ReceivedRequest():
                self._begin(received)

    def _await_more(self) -> None:
        """No complete request has arrived: sets the deadline for its rest, and enforces the limits of buffered
        bytes."""
        limits, head = self._context.limits, self._reader.in_body
        if self._half_closed:
            self._protocol.close()
        elif head is None:
            if self._reader.buffered and self._phase == "idle":
                self._phase = "head"
                self._protocol.set_deadline(limits.head_s)
            if not self._context.tracker.set_head_bytes(self._protocol, self._reader.buffered):
                self._protocol.close()
        else:
            now_s = self._loop.time()
            if self._phase != "body":
                self._phase, self._head = "body", head
                self._body_ends_s = now_s + limits.body_s
                if not self._context.handler.wants_body(head, self._client()):
                    # The handler does not use the body, so it is not read.
                    self._begin(ReceivedRequest(head, b"", complete=False))
                    return
                if head.expects_continue:
                    self._protocol.write(response_encoder.CONTINUE)
            # There is a deadline for the whole body, and one between two pieces of it. A Go server has neither.
            self._protocol.set_deadline(max(min(limits.body_silent_s, self._body_ends_s - now_s), 0.0))
            if not self._context.tracker.set_body_bytes(self._protocol, self._reader.buffered):
                self._refuse(head, "too many bodies", 429, "Too many requests, please try again later.")

    def _begin(self, received: ReceivedRequest) -> None:
        """Calls the handler with a request."""
        head, context = received.head, self._context
        self._phase, self._head = "handling", head
        self._complete = received.complete
        self._keep_alive = head.keep_alive and received.complete
        self._protocol.set_deadline(None)
        if head.expects_unknown:
            self._protocol.write(response_encoder.EXPECTATION_FAILED)
            self._protocol.close(linger=True)
            return
        try:
            response = context.handler.handle(received, self._client())
        except Exception:
            response = self._failure_response(head)
        if isinstance(response, HandlerResponse):
            self._respond(head, response)
        else:
            context.run(self._respond_later(head, response))

    def _client(self) -> ClientPeer:
        if self._peer is None:
            self._peer = ClientPeer(self._protocol.client_certificate, self._protocol.source)
        return self._peer

    async def _respond_later(self, head: RequestHead, pending: Coroutine[Any, Any, HandlerResponse]) -> None:
        try:
            response = await pending
        except Exception:
            response = self._failure_response(head)
        self._respond(head, response)

    # -- problems --------------------------------------------------------------------------------------------------

    def _refuse_head(self, kind: ProblemKind, status: int, text: str, encoded_response: bytes = b"") -> None:
        """Responds to a head that is malformed or incomplete, and closes the connection."""
        response = self._context.handler.refuse(RequestProblem(kind, status, text))
        if response is not None:
            assert isinstance(response.body, bytes)
            self._keep_alive = False
            encoded_response = self._encode_head(1, response, len(response.body)) + response.body
        if encoded_response:
            self._protocol.write(encoded_response)
        self._protocol.close(linger=bool(encoded_response) and not self._half_closed)

    def _refuse(self, head: RequestHead, kind: ProblemKind, status: int, text: str) -> None:
        """Responds to a request that is not read to its end."""
        self._phase, self._keep_alive, self._complete = "handling", False, False
        self._context.tracker.set_body_bytes(self._protocol, 0)
        self._protocol.set_deadline(None)
        self._respond(head, self._problem_response(kind, status, text))

    def _failure_response(self, head: RequestHead) -> HandlerResponse:
        _log.exception("%s %s failed", head.method, head.path)
        return self._problem_response("handler failed", 500, "Internal Server Error")

    def _problem_response(self, kind: ProblemKind, status: int, text: str) -> HandlerResponse:
        response = self._context.handler.refuse(RequestProblem(kind, status, text))
        return HandlerResponse(status, f"{text}\n".encode()) if response is None else response

    # -- responses -------------------------------------------------------------------------------------------------

    def _respond(self, head: RequestHead, response: HandlerResponse) -> None:
        if self._protocol.closed:
            return
        _log.debug("%s %s %d", head.method, head.path, response.status)
        if self._complete and response.status not in _UNSERVED:
            self._context.tracker.mark_served(self._protocol)
        if response.closes or self._context.stopping:
            self._keep_alive = False
        if isinstance(response.body, bytes):
            self._send(head, response, response.body)
        else:
            self._begin_stream(head, response, response.body)

    def _send(self, head: RequestHead, response: HandlerResponse, body: bytes) -> None:
        first = self._encode_head(head.minor, response, len(body))
        if head.method == "HEAD":
            body = b""
        if len(body) <= self._context.limits.unsent_bytes:
            self._protocol.write(first + body)
            self._response_sent()
            return
        self._phase, self._unsent = "sending", memoryview(body)
        self._protocol.write(first)
        self._send_more()

    def _send_more(self) -> None:
        """Sends one piece; the next one follows in another turn of the event loop, when the client has read enough."""
        if self._phase != "sending" or self._protocol.closed:
            return
        size = self._context.limits.unsent_bytes
        piece, self._unsent = self._unsent[:size], self._unsent[size:]
        self._protocol.write(piece)
        if not self._unsent:
            self._response_sent()
        elif not self._protocol.stalled:
            self._loop.call_soon(self._send_more)

    def _encode_head(self, minor: int, response: HandlerResponse, length: int | None) -> bytes:
        return response_encoder.encode_head(
            response.status,
            response.content_type,
            response.headers,
            minor=minor,
            keep_alive=self._keep_alive,
            length=length,
            date=self._context.date(),
        )

    def _response_sent(self) -> None:
        """The whole response is written: closes the connection, or continues with the next request."""
        self._head = None
        if not self._keep_alive:
            self._protocol.close(linger=not self._complete)
            return
        self._phase = "idle"
        self._protocol.set_deadline(self._context.limits.idle_s)
        self._protocol.pause_input(False)
        if self._reader.buffered or self._half_closed:
            self._advance()

    # -- responses in parts ----------------------------------------------------------------------------------------

    def _begin_stream(self, head: RequestHead, response: HandlerResponse, stream: StreamedBody) -> None:
        self._phase, self._stream = "streaming", stream
        if head.minor == 0:
            self._keep_alive = False
        stream.begin(self._wake)
        self._send_next_part(self._encode_head(head.minor, response, None))

    def _wake(self) -> None:
        """The stream has another part."""
        if not self._part_scheduled:
            self._part_scheduled = True
            self._loop.call_soon(self._send_next_part)

    def _send_next_part(self, first: bytes = b"") -> None:
        """Sends the next part of the stream, unless the client has stopped reading."""
        self._part_scheduled = False
        stream, head = self._stream, self._head
        if stream is None or head is None or self._protocol.closed or self._protocol.stalled:
            return
        part = stream.take(self._loop.time(), self._context.limits.unsent_bytes)
        framed = response_encoder.encode_chunk(part) if part and head.minor else part
        ends = stream.ended
        if ends and head.minor:
            framed += response_encoder.LAST_CHUNK
        if first or framed:
            self._protocol.write(first + framed)
        if ends:
            self._end_stream()
            self._response_sent()
        elif stream.behind:
            self._wake()
        else:
            self._protocol.set_deadline(max(stream.due_s - self._loop.time(), 0))

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
