"""HTTP/1 on one connection: serves requests one after the other, sends responses in parts, and feeds watches.

``apiserver/handler.py`` decides what a request does; ``http/request_reader.py`` parses it. ``http/server_protocol.py``
drops a client that stops reading a response or a watch; the client can resume the watch.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
import uuid
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any, Final, Literal

from headgate.apimachinery import api_errors
from headgate.apiserver.io.api_server import APIServer, Pending
from headgate.apiserver.registry import responses
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.watch.stream import WatchStream
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.http import response_encoder
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.request_head import MalformedRequest, RequestHead
from headgate.http.request_reader import MalformedBody, ReceivedRequest, RequestReader
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import TLSServerProtocol

_log: Final = logging.getLogger(__name__)

_GZIP_FROM_BYTES: Final = 128 * 1024
_AHEAD_BYTES: Final = 64 * 1024  # what a client may send before its last request is answered
_REQUESTS_PER_TURN: Final = 16
_UNSERVED: Final = frozenset((401, 403, 429))
_TOO_MANY: Final = ServerResponse(
    429,
    b"Too many requests, please try again later.\n",
    "text/plain; charset=utf-8",
    (("Retry-After", "1"), ("X-Content-Type-Options", "nosniff")),
)
_TIMEOUT: Final = api_errors.StatusError(
    504, "Timeout", "Timeout: request did not complete within the allotted timeout"
)


class ConnectionContext:
    """What the connections of a server share."""

    def __init__(self, endpoint: APIServer, accounts: ConnectionTracker, limits: ServerLimits) -> None:
        self.endpoint: Final = endpoint
        self.accounts: Final = accounts
        self.limits: Final = limits
        self.stopping = False
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


class Connection:
    """Requests and responses of one connection."""

    def __init__(self, hub: ConnectionContext, line: TLSServerProtocol) -> None:
        self._hub: Final = hub
        self._line: Final = line
        self._loop: Final = asyncio.get_running_loop()
        self._reader: Final = RequestReader(hub.limits)
        self._phase: Literal["head", "idle", "body", "answering", "sending", "watching"] = "head"
        self._head: RequestHead | None = None  # of the request being read or answered
        self._keep_alive = True
        self._whole = True  # nothing of the request being answered is still to come
        self._last = False  # the client sends no more
        self._body_ends_s = 0.0
        self._advancing = False
        self._rest = memoryview(b"")  # of the answer being sent
        self._stream: WatchStream | None = None
        self._unfollow: Callable[[], None] | None = None
        self._pump_due = False
        line.waiting_bytes = lambda: len(self._rest)

    # -- what the line tells ---------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._advance()

    def may_write(self) -> None:
        if self._phase == "sending":
            self._send_more()
        elif self._phase == "watching":
            self._pump()

    def expired(self) -> None:
        if self._phase == "watching":
            self._pump()
        elif self._phase == "body" and self._head is not None:
            self._refuse(self._head, responses.refuse(_TIMEOUT))
        else:
            self._line.close()

    def sends_no_more(self) -> bool:
        self._last = True
        return self._phase in ("answering", "sending")

    def lost(self) -> None:
        self._rest = memoryview(b"")
        self._end_stream()

    def finish(self) -> None:
        self._keep_alive = False
        if self._phase in ("head", "idle"):
            self._line.close()

    # -- requests --------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Answer what has arrived, until there is no more, an answer must be waited for, or others have to wait."""
        if self._advancing:
            return
        self._advancing = True
        try:
            for _ in range(_REQUESTS_PER_TURN):
                if self._phase not in ("head", "idle", "body") or self._line.closed:
                    break
                got = self._reader.next()
                if got is None:
                    self._await_more()
                    return
                self._take(got)
            else:
                self._loop.call_soon(self._advance)
        finally:
            self._advancing = False
        if self._reader.buffered > _AHEAD_BYTES:
            self._line.hold_input(True)

    def _take(self, got: ReceivedRequest | MalformedBody | MalformedRequest) -> None:
        self._hub.accounts.set_head_bytes(self._line, 0)
        if self._phase == "body":
            self._hub.accounts.set_body_bytes(self._line, 0)
        match got:
            case MalformedRequest():
                self._line.write(got.response())
                self._line.close(linger=True)
            case MalformedBody(head, problem):
                # A real server calls this its own error (500), which is what clients and alerts take it for.
                self._refuse(head, responses.refuse(api_errors.bad_request(problem)))
            case ReceivedRequest():
                self._begin(got)

    def _await_more(self) -> None:
        limits, head = self._hub.limits, self._reader.in_body
        if self._last:
            self._line.close()
        elif head is None:
            if self._reader.buffered and self._phase == "idle":
                self._phase = "head"
                self._line.set_deadline(limits.head_s)
            if not self._hub.accounts.set_head_bytes(self._line, self._reader.buffered):
                self._line.close()
        else:
            now_s = self._loop.time()
            if self._phase != "body":
                self._phase, self._head = "body", head
                self._body_ends_s = now_s + limits.body_s
                if self._hub.endpoint.user_of(self._request(head, b"")) is None:
                    # A body that would not be read must not fill memory; the refusal needs none.
                    self._begin(ReceivedRequest(head, b"", complete=False))
                    return
                if head.expects_continue:
                    self._line.write(response_encoder.CONTINUE)
            # A real server waits for a body for ever. Here it has so long in all, and so long between two pieces.
            self._line.set_deadline(max(min(limits.body_silent_s, self._body_ends_s - now_s), 0.0))
            if not self._hub.accounts.set_body_bytes(self._line, self._reader.buffered):
                self._refuse(head, _TOO_MANY)

    def _begin(self, arrived: ReceivedRequest) -> None:
        head, hub = arrived.head, self._hub
        self._phase, self._head = "answering", head
        self._whole = arrived.complete
        self._keep_alive = head.keep_alive and arrived.complete and not hub.stopping
        self._line.set_deadline(None)
        if head.expects_unknown:
            self._line.write(response_encoder.EXPECTATION_FAILED)
            self._line.close(linger=True)
            return
        request = self._request(head, arrived.body)
        reading = request.is_read
        if hub.accounts.is_at_request_limit(reading=reading) and not self._is_master(request):
            self._answer(head, _TOO_MANY)
            return
        try:
            answer = hub.endpoint.begin(request)
        except Exception:
            answer = _bug(head)
        if isinstance(answer, ServerResponse | WatchCursor):
            self._answer(head, answer)
        else:
            hub.run(self._answer_later(head, answer, reading=reading))

    def _request(self, head: RequestHead, body: bytes) -> ServerRequest:
        certificate = self._line.client_certificate
        good = certificate is None or certificate.is_valid_at(time.time())
        return ServerRequest(
            head.method,
            head.path,
            head.query,
            head.headers,
            body,
            certificate.peer if certificate is not None and good else None,
            not good,
            head.repeated,
            self._line.source,
        )

    def _is_master(self, request: ServerRequest) -> bool:
        """A cluster admin is served by a busy server, to be able to repair it."""
        user = self._hub.endpoint.user_of(request)
        return user is not None and user.is_master

    async def _answer_later(self, head: RequestHead, pending: Pending, *, reading: bool) -> None:
        self._hub.accounts.begin_request(reading=reading)
        try:
            answer = await pending
        except Exception:
            answer = _bug(head)
        finally:
            self._hub.accounts.finish_request(reading=reading)
        self._answer(head, answer)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _refuse(self, head: RequestHead, answer: ServerResponse) -> None:
        """An answer to a request whose rest is not read."""
        self._phase, self._keep_alive, self._whole = "answering", False, False
        self._hub.accounts.set_body_bytes(self._line, 0)
        self._line.set_deadline(None)
        self._answer(head, answer)

    def _answer(self, head: RequestHead, answer: ServerResponse | WatchCursor) -> None:
        if self._line.closed:
            return
        if isinstance(answer, WatchCursor):
            _log.debug("%s %s watches", head.method, head.path)
            self._hub.accounts.mark_served(self._line)
            self._watch(head, answer)
            return
        _log.debug("%s %s %d", head.method, head.path, answer.status)
        if self._whole and answer.status not in _UNSERVED:
            self._hub.accounts.mark_served(self._line)
        if len(answer.body) >= _GZIP_FROM_BYTES and "gzip" in head.headers.get("accept-encoding", ""):
            self._hub.run(self._answer_compressed(head, answer))
        else:
            self._send(head, answer, answer.body, answer.headers)

    async def _answer_compressed(self, head: RequestHead, answer: ServerResponse) -> None:
        """In a thread, because it takes longer than everything else about a long answer."""
        body = await self._loop.run_in_executor(None, gzip.compress, answer.body, 1)
        if not self._line.closed:
            extra = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
            self._send(head, answer, body, (*answer.headers, *extra))

    def _send(self, head: RequestHead, answer: ServerResponse, body: bytes, headers: response_encoder.Headers) -> None:
        first = self._answer_head(head, answer.status, answer.content_type, headers, len(body))
        if head.method == "HEAD":
            body = b""
        if len(body) <= self._hub.limits.unsent_bytes:
            self._line.write(first + body)
            self._answered()
            return
        self._phase, self._rest = "sending", memoryview(body)
        self._line.write(first)
        self._send_more()

    def _send_more(self) -> None:
        """One piece; the next when this one is on its way and others had their turn."""
        if self._phase != "sending" or self._line.closed:
            return
        size = self._hub.limits.unsent_bytes
        piece, self._rest = self._rest[:size], self._rest[size:]
        self._line.write(piece)
        if not self._rest:
            self._answered()
        elif not self._line.stalled:
            self._loop.call_soon(self._send_more)

    def _answer_head(
        self, head: RequestHead, code: int, content_type: str, headers: response_encoder.Headers, length: int | None
    ) -> bytes:
        if length is None and head.minor == 0:
            self._keep_alive = False
        return response_encoder.encode_head(
            code,
            content_type,
            headers,
            minor=head.minor,
            keep_alive=self._keep_alive,
            length=length,
            audit_id=str(uuid.uuid4()),
            date=self._hub.date(),
        )

    def _answered(self) -> None:
        self._head = None
        if not self._keep_alive:
            self._line.close(linger=not self._whole)
            return
        self._phase = "idle"
        self._line.set_deadline(self._hub.limits.idle_s)
        self._line.hold_input(False)
        if self._reader.buffered or self._last:
            self._advance()

    # -- watches ---------------------------------------------------------------------------------------------------

    def _watch(self, head: RequestHead, watch: WatchCursor) -> None:
        self._phase = "watching"
        self._stream = WatchStream(watch, self._loop.time())
        self._unfollow = self._hub.endpoint.follow(self._stream, self._wake)
        self._pump(self._answer_head(head, 200, watch.content_type, watch.headers, None))

    def _wake(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self, first: bytes = b"") -> None:
        """Send what there is. A client that does not read is not pulled for: its watch only keeps a position."""
        self._pump_due = False
        stream, head = self._stream, self._head
        if stream is None or head is None or self._line.closed or self._line.stalled:
            return
        events = stream.take(self._loop.time(), self._hub.limits.unsent_bytes)
        framed = response_encoder.encode_chunk(events) if events and head.minor else events
        ends = stream.ended or (self._hub.endpoint.stopping and not stream.behind)
        if ends and head.minor:
            framed += response_encoder.LAST_CHUNK
        if first or framed:
            self._line.write(first + framed)
        if ends:
            self._end_stream()
            self._answered()
        elif stream.behind:
            self._wake()
        else:
            self._line.set_deadline(max(stream.due_s - self._loop.time(), 0))

    def _end_stream(self) -> None:
        self._stream = None
        if self._unfollow is not None:
            self._unfollow()
            self._unfollow = None


def _bug(head: RequestHead) -> ServerResponse:
    _log.exception("%s %s failed", head.method, head.path)
    return responses.refuse(api_errors.internal_error("the server met a bug of its own; its log has the details"))
