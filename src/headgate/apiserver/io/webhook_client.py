"""Calls webhooks over HTTPS: performs ``CallWebhooks`` for ``apiserver/io/api_server.py``.

Connections are kept alive and used again, per CA bundle (``http/client_pool.py``). The size of a response is limited.
A redirect is not followed, because a webhook must not make the API server call other addresses (CVE-2020-8561). A body
is never logged. Failures have the error texts of client-go, because users search for them.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
import time
from collections import OrderedDict
from typing import Final
from urllib.parse import quote, urlsplit

from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall
from headgate.http.client_connection import ConnectionBroken, HTTPClientConnection
from headgate.http.client_pool import ClientConnectionPool, close_connections
from headgate.http.request_encoder import ServerAddress, common_fields, encode
from headgate.http.response_parser import BodyTooLong, MalformedResponse, ResponseParser
from headgate.http.transport import HTTPRequest

MAX_RESPONSE_BYTES: Final = 3 * 1024 * 1024

_MAX_POOLS: Final = 200
_KEEP_ALIVE_S: Final = 15.0
_HEADERS: Final = {
    "accept": "application/json, */*",
    "content-type": "application/json",
    "user-agent": "kube-apiserver-admission",
}
_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;=~"
_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_EOF: Final = "EOF"
_RESET: Final = "connection reset by peer"
_DEADLINE: Final = "context deadline exceeded"
_BROKEN_PREFIX: Final = "net/http: HTTP/1.x transport connection broken: "
_UNREADABLE_PREFIX: Final = "unexpected error when reading response body. Please retry. Original error: "
_REASONS: Final = {errno.ECONNREFUSED: "connection refused", errno.EHOSTUNREACH: "no route to host"}
# OpenSSL's verify codes for a certificate chain that does not end at a trusted certificate.
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_EXPIRED: Final = frozenset({9, 10})
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


class WebhookClient:
    """All its methods must be called in one event loop."""

    def __init__(self) -> None:
        self._contexts: Final[OrderedDict[bytes, ssl.SSLContext]] = (
            OrderedDict()
        )  # by CA bundle, least recently used first
        self._pools: Final[OrderedDict[tuple[bytes, str, int], ClientConnectionPool]] = OrderedDict()
        self._connections: Final[set[HTTPClientConnection]] = set()

    async def call(self, calls: tuple[WebhookCall, ...]) -> tuple[WebhookAnswer, ...]:
        return tuple(await asyncio.gather(*(self._timed_call(each) for each in calls)))

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()
        self._contexts.clear()
        await close_connections(self._connections)

    async def _timed_call(self, call: WebhookCall) -> WebhookAnswer:
        began_s = time.monotonic()
        context = self._context(call.ca_bundle)
        if isinstance(context, str):
            return WebhookAnswer(no_client=context)
        response = await self._post(call, context)
        return WebhookAnswer(
            status=response.status,
            body=response.body,
            content_type=response.content_type,
            problem=response.problem,
            took_s=time.monotonic() - began_s,
        )

    async def _post(self, call: WebhookCall, context: ssl.SSLContext) -> WebhookAnswer:
        if not call.url.startswith("https://"):
            return _failure(call, "only https is allowed")
        try:
            address, path, query = _split(call.url)
            request = HTTPRequest("POST", path, query, _HEADERS, call.body)
            payload = encode(request, address, common_fields(address, ""))
        except ValueError as problem:
            return _failure(call, _one_line(problem))
        deadline_s = asyncio.get_running_loop().time() + call.timeout_s
        try:
            return _read_response(call, await self._fetch(self._pool(call, address, context), payload, deadline_s))
        except ConnectionBroken as problem:
            return _connection_broken(call, problem)
        except OSError as problem:
            return _failure(call, _connect_error(problem, address))

    async def _fetch(self, pool: ClientConnectionPool, payload: bytes, deadline_s: float) -> ResponseParser:
        """Sends the request. If the webhook closes a keep-alive connection at the same time, another one is tried."""
        while (connection := pool.idle_connection()) is not None:
            try:
                return await pool.fetch(connection, payload, deadline_s, MAX_RESPONSE_BYTES)
            except ConnectionBroken as problem:
                if problem.in_body or problem.reason not in ("closed", "reset"):
                    raise
        return await pool.fetch(await pool.connect(deadline_s), payload, deadline_s, MAX_RESPONSE_BYTES)

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext | str:
        context = self._contexts.get(ca_bundle)
        if context is None:
            new_context = _tls_context(ca_bundle)
            if isinstance(new_context, str):
                return new_context
            context = self._contexts[ca_bundle] = new_context
            if len(self._contexts) > _MAX_POOLS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(ca_bundle)
        return context

    def _pool(self, call: WebhookCall, address: ServerAddress, context: ssl.SSLContext) -> ClientConnectionPool:
        key = (call.ca_bundle, address.host, address.port)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = ClientConnectionPool(
                address, keep_alive_s=_KEEP_ALIVE_S, connections=self._connections
            )
            pool.use_tls(context)
            if len(self._pools) > _MAX_POOLS:
                _, least_recent = self._pools.popitem(last=False)
                least_recent.drop()
        self._pools.move_to_end(key)
        return pool


def _tls_context(ca_bundle: bytes) -> ssl.SSLContext | str:
    """The TLS context for a CA bundle, or why the bundle is invalid. It accepts the same certificates as Go."""
    context = ssl.create_default_context() if not ca_bundle else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Certificates of webhooks often lack extensions that Python requires and Go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not ca_bundle:
        return context
    if b"-----BEGIN " not in ca_bundle:
        return "unable to load root certificates: unable to parse bytes as PEM block"
    try:
        context.load_verify_locations(cadata=ca_bundle.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        return "unable to load root certificates: no valid certificate authority data seen"
    return context


def _split(url: str) -> tuple[ServerAddress, str, str]:
    """The address, the path and the query. Raises ``ValueError`` for a URL without an address."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host:
        raise ValueError("http: no Host in request URL")
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    url_host = f"[{host}]" if ":" in host else host
    authority = url_host if parts.port is None else f"{url_host}:{parts.port}"
    path = quote(_BAD_ESCAPE.sub("%25", parts.path or "/"), safe=_PATH_CHARACTERS)
    return ServerAddress(host, parts.port or 443, True, authority), path, quote(parts.query, safe=_PATH_CHARACTERS)


def _read_response(call: WebhookCall, response: ResponseParser) -> WebhookAnswer:
    try:
        body = response.body(MAX_RESPONSE_BYTES)
    except BodyTooLong:
        return _too_long(call)
    except MalformedResponse:
        return WebhookAnswer(problem=_UNREADABLE_PREFIX + "unexpected EOF")
    return WebhookAnswer(status=response.status, body=body, content_type=response.headers.get("content-type", ""))


def _connection_broken(call: WebhookCall, problem: ConnectionBroken) -> WebhookAnswer:
    if problem.reason == "too long":
        return _too_long(call)
    if problem.in_body:
        return WebhookAnswer(
            problem=_UNREADABLE_PREFIX + (_DEADLINE if problem.reason == "timeout" else "unexpected EOF")
        )
    match problem.reason:
        case "timeout":
            return _failure(call, _DEADLINE)
        case "reset":
            return _failure(call, _RESET)
        case "malformed":
            return _failure(call, _BROKEN_PREFIX + _one_line(problem.__cause__ or problem))
        case "closed":
            cause = problem.__cause__
            return _failure(call, _EOF if cause is None else _handshake_error(cause))


def _failure(call: WebhookCall, reason: str) -> WebhookAnswer:
    return WebhookAnswer(problem=f'Post "{call.url}": {reason}')


def _too_long(call: WebhookCall) -> WebhookAnswer:
    return _failure(call, f"the response is longer than {MAX_RESPONSE_BYTES} bytes")


def _one_line(problem: BaseException) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _connect_error(problem: OSError, address: ServerAddress) -> str:
    match problem:
        case socket.gaierror():
            return f"dial tcp: lookup {address.host}: no such host"
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: x509: {_certificate_error(problem, address.host)}"
        case ssl.SSLError():
            return _handshake_error(problem)
    number = problem.errno
    if number is None and isinstance(problem, TimeoutError):
        return _DEADLINE
    if number is None and isinstance(problem, ConnectionError):
        return _EOF  # the webhook closed the connection during the handshake
    if number is None and (found := _ERRNO.search(str(problem))) is not None:
        number = int(found[1])  # asyncio tried several addresses, and names their errors only in the text
    host = f"[{address.host}]" if ":" in address.host else address.host
    reason = _REASONS.get(number or 0) or problem.strerror or _one_line(problem)
    return f"dial tcp {host}:{address.port}: connect: {reason}"


def _certificate_error(problem: ssl.SSLCertVerificationError, host: str) -> str:
    if problem.verify_code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if problem.verify_code in _EXPIRED:
        return "certificate has expired or is not yet valid"
    return problem.verify_message or f"certificate is not valid for {host}"


def _handshake_error(problem: BaseException) -> str:
    if isinstance(problem, ssl.SSLError) and problem.reason in _NO_TLS:
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {_one_line(problem)}"
