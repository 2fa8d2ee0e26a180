"""The interface between the HTTP server and its request handlers.

``server_connection.py`` reads a request completely and calls a :class:`RequestHandler`; the handler returns a
:class:`HandlerResponse`, or a coroutine if the response takes time. The handlers are ``apiserver/io/http_handler.py``
(API server), ``runtime/webhooks/server.py`` (webhooks) and ``runtime/health/handler.py`` (health and metrics).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, Protocol

import msgspec

from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest
from headgate.http.response_encoder import Headers
from headgate.http.server_tls import ClientCertificate

TEXT: Final = "text/plain; charset=utf-8"


class ClientPeer(msgspec.Struct, frozen=True):
    """The other end of the connection: its verified certificate, if it showed one, and its address."""

    certificate: ClientCertificate | None = None
    source: str = ""


class StreamedBody(Protocol):
    """A body that is produced while it is sent. The connection takes parts when the client reads them."""

    def begin(self, wake: Callable[[], None]) -> None:
        """Called before the head is sent. The body calls ``wake`` when it has more parts."""

    def take(self, now_s: float, limit_bytes: int) -> bytes:
        """The next part; empty if there is none now."""

    @property
    def ended(self) -> bool:
        """Whether there are no more parts."""

    @property
    def behind(self) -> bool:
        """Whether another part is available now."""

    @property
    def due_s(self) -> float:
        """When to call ``take`` again without a call of ``wake``."""

    def close(self) -> None:
        """Called when no more parts are taken."""


class HandlerResponse(msgspec.Struct, frozen=True):
    """``body``: the whole body, or a stream. ``closes``: the connection is closed after the response."""

    status: int
    body: bytes | StreamedBody = b""
    content_type: str = TEXT
    headers: Headers = ()
    closes: bool = False


ProblemKind = Literal[
    "malformed head",
    "head too slow",
    "head cut off",
    "malformed body",
    "body too slow",
    "too many bodies",
    "handler failed",
]


class RequestProblem(msgspec.Struct, frozen=True):
    """Why a request did not reach the handler, or why the handler failed. ``status`` is the default status."""

    kind: ProblemKind
    status: int
    text: str


class RequestHandler(Protocol):
    """Called in the event loop."""

    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        """Whether the server reads the body. If not, the request is handled without it and is not ``complete``."""

    def handle(
        self, request: ReceivedRequest, peer: ClientPeer
    ) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]: ...

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        """The response to a request with a problem. With ``None`` the server responds: to a malformed head like a Go
        server, to a missing head not at all, and to any other problem with its status and text."""
