"""A transport that writes only while it may: what an elected leader talks through.

Before every request that changes something the fence is asked how long it may take; reads are not held up. A request
that may not start is answered like one that did not arrive, and was not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.client.transport import Lines, Request, Response, Transport, Unreachable

_READS: Final = frozenset({"GET", "HEAD"})


class Fenced:
    """``room_s`` says how long a write that starts now may take; 0 or less: it may not start."""

    def __init__(self, transport: Transport, room_s: Callable[[], float]) -> None:
        self._transport = transport
        self._room_s = room_s

    async def request(self, request: Request) -> Response:
        if request.method in _READS:
            return await self._transport.request(request)
        room_s = self._room_s()
        if room_s <= 0:
            raise Unreachable("not sent: another process leads, or may soon", sent=False)
        bounded = msgspec.structs.replace(request, timeout_s=min(room_s, request.timeout_s))
        return await self._transport.request(bounded)

    async def stream(self, request: Request, *, idle_s: float) -> Lines | Response:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._transport.close()
