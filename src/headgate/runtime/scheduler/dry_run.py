"""The transport of ``--dry-run``: reads are sent; a write is printed instead and gets a successful response.

The scheduler therefore decides as usual, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport

_READS: Final = ("GET", "HEAD")


class DryRunTransport:
    """A ``Transport``. ``print_line`` gets a line for each write except Events."""

    def __init__(self, transport: Transport, print_line: Callable[[str], None]) -> None:
        self._transport = transport
        self._print_line = print_line

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.method in _READS:
            return await self._transport.request(request)
        line = describe(request)
        if line:
            self._print_line(line)
        return HTTPResponse(200, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._transport.close()


def describe(request: HTTPRequest) -> str:
    """One line for a write; empty for an Event."""
    if request.path.rpartition("/")[2] == "events":
        return ""
    _, _, scope = request.path.partition("/namespaces/")
    namespace, _, rest = scope.partition("/")
    plural, _, named = rest.partition("/")
    name, _, subresource = named.partition("/")
    body: dict[str, Any] = msgspec.json.decode(request.body) if request.body else {}
    if subresource == "binding":
        return f"would bind {namespace}/{name} to {body['target']['name']}"
    if plural == "pods" and request.method == "DELETE":
        return f"would delete {namespace}/{name}"
    conditions = (body.get("status") or {}).get("conditions") if isinstance(body, dict) else None
    if plural == "pods" and conditions:
        condition = conditions[0]
        return f"would set the condition of {namespace}/{name}: {condition.get('reason')}: {condition.get('message')}"
    return f"would {request.method} {request.path}"
