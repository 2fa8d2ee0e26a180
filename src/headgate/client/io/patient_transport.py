"""The transport of a command: it repeats requests that an overloaded or starting API server asks to send again.

kube-apiserver answers 429 with ``Retry-After`` while it has too many requests, and while it initializes the storage of
a kind whose definition is new or was changed. Components have their own back-off (``client/backoff.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from headgate.client.write_status import retry_after_s
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport

_ATTEMPTS: Final = 10
"""As many as client-go makes."""
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERRORS: Final = 500


class PatientTransport:
    """A ``Transport`` that waits as long as ``Retry-After`` says. ``sleep``: for tests."""

    def __init__(self, transport: Transport, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._transport = transport
        self._sleep = sleep

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        response = await self._transport.request(request)
        for _ in range(_ATTEMPTS):
            delay_s = retry_after_s(response)
            if not delay_s or not (response.status == _TOO_MANY_REQUESTS or response.status >= _SERVER_ERRORS):
                break
            await self._sleep(delay_s)
            response = await self._transport.request(request)
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._transport.close()
