"""Calls webhooks over HTTPS: performs ``CallWebhooks`` for ``apiserver/io/api_server.py``.

Connections are kept and used again, per CA bundle. A response is bounded, a redirect is not followed (a webhook must
not make the server call other addresses: CVE-2020-8561), a body is never logged. Failures have the error texts of
client-go, because users search for them.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any, Final

import aiohttp

from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall

MAX_ANSWER_BYTES: Final = 3 * 1024 * 1024

_KEPT_CLIENTS: Final = 200
_GOODBYE_S: Final = 0.1
_CHUNK_BYTES: Final = 64 * 1024
_HEADERS: Final = {
    "Accept": "application/json, */*",
    "Content-Type": "application/json",
    "User-Agent": "kube-apiserver-admission",
}
_EOF: Final = "EOF"
_RESET: Final = "connection reset by peer"
_DEADLINE: Final = "context deadline exceeded"
_UNREADABLE: Final = "unexpected error when reading response body. Please retry. Original error: "
# OpenSSL's numbers for a chain that does not end at a certificate that is trusted.
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_EXPIRED: Final = frozenset({9, 10})
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})


class WebhookClient:
    """Belongs to one event loop; ``close`` it there."""

    def __init__(self) -> None:
        self._clients: Final[OrderedDict[bytes, aiohttp.ClientSession]] = OrderedDict()

    async def call(self, calls: tuple[WebhookCall, ...]) -> tuple[WebhookAnswer, ...]:
        return tuple(await asyncio.gather(*(self._once(each) for each in calls)))

    async def close(self) -> None:
        clients = list(self._clients.values())
        self._clients.clear()
        for client in clients:
            await client.close()
        if clients:
            # TLS says goodbye in both directions; calls that were given up still wait for the webhook's half.
            await asyncio.sleep(_GOODBYE_S)

    async def _once(self, call: WebhookCall) -> WebhookAnswer:
        began = time.monotonic()
        client = await self._client(call.ca_bundle)
        if isinstance(client, str):
            return WebhookAnswer(no_client=client)
        if not call.url.startswith("https://"):
            answer = WebhookAnswer(problem=_failed(call, "only https is allowed"))
        else:
            answer = await _post(client, call)
        return WebhookAnswer(
            status=answer.status,
            body=answer.body,
            content_type=answer.content_type,
            problem=answer.problem,
            took_s=time.monotonic() - began,
        )

    async def _client(self, ca_bundle: bytes) -> aiohttp.ClientSession | str:
        client = self._clients.get(ca_bundle)
        if client is not None:
            self._clients.move_to_end(ca_bundle)
            return client
        trust = _trust(ca_bundle)
        if isinstance(trust, str):
            return trust
        client = self._clients[ca_bundle] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            trace_configs=[_tracing()],
        )
        while len(self._clients) > _KEPT_CLIENTS:
            _, oldest = self._clients.popitem(last=False)
            await oldest.close()
        return client


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


class _Trace:
    """Whether a call went over a connection that had been used before."""

    reused = False


def _tracing() -> aiohttp.TraceConfig:
    async def note(
        session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceConnectionReuseconnParams
    ) -> None:
        context.trace_request_ctx.reused = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


async def _post(client: aiohttp.ClientSession, call: WebhookCall) -> WebhookAnswer:
    """A kept connection that the webhook closes as we take it up is no failure: another one is tried."""
    while True:
        trace = _Trace()
        answer = await _post_once(client, call, trace)
        if not trace.reused or answer.problem not in (_failed(call, _EOF), _failed(call, _RESET)):
            return answer


async def _post_once(client: aiohttp.ClientSession, call: WebhookCall, trace: _Trace) -> WebhookAnswer:
    sent: dict[str, Any] = {
        "data": call.body,
        "allow_redirects": False,
        "timeout": aiohttp.ClientTimeout(total=call.timeout_s),
        "trace_request_ctx": trace,
    }
    try:
        async with client.post(call.url, **sent) as response:
            try:
                body = await _read(response)
            except TimeoutError:
                return WebhookAnswer(problem=_UNREADABLE + _DEADLINE)
            except (aiohttp.ClientError, OSError):
                return WebhookAnswer(problem=_UNREADABLE + "unexpected EOF")
            if body is None:
                return WebhookAnswer(problem=_failed(call, f"the answer is longer than {MAX_ANSWER_BYTES} bytes"))
            content_type = response.headers.get("Content-Type", "")
            return WebhookAnswer(status=response.status, body=body, content_type=content_type)
    except TimeoutError:
        return WebhookAnswer(problem=_failed(call, _DEADLINE))
    except aiohttp.ClientConnectorDNSError as problem:
        return WebhookAnswer(problem=_failed(call, f"dial tcp: lookup {problem.host}: no such host"))
    except aiohttp.ClientConnectorCertificateError as problem:
        reason = _distrust(problem.certificate_error, problem.host)
        return WebhookAnswer(problem=_failed(call, f"tls: failed to verify certificate: x509: {reason}"))
    except aiohttp.ClientConnectorSSLError as problem:
        return WebhookAnswer(problem=_failed(call, _no_handshake(problem.os_error)))
    except aiohttp.ClientConnectorError as problem:
        return WebhookAnswer(problem=_failed(call, _no_connection(problem)))
    except aiohttp.ServerDisconnectedError:
        return WebhookAnswer(problem=_failed(call, _EOF))
    except aiohttp.ClientError as problem:
        reset = isinstance(problem, OSError) and problem.errno == errno.ECONNRESET
        return WebhookAnswer(problem=_failed(call, _RESET if reset else _one_line(problem)))
    except (OSError, ValueError) as problem:
        return WebhookAnswer(problem=_failed(call, _one_line(problem)))


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """The whole body, or ``None`` once it is longer than any answer may be."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _failed(call: WebhookCall, reason: str) -> str:
    return f'Post "{call.url}": {reason}'


def _one_line(problem: BaseException) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _distrust(problem: Exception, host: str) -> str:
    if not isinstance(problem, ssl.SSLCertVerificationError):
        return f"certificate is not valid for {host}"
    if problem.verify_code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if problem.verify_code in _EXPIRED:
        return "certificate has expired or is not yet valid"
    return problem.verify_message or f"certificate is not valid for {host}"


def _no_handshake(problem: OSError) -> str:
    if isinstance(problem, ssl.SSLError) and problem.reason in _NO_TLS:
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {_one_line(problem)}"


def _no_connection(problem: aiohttp.ClientConnectorError) -> str:
    reasons = {errno.ECONNREFUSED: "connection refused", errno.EHOSTUNREACH: "no route to host"}
    number = problem.os_error.errno
    host = f"[{problem.host}]" if ":" in problem.host else problem.host
    reason = reasons.get(number, problem.os_error.strerror or _one_line(problem)) if number else _one_line(problem)
    return f"dial tcp {host}:{problem.port}: connect: {reason}"
