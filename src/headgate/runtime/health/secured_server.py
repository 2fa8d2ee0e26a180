"""Serves health and metrics over TLS: ``/metrics`` for users that the API server allows, health checks for all clients.

The kubelet has no token, so health checks stay open. The certificate comes from files, which may be replaced while the
server runs (cert-manager, a mounted Secret); without files the server makes one of its own and renews it.
``access_reviews.py`` decides about users, ``handler.py`` builds the pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import ssl
from collections.abc import AsyncIterator, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.http.certificates import CertificateKeyPair, days_left, make_authority, make_server_certificate
from headgate.http.request_handler import TEXT, ClientPeer, HandlerResponse, RequestProblem
from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest
from headgate.http.server import HTTPServer
from headgate.http.server_tls import key_pair_context
from headgate.runtime.health.access_reviews import AccessReviews
from headgate.runtime.health.handler import HealthHandler
from headgate.runtime.health.server import health_limits

_log: Final = logging.getLogger(__name__)
_SUBJECT: Final = "headgate-metrics"
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_CHECK_S: Final = 30.0
_RENEW_BEFORE_DAYS: Final = 30
_PUBLIC: Final = frozenset({"/livez", "/healthz", "/readyz"})


class CertificateFiles(msgspec.Struct, frozen=True):
    """PEM files of the server's certificate and its key."""

    certificate: Path
    key: Path

    def read(self) -> CertificateKeyPair:
        """May raise ``OSError``."""
        return CertificateKeyPair(self.certificate.read_bytes(), self.key.read_bytes())


class SecuredHandler:
    """A ``RequestHandler``: everything but health checks needs a token."""

    def __init__(self, handler: HealthHandler, reviews: AccessReviews) -> None:
        self._handler: Final = handler
        self._reviews: Final = reviews

    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        return False

    def handle(
        self, request: ReceivedRequest, peer: ClientPeer
    ) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]:
        if request.head.path in _PUBLIC:
            return self._handler.handle(request, peer)
        return self._reviewed(request, peer)

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        return self._handler.refuse(problem)

    async def _reviewed(self, request: ReceivedRequest, peer: ClientPeer) -> HandlerResponse:
        head = request.head
        authorization = head.headers.get("authorization") or ""
        verdict = await self._reviews.check(authorization, head.method, head.path, peer.source)
        if verdict.status == HTTPStatus.OK:
            return self._handler.handle(request, peer)
        text = f"{HTTPStatus(verdict.status).phrase}: {verdict.text}\n"
        challenge = (("WWW-Authenticate", "Bearer"),) if verdict.status == HTTPStatus.UNAUTHORIZED else ()
        return HandlerResponse(verdict.status, text.encode(), TEXT, challenge, closes=True)


@contextlib.asynccontextmanager
async def serve_secured_health(
    handler: HealthHandler, reviews: AccessReviews, files: CertificateFiles | None, host: str, port: int
) -> AsyncIterator[int]:
    """Serves until the block ends. Yields the port. May raise ``OSError``, also for files that cannot be used."""
    certificate = own_certificate(host) if files is None else files.read()
    server = HTTPServer(SecuredHandler(handler, reviews), health_limits(), key_pair_context(certificate))
    async with server.listening(host, port) as bound_port, keeping_certificate(server, files, host, certificate):
        yield bound_port


@contextlib.asynccontextmanager
async def keeping_certificate(
    server: HTTPServer, files: CertificateFiles | None, host: str, used: CertificateKeyPair
) -> AsyncIterator[None]:
    """Renews the certificate of a server, or reads its files again, until the block ends. ``used``: the present one."""
    keeping = asyncio.create_task(_keep_certificate(server, files, host, used))
    try:
        yield
    finally:
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping


def own_certificate(host: str) -> CertificateKeyPair:
    """A new certificate of an authority that no client knows: clients do not verify it."""
    now = datetime.datetime.now(datetime.UTC)
    names = tuple(dict.fromkeys((*_LOCAL, *([host] if host and host not in ("0.0.0.0", "::") else []))))
    return make_server_certificate(make_authority(f"{_SUBJECT}-ca", now), _SUBJECT, names, now)


async def _keep_certificate(
    server: HTTPServer, files: CertificateFiles | None, host: str, used: CertificateKeyPair
) -> None:
    while True:
        await asyncio.sleep(_CHECK_S)
        used = renewed(server, files, host, used)


def renewed(
    server: HTTPServer, files: CertificateFiles | None, host: str, used: CertificateKeyPair
) -> CertificateKeyPair:
    """Uses a changed certificate for new connections. Files that cannot be used change nothing: they may be half
    written. Returns the certificate in use."""
    try:
        if files is not None:
            found = files.read()
        elif days_left(used.certificate, datetime.datetime.now(datetime.UTC)) < _RENEW_BEFORE_DAYS:
            found = own_certificate(host)
        else:
            return used
        if found != used:
            server.use_tls(key_pair_context(found))
    except (OSError, ssl.SSLError) as problem:
        _log.warning("the server keeps its certificate, because the files cannot be used: %s", problem)
        return used
    return found
