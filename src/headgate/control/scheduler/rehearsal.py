"""A transport that reads and does not write: every write is told in words instead, and answered as if it had been made.

So ``--dry-run`` decides as always, and no matter what wants to be written, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.client.transport import Lines, Request, Response, Transport

_READS: Final = ("GET", "HEAD")


class Rehearsal:
    """A ``Transport``. ``say`` is given a line for each write but Events."""

    def __init__(self, transport: Transport, say: Callable[[str], None]) -> None:
        self._transport = transport
        self._say = say

    async def request(self, request: Request) -> Response:
        if request.method in _READS:
            return await self._transport.request(request)
        line = describe(request)
        if line:
            self._say(line)
        return Response(200, {}, b"{}")

    async def stream(self, request: Request, *, idle_s: float) -> Lines | Response:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._transport.close()


def describe(request: Request) -> str:
    """A write in words; nothing for an Event."""
    if request.path.rpartition("/")[2] == "events":
        return ""
    _, _, where = request.path.partition("/namespaces/")
    namespace, _, rest = where.partition("/")
    plural, _, named = rest.partition("/")
    name, _, subresource = named.partition("/")
    body: dict[str, Any] = msgspec.json.decode(request.body) if request.body else {}
    if subresource == "binding":
        return f"would bind {namespace}/{name} to {body['target']['name']}"
    if plural == "pods" and request.method == "DELETE":
        return f"would delete {namespace}/{name}"
    conditions = (body.get("status") or {}).get("conditions") if isinstance(body, dict) else None
    if plural == "pods" and conditions:
        said = conditions[0]
        return f"would say of {namespace}/{name}: {said.get('reason')}: {said.get('message')}"
    return f"would {request.method} {request.path}"
