"""Listens for requests for health and metrics; ``handler.py`` builds the responses.

It serves plain HTTP without credentials, for probes and Prometheus, on the address that the operator configures. The
number of connections, the size of a request and its duration are limited. A client cannot block the component for
longer than it takes to write a page.
"""

from __future__ import annotations

import contextlib
from typing import Final

from headgate.http.server import HTTPServer
from headgate.http.server_limits import MIB, ServerLimits
from headgate.runtime.health.handler import HealthHandler

_MAX_CONNECTIONS: Final = 64
_MAX_HEAD_BYTES: Final = 8192
_MAX_PAGE_BYTES: Final = 256 * MIB
"""A page is sent as one piece, so ``stalled_s`` limits the time in which a client reads the whole page."""
_CLIENT_TIMEOUT_S: Final = 10.0


def health_limits(client_timeout_s: float = _CLIENT_TIMEOUT_S, max_connections: int = _MAX_CONNECTIONS) -> ServerLimits:
    """``client_timeout_s``: for the client to send the request, and to read the response."""
    return ServerLimits(
        requires_host=False,
        head_bytes=_MAX_HEAD_BYTES,
        body_bytes=0,
        connections=max_connections,
        evicts_unserved=False,
        head_s=client_timeout_s,
        unsent_bytes=_MAX_PAGE_BYTES,
        stalled_s=client_timeout_s,
        stop_s=1.0,
    )


def serve_health(
    handler: HealthHandler,
    host: str,
    port: int,
    *,
    client_timeout_s: float = _CLIENT_TIMEOUT_S,
    max_connections: int = _MAX_CONNECTIONS,
) -> contextlib.AbstractAsyncContextManager[int]:
    """Serves until the ``async with`` block ends. Yields the port; for port 0 the system chooses one."""
    return HTTPServer(handler, health_limits(client_timeout_s, max_connections), None).listening(host, port)
