"""The transport of an elected leader: it sends writes only while no other process can be the leader (*fencing*).

Before every write it calls ``write_budget_s``, which returns how long the write may take; reads are not checked. A
write that may not start is not sent, and fails like a request that did not reach the API server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport, Unreachable

_READS: Final = frozenset({"GET", "HEAD"})


class FencedTransport:
    """``write_budget_s`` returns how long a write that starts now may take; 0 or less: it may not start."""

    def __init__(self, transport: Transport, write_budget_s: Callable[[], float]) -> None:
        self._transport = transport
        self._write_budget_s = write_budget_s

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.method in _READS:
            return await self._transport.request(request)
        write_budget_s = self._write_budget_s()
        if write_budget_s <= 0:
            raise Unreachable("not sent: another process is or may become the leader", sent=False)
        bounded = msgspec.structs.replace(request, timeout_s=min(write_budget_s, request.timeout_s))
        return await self._transport.request(bounded)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._transport.close()
