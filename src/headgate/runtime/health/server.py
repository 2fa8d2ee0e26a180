"""Listens for requests for health and metrics; ``handler.py`` builds the responses.

Plain HTTP without credentials, for probes and Prometheus, on the address that the operator configures. Connections, the
size of a head and the duration are bounded. A client cannot block the component for longer than it takes to write a
page.
"""

from __future__ import annotations

import contextlib
from typing import Final

from headgate.http.server import HTTPServer
from headgate.http.server_limits import MIB, ServerLimits
from headgate.runtime.health.handler import HealthHandler

_MOST_CONNECTIONS: Final = 64
_MOST_HEAD_BYTES: Final = 8192
_MOST_PAGE_BYTES: Final = 256 * MIB
"""A page is sent as one piece, so that the time to read a piece is the time to read the page."""
_PATIENCE_S: Final = 10.0


def health_limits(patience_s: float = _PATIENCE_S, most: int = _MOST_CONNECTIONS) -> ServerLimits:
    return ServerLimits(
        requires_host=False,
        head_bytes=_MOST_HEAD_BYTES,
        body_bytes=0,
        connections=most,
        evicts_unserved=False,
        head_s=patience_s,
        unsent_bytes=_MOST_PAGE_BYTES,
        stalled_s=patience_s,
        stop_s=1.0,
    )


def serve_health(
    answers: HealthHandler, host: str, port: int, *, patience_s: float = _PATIENCE_S, most: int = _MOST_CONNECTIONS
) -> contextlib.AbstractAsyncContextManager[int]:
    """Answers until the block is left. Yields the port, which was chosen by the system if 0 was asked for."""
    return HTTPServer(answers, health_limits(patience_s, most), None).listening(host, port)
