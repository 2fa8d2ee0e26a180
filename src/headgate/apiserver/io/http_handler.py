"""Connects the HTTP server with the API server: credentials of the connection, limits, compression, and watches.

``http/server_connection.py`` reads requests and sends the responses; ``apiserver/handler.py`` decides the response. The
HTTP server closes the connection of a client that does not read its watch; the client can resume the watch.
"""

from __future__ import annotations

import asyncio
import gzip
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final

from headgate.apimachinery import api_errors
from headgate.apiserver.io.api_server import APIServer, PendingResponse
from headgate.apiserver.registry import responses
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.watch.stream import WatchStream
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.http.request_handler import TEXT, ClientPeer, HandlerResponse, RequestProblem
from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest
from headgate.http.response_encoder import Headers
from headgate.http.server_limits import ServerLimits

_GZIP_FROM_BYTES: Final = 128 * 1024
_GZIPPED: Final = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
_TOO_MANY: Final = ServerResponse(
    429,
    b"Too many requests, please try again later.\n",
    TEXT,
    (("Retry-After", "1"), ("X-Content-Type-Options", "nosniff")),
)
_TIMEOUT: Final = api_errors.StatusError(
    504, "Timeout", "Timeout: request did not complete within the allotted timeout"
)
_PRIVATE: Final = ("Cache-Control", "no-cache, private")
_NO_CACHE_CONTROL: Final = ("Cache-Control", "")
"""A marker: the response has no ``Cache-Control`` header."""


class RequestsInFlight:
    """Counts the requests in flight, reads and writes separately (as ``--max-requests-inflight`` of kube-apiserver)."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits: Final = limits
        self._count: Final = {True: 0, False: 0}

    def is_at_limit(self, *, reading: bool) -> bool:
        return self._count[reading] >= (self._limits.reads_in_flight if reading else self._limits.writes_in_flight)

    def begin(self, *, reading: bool) -> None:
        self._count[reading] += 1

    def finish(self, *, reading: bool) -> None:
        self._count[reading] -= 1


class APIRequestHandler:
    """A ``RequestHandler``."""

    def __init__(self, endpoint: APIServer, limits: ServerLimits) -> None:
        self._endpoint: Final = endpoint
        self._in_flight: Final = RequestsInFlight(limits)

    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        return self._endpoint.user_of(_request(head, b"", peer)) is not None

    def handle(
        self, request: ReceivedRequest, peer: ClientPeer
    ) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]:
        head = request.head
        server_request = _request(head, request.body, peer)
        reading = server_request.is_read
        if self._in_flight.is_at_limit(reading=reading) and not self._is_in_system_masters(server_request):
            return _respond(_TOO_MANY)
        response = self._endpoint.begin(server_request)
        if isinstance(response, WatchCursor):
            return self._watch(response)
        if not isinstance(response, ServerResponse):
            return self._respond_later(head, response, reading=reading)
        return _compress(response) if _is_compressed(head, response) else _respond(response)

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        match problem.kind:
            case "malformed body":
                # kube-apiserver returns 500 here, which looks like a defect of the server to clients and alerts.
                return _respond(responses.refuse(api_errors.bad_request(problem.text)))
            case "body too slow":
                return _respond(responses.refuse(_TIMEOUT))
            case "too many bodies":
                return _respond(_TOO_MANY)
            case "handler failed":
                text = "the request failed because of a defect of the server; its log has the details"
                return _respond(responses.refuse(api_errors.internal_error(text)))
            case _:
                return None

    def _is_in_system_masters(self, request: ServerRequest) -> bool:
        """Members of ``system:masters`` are not limited, so that they can repair a busy server."""
        user = self._endpoint.user_of(request)
        return user is not None and user.is_in_system_masters

    async def _respond_later(self, head: RequestHead, pending: PendingResponse, *, reading: bool) -> HandlerResponse:
        self._in_flight.begin(reading=reading)
        try:
            response = await pending
        finally:
            self._in_flight.finish(reading=reading)
        if isinstance(response, WatchCursor):
            return self._watch(response)
        return await _compress(response) if _is_compressed(head, response) else _respond(response)

    def _watch(self, watch: WatchCursor) -> HandlerResponse:
        return HandlerResponse(200, ServedWatch(self._endpoint, watch), watch.content_type, _headers(watch.headers))


class ServedWatch:
    """A ``StreamedBody``: the events of a watch, until the watch ends or the server stops."""

    def __init__(self, endpoint: APIServer, watch: WatchCursor) -> None:
        self._endpoint: Final = endpoint
        self._stream: Final = WatchStream(watch, asyncio.get_running_loop().time())
        self._unsubscribe: Callable[[], None] | None = None

    def begin(self, wake: Callable[[], None]) -> None:
        self._unsubscribe = self._endpoint.follow(self._stream, wake)

    def take(self, now_s: float, limit_bytes: int) -> bytes:
        return self._stream.take(now_s, limit_bytes)

    @property
    def ended(self) -> bool:
        return self._stream.ended or (self._endpoint.stopping and not self._stream.behind)

    @property
    def behind(self) -> bool:
        return self._stream.behind

    @property
    def due_s(self) -> float:
        return self._stream.due_s

    def close(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None


def _request(head: RequestHead, body: bytes, peer: ClientPeer) -> ServerRequest:
    certificate = peer.certificate
    is_valid = certificate is None or certificate.is_valid_at(time.time())
    return ServerRequest(
        head.method,
        head.path,
        head.query,
        head.headers,
        body,
        certificate.peer if certificate is not None and is_valid else None,
        not is_valid,
        head.repeated,
        peer.source,
    )


def _is_compressed(head: RequestHead, response: ServerResponse) -> bool:
    return len(response.body) >= _GZIP_FROM_BYTES and "gzip" in head.headers.get("accept-encoding", "")


async def _compress(response: ServerResponse) -> HandlerResponse:
    """Compresses the body in a thread, because compression is the longest step of a long response."""
    body = await asyncio.get_running_loop().run_in_executor(None, gzip.compress, response.body, 1)
    return HandlerResponse(response.status, body, response.content_type, _headers((*response.headers, *_GZIPPED)))


def _respond(response: ServerResponse) -> HandlerResponse:
    return HandlerResponse(response.status, response.body, response.content_type, _headers(response.headers))


def _headers(headers: Headers) -> Headers:
    """Adds the headers that every response has. A response to an audited request already has its ``Audit-Id``."""
    if not headers:
        return (("Audit-Id", str(uuid.uuid4())), _PRIVATE)
    first: Headers = () if headers[0][0] == "Audit-Id" else (("Audit-Id", str(uuid.uuid4())),)
    if not any(name.lower() == "cache-control" for name, _ in headers):
        first = (*first, _PRIVATE)
    return (*first, *(each for each in headers if each != _NO_CACHE_CONTROL))
