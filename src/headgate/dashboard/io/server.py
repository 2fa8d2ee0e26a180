"""Serves the page: plain HTTP on a loopback address, TLS on any other.

``handler.py`` answers the requests. The address that is printed has the token of the operator in its fragment, which
browsers do not send; the page posts it once and removes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from headgate.dashboard.io.action_runner import ActionRunner, OpenAs
from headgate.dashboard.io.expected_starts import ExpectedStarts, PrepareStarts
from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.io.handler import PageHandler
from headgate.dashboard.io.viewers import Viewers
from headgate.dashboard.sessions import Sessions, operator_token
from headgate.http.peer import is_loopback
from headgate.http.server import HTTPServer
from headgate.http.server_limits import ServerLimits
from headgate.http.server_tls import key_pair_context
from headgate.http.transport import Transport
from headgate.runtime.health.secured_server import CertificateFiles, keeping_certificate, own_certificate
from headgate.views.cluster_views import ClusterViews

_LIMITS: Final = ServerLimits(
    head_bytes=32 * 1024, body_bytes=32 * 1024, connections=512, unsent_bytes=1024 * 1024, stop_s=1.0
)


class PageTLS(msgspec.Struct, frozen=True):
    """``files``: None if the server makes its certificate itself."""

    files: CertificateFiles | None


class PageOptions(msgspec.Struct, frozen=True):
    """``server``: the cluster, as the page names it. ``tls``: None for plain HTTP. ``has_operator``: whether a token
    that is printed shows what the process may read; otherwise every viewer needs a token of the cluster. ``secret``:
    the operator's token follows from it, so that it is the same after a restart; empty for a random token.
    ``open_as``: with whose credentials actions are performed; None if the page changes nothing.
    ``prepare_starts``: None if it estimates no starts."""

    server: str
    make_views: Callable[[], ClusterViews] = ClusterViews
    tls: PageTLS | None = None
    has_operator: bool = True
    secret: str = ""
    open_as: OpenAs | None = None
    prepare_starts: PrepareStarts | None = None


class ServedPage(msgspec.Struct, frozen=True):
    """``address``: with the token of the operator, if there is one, in its fragment."""

    feed: ViewsFeed
    address: str


@contextlib.asynccontextmanager
async def serve_page(
    transport: Transport, sock: socket.socket, host: str, options: PageOptions
) -> AsyncIterator[ServedPage]:
    """Serves on a socket that listens, until the block ends. May raise ``OSError`` and ``ssl.SSLError``, for files of
    the certificate that cannot be used."""
    port = sock.getsockname()[1]
    token = operator_token(options.secret or secrets.token_urlsafe(24)) if options.has_operator else ""
    files = None if options.tls is None else options.tls.files
    certificate = None if options.tls is None else own_certificate(host) if files is None else files.read()
    feed = ViewsFeed(transport, options.make_views)
    sessions = Sessions(f"headgate-{port}", is_secure=options.tls is not None, operator_token=token)
    hosts = _hosts(port) if is_loopback(host) else frozenset[str]()
    runner = None if options.open_as is None else ActionRunner(feed, options.open_as)
    viewers = Viewers(feed.transport, token)
    starts = None if options.prepare_starts is None else ExpectedStarts(feed, viewers, options.prepare_starts)
    handler = PageHandler(feed, viewers, sessions, hosts, options.server, runner, starts)
    shown = f"[{host}]" if ":" in host else host
    address = f"{'http' if options.tls is None else 'https'}://{shown}:{port}/{f'#token={token}' if token else ''}"
    server = HTTPServer(handler, _LIMITS, None if certificate is None else key_pair_context(certificate))
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(feed.running())
        await stack.enter_async_context(server.listening_on(sock))
        if certificate is not None:
            await stack.enter_async_context(keeping_certificate(server, files, host, certificate))
        reviewing = asyncio.create_task(handler.run())
        try:
            yield ServedPage(feed, address)
        finally:
            reviewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reviewing


def _hosts(port: int) -> frozenset[str]:
    names = ("127.0.0.1", "localhost", "[::1]")
    return frozenset((*(f"{each}:{port}" for each in names), *(names if port == 80 else ())))
