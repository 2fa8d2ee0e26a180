"""A transport that observes whether the API server can be reached.

``runtime/controller_manager.py`` sends the requests of all controllers and watches through it, and tries keys again as
soon as the server responds after an outage.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport, Unreachable


class ReachabilityTransport:
    """Counts refused connections, and calls ``responded`` after every response. ``clock`` is monotonic."""

    def __init__(
        self, transport: Transport, responded: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._transport = transport
        self._responded = responded
        self._clock = clock
        self._last_refused_s = -math.inf
        self.refused_connections = 0

    def refused_within(self, seconds: float) -> bool:
        """Whether a connection was refused in the last seconds."""
        return self._clock() < self._last_refused_s + seconds

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        try:
            response = await self._transport.request(request)
        except Unreachable as error:
            self._failed(error)
            raise
        self._responded()
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        try:
            response = await self._transport.stream(request, idle_s=idle_s)
        except Unreachable as error:
            self._failed(error)
            raise
        self._responded()
        return response

    async def close(self) -> None:
        await self._transport.close()

    def _failed(self, error: Unreachable) -> None:
        if not error.connected:
            self.refused_connections += 1
            self._last_refused_s = self._clock()
