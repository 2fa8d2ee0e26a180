"""A transport that remembers which reads the authorization refuses.

A component that watches goes on when a read is refused, because the right may be granted later. What it reports at its
end must say what it could not read.
"""

from __future__ import annotations

from headgate.client.permissions import FORBIDDEN, is_missing_right
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport


class RightsTransport:
    """A ``Transport``. ``missing``: the message of the API server by method, path and whether it is a watch. A request
    that succeeds later removes its entry."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.missing: dict[tuple[str, str, bool], str] = {}

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        response = await self._transport.request(request)
        self._note((request.method, request.path, False), response)
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        response = await self._transport.stream(request, idle_s=idle_s)
        key = request.method, request.path, True
        if isinstance(response, HTTPResponse):
            self._note(key, response)
        else:
            self.missing.pop(key, None)
        return response

    async def close(self) -> None:
        await self._transport.close()

    def _note(self, key: tuple[str, str, bool], response: HTTPResponse) -> None:
        if response.ok:
            self.missing.pop(key, None)
        elif response.status == FORBIDDEN and is_missing_right(message := message_of(response)):
            self.missing[key] = message
