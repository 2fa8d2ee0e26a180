"""The input and output of ``handle`` (``apiserver/handler.py``): requests, responses, effects.

``handle`` is a generator without I/O. Its driver (``apiserver/io/api_server.py``) passes a :class:`ServerRequest`,
performs each :data:`Effect` that the generator yields and sends the result back into it, and delivers the
:class:`ServerResponse` or the watch that it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Literal

import msgspec

from headgate.apiserver.request.request_info import RequestInfo, request_info
from headgate.http.peer import CertificateSubject
from headgate.store import Revision

AuditLevel = Literal["Metadata", "Request", "RequestResponse"]


LONG_BYTES: Final = 32 * 1024
"""Bodies, paths with their queries, and stored objects up to this size are processed in the event loop; longer ones in
the worker thread. The processing takes at most about 2 microseconds per byte."""
_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class ServerRequest(msgspec.Struct, frozen=True, dict=True):  # dict=True: the cached property `info` needs a dict
    """One HTTP request, fully read. Header names are lower case; ``query`` is the raw query string.

    For a repeated header, ``headers`` has the first value and ``repeated`` has all.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    peer: CertificateSubject | None = None  # None without a valid client certificate or a connection
    bad_certificate: bool = False  # the client certificate is not signed by a trusted CA
    repeated: Mapping[str, tuple[str, ...]] = {}
    source: str = ""  # the client's address; empty for a client in the same process

    @cached_property
    def info(self) -> RequestInfo:
        """The parsed request, which authorization, audit and execution share."""
        return request_info(self.method, self.path, self.query)

    @property
    def has_long_target(self) -> bool:
        """Whether the path and the query are too long to be parsed in the event loop."""
        return len(self.path) + len(self.query) > LONG_BYTES

    @property
    def has_long_headers(self) -> bool:
        """Whether the headers are too long to be parsed in the event loop: some of them are lists, such as ``Accept``
        and the impersonation headers."""
        size = sum(map(len, self.headers)) + sum(map(len, self.headers.values()))
        if self.repeated:
            size += sum(len(value) + 1 for values in self.repeated.values() for value in values)
        return size > LONG_BYTES

    @property
    def is_read(self) -> bool:
        """Whether the request counts as a read in the limits on requests in flight.

        The path decides. A path that is too long to be parsed here is not parsed: then the method decides.
        """
        return self.method in _READING_METHODS if self.has_long_target else not self.info.is_write

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def header_values(self, name: str) -> tuple[str, ...]:
        """All values of a header that may be repeated."""
        if name in self.repeated:
            return self.repeated[name]
        return (self.headers[name],) if name in self.headers else ()


class Moment(msgspec.Struct, frozen=True):
    """The inputs that are not in the request or the store: the time, new uids and random numbers."""

    epoch_s: float
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]  # five characters for `generateName`
    randrange: Callable[[int], int]  # a random number below the argument


class ServerResponse(msgspec.Struct, frozen=True):
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Commit(msgspec.Struct, frozen=True):
    """Make all staged writes up to ``revision`` durable; send back ``None``, or a ``StatusError`` if that failed."""

    revision: Revision


class WaitRevision(msgspec.Struct, frozen=True):
    """Wait until ``revision`` is committed, at most ``timeout_s``; send back whether it was reached."""

    revision: Revision
    timeout_s: float


class WebhookCall(msgspec.Struct, frozen=True):
    """One POST of JSON. ``url`` includes the query. Without a ``ca_bundle`` (PEM) the system's CAs are trusted."""

    url: str
    body: bytes
    timeout_s: float
    ca_bundle: bytes = b""


class WebhookAnswer(msgspec.Struct, frozen=True):
    """The response, or the error in the words of client-go.

    ``no_client``: the call could not be prepared because of its certificates. ``problem``: the call failed. Both empty:
    ``status``, ``content_type`` and ``body`` are the response. ``took_s`` is its duration.
    """

    status: int = 0
    body: bytes = b""
    content_type: str = ""
    no_client: str = ""
    problem: str = ""
    took_s: float = 0.0


class CallWebhooks(msgspec.Struct, frozen=True):
    """Make these calls in parallel; send back a tuple of :class:`WebhookAnswer`, in the same order.

    Other writes may be staged before the request continues.
    """

    calls: tuple[WebhookCall, ...]


class RecordAuditEvent(msgspec.Struct, frozen=True):
    """Record this event. Nothing is sent back, and the request does not wait."""

    event: dict[str, Any]


class ContinueInThread(msgspec.Struct, frozen=True):
    """Run the rest of the request in the worker thread, because it takes long. Nothing is sent back.

    Other writes may be staged before the request continues.
    """


Effect = Commit | WaitRevision | CallWebhooks | RecordAuditEvent | ContinueInThread
