"""A transport that reads and does not write: every write is printed instead, and answered as if it had succeeded.

``--dry-run`` therefore decides as always, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport

_READS: Final = ("GET", "HEAD")


class DryRunTransport:
    """A ``Transport``. ``say`` gets a line for each write except Events."""

    def __init__(self, transport: Transport, say: Callable[[str], None]) -> None:
        self._transport = transport
        self._say = say

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.method in _READS:
            return await self._transport.request(request)
        line = describe(request)
        if line:
            self._say(line)
        return HTTPResponse(200, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._transport.close()


def describe(request: HTTPRequest) -> str:
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
