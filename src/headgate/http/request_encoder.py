"""Encodes a request, without I/O. The parts that all requests to a server share are encoded once."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from headgate.http.transport import HTTPRequest

_USER_AGENT: Final = "User-Agent: headgate\r\n"
_GZIP: Final = "Accept-Encoding: gzip\r\n"
_TARGET: Final = re.compile(r"/[!-~]*")
_QUERY: Final = re.compile(r"[!-~]*")
_FIELD: Final = re.compile(r"[ -~\t]*")
_BODILESS: Final = frozenset({"GET", "DELETE"})

RETRYABLE_METHODS: Final = frozenset({"GET"})
"""Requests that may be sent again even if the first one may have arrived. A PUT or DELETE is idempotent too, but its
second response is wrong: 409 or 404 because of what the first one did."""


class ServerAddress(msgspec.Struct, frozen=True):
    """The address of a server. ``prefix``: the path before all paths of its API."""

    host: str
    port: int
    tls: bool
    authority: str
    prefix: str = ""


def parse_server_address(server: str) -> ServerAddress | str:
    try:
        parts = urlsplit(server)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        return f"the server {server!r} is not a valid address: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.netloc.isascii():
        return f"the server {server!r} is not an http or https address"
    if parts.username or parts.query or parts.fragment:
        return f"the server {server!r} has a user, query or fragment, which has no meaning here"
    return ServerAddress(parts.hostname, port, parts.scheme == "https", parts.netloc, parts.path.rstrip("/"))


def common_fields(address: ServerAddress, token: str) -> str:
    """The header lines that every request to this server has."""
    bearer = f"Authorization: Bearer {_checked(token)}\r\n" if token else ""
    return f"Host: {address.authority}\r\n{bearer}"


def encode(request: HTTPRequest, address: ServerAddress, common: str, *, accept_gzip: bool = True) -> bytes:
    """Raises ``ValueError`` for a request that a server could read as two requests."""
    if _TARGET.fullmatch(request.path) is None or _QUERY.fullmatch(request.query) is None:
        raise ValueError(f"invalid path or query of a request: {request.path[:200]!r} {request.query[:200]!r}")
    query = f"?{request.query}" if request.query else ""
    headers = request.headers
    fields = "".join([f"{name}: {_checked(value)}\r\n" for name, value in headers.items()])
    agent = "" if "user-agent" in headers else _USER_AGENT
    coding = _GZIP if accept_gzip else ""
    length = f"Content-Length: {len(request.body)}\r\n" if request.body or request.method not in _BODILESS else ""
    line = f"{request.method} {address.prefix}{request.path}{query} HTTP/1.1\r\n"
    head = f"{line}{common}{agent}{coding}{fields}{length}\r\n".encode("ascii")
    return head + request.body if request.body else head


def _checked(value: str) -> str:
    if _FIELD.fullmatch(value) is None:
        raise ValueError(f"not a header value: {value[:40]!r}")
    return value
