"""Calls webhooks over HTTPS: performs ``CallWebhooks`` for ``apiserver/io/api_server.py``.

Connections are kept and used again, per CA bundle (``http/client_pool.py``). A response is bounded, a redirect is not
followed (a webhook must not make the server call other addresses: CVE-2020-8561), a body is never logged. Failures have
the error texts of client-go, because users search for them.
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

MAX_ANSWER_BYTES: Final = 3 * 1024 * 1024

_KEPT_POOLS: Final = 200
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
_BROKEN: Final = "net/http: HTTP/1.x transport connection broken: "
_UNREADABLE: Final = "unexpected error when reading response body. Please retry. Original error: "
_REASONS: Final = {errno.ECONNREFUSED: "connection refused", errno.EHOSTUNREACH: "no route to host"}
# OpenSSL's numbers for a chain that does not end at a certificate that is trusted.
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_EXPIRED: Final = frozenset({9, 10})
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


class WebhookClient:
    """Belongs to one event loop; ``close`` it there."""

    def __init__(self) -> None:
        self._contexts: Final[OrderedDict[bytes, ssl.SSLContext]] = OrderedDict()  # by CA bundle, oldest first
        self._pools: Final[OrderedDict[tuple[bytes, str, int], ClientConnectionPool]] = OrderedDict()
        self._connections: Final[set[HTTPClientConnection]] = set()

    async def call(self, calls: tuple[WebhookCall, ...]) -> tuple[WebhookAnswer, ...]:
        return tuple(await asyncio.gather(*(self._once(each) for each in calls)))

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()
        self._contexts.clear()
        await close_connections(self._connections)

    async def _once(self, call: WebhookCall) -> WebhookAnswer:
        began = time.monotonic()
        context = self._context(call.ca_bundle)
        if isinstance(context, str):
            return WebhookAnswer(no_client=context)
        answer = await self._post(call, context)
        return WebhookAnswer(
            status=answer.status,
            body=answer.body,
            content_type=answer.content_type,
            problem=answer.problem,
            took_s=time.monotonic() - began,
        )

    async def _post(self, call: WebhookCall, context: ssl.SSLContext) -> WebhookAnswer:
        if not call.url.startswith("https://"):
            return _failed(call, "only https is allowed")
        try:
            address, path, query = _split(call.url)
            request = HTTPRequest("POST", path, query, _HEADERS, call.body)
            payload = encode(request, address, common_fields(address, ""))
        except ValueError as problem:
            return _failed(call, _one_line(problem))
        deadline_s = asyncio.get_running_loop().time() + call.timeout_s
        try:
            return _answer(call, await self._fetch(self._pool(call, address, context), payload, deadline_s))
        except ConnectionBroken as problem:
            return _broken(call, problem)
        except OSError as problem:
            return _failed(call, _no_connection(problem, address))

    async def _fetch(self, pool: ClientConnectionPool, payload: bytes, deadline_s: float) -> ResponseParser:
        """A kept connection that the webhook closes as it is used again is no failure: another one is tried."""
        while (connection := pool.idle_connection()) is not None:
            try:
                return await pool.fetch(connection, payload, deadline_s, MAX_ANSWER_BYTES)
            except ConnectionBroken as problem:
                if problem.in_body or problem.reason not in ("closed", "reset"):
                    raise
        return await pool.fetch(await pool.connect(deadline_s), payload, deadline_s, MAX_ANSWER_BYTES)

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext | str:
        context = self._contexts.get(ca_bundle)
        if context is None:
            trust = _trust(ca_bundle)
            if isinstance(trust, str):
                return trust
            context = self._contexts[ca_bundle] = trust
            if len(self._contexts) > _KEPT_POOLS:
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
            if len(self._pools) > _KEPT_POOLS:
                _, oldest = self._pools.popitem(last=False)
                oldest.drop()
        self._pools.move_to_end(key)
        return pool


def _trust(ca_bundle: bytes) -> ssl.SSLContext | str:
    """Who is believed: as lenient about the form of certificates as Go is, and no more so about names."""
    context = ssl.create_default_context() if not ca_bundle else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Webhooks' self-made certificates often lack extensions that only Python asks for.
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
    shown = f"[{host}]" if ":" in host else host
    authority = shown if parts.port is None else f"{shown}:{parts.port}"
    path = quote(_BAD_ESCAPE.sub("%25", parts.path or "/"), safe=_PATH_CHARACTERS)
    return ServerAddress(host, parts.port or 443, True, authority), path, quote(parts.query, safe=_PATH_CHARACTERS)


def _answer(call: WebhookCall, response: ResponseParser) -> WebhookAnswer:
    try:
        body = response.body(MAX_ANSWER_BYTES)
    except BodyTooLong:
        return _too_long(call)
    except MalformedResponse:
        return WebhookAnswer(problem=_UNREADABLE + "unexpected EOF")
    return WebhookAnswer(status=response.status, body=body, content_type=response.headers.get("content-type", ""))


def _broken(call: WebhookCall, problem: ConnectionBroken) -> WebhookAnswer:
    if problem.reason == "too long":
        return _too_long(call)
    if problem.in_body:
        return WebhookAnswer(problem=_UNREADABLE + (_DEADLINE if problem.reason == "timeout" else "unexpected EOF"))
    match problem.reason:
        case "timeout":
            return _failed(call, _DEADLINE)
        case "reset":
            return _failed(call, _RESET)
        case "malformed":
            return _failed(call, _BROKEN + _one_line(problem.__cause__ or problem))
        case "closed":
            lost = problem.__cause__
            return _failed(call, _EOF if lost is None else _no_handshake(lost))


def _failed(call: WebhookCall, reason: str) -> WebhookAnswer:
    return WebhookAnswer(problem=f'Post "{call.url}": {reason}')


def _too_long(call: WebhookCall) -> WebhookAnswer:
    return _failed(call, f"the answer is longer than {MAX_ANSWER_BYTES} bytes")


def _one_line(problem: BaseException) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _no_connection(problem: OSError, address: ServerAddress) -> str:
    match problem:
        case socket.gaierror():
            return f"dial tcp: lookup {address.host}: no such host"
        case ssl.SSLCertVerificationError():
            return f"tls: failed to verify certificate: x509: {_distrust(problem, address.host)}"
        case ssl.SSLError():
            return _no_handshake(problem)
    number = problem.errno
    if number is None and isinstance(problem, TimeoutError):
        return _DEADLINE
    if number is None and isinstance(problem, ConnectionError):
        return _EOF  # the webhook hung up in the handshake
    if number is None and (found := _ERRNO.search(str(problem))) is not None:
        number = int(found[1])  # of several addresses that were tried
    host = f"[{address.host}]" if ":" in address.host else address.host
    reason = _REASONS.get(number or 0) or problem.strerror or _one_line(problem)
    return f"dial tcp {host}:{address.port}: connect: {reason}"


def _distrust(problem: ssl.SSLCertVerificationError, host: str) -> str:
    if problem.verify_code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if problem.verify_code in _EXPIRED:
        return "certificate has expired or is not yet valid"
    return problem.verify_message or f"certificate is not valid for {host}"


def _no_handshake(problem: BaseException) -> str:
    if isinstance(problem, ssl.SSLError) and problem.reason in _NO_TLS:
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {_one_line(problem)}"
