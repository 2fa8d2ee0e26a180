"""The transport that remembers which reads are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.client.io.rights_transport import RightsTransport
from headgate.http.transport import HTTPRequest, HTTPResponse

PODS = HTTPRequest("GET", "/api/v1/pods", "", {})
MISSING = 'pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope'


class Server:
    def __init__(self) -> None:
        self.status, self.message = 403, MISSING

    async def handle(self, request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        if self.status == 200 and "watch=true" in request.query:
            return self._lines()
        body = {"kind": "Status", "code": self.status, "message": self.message}
        return HTTPResponse(self.status, {}, json.dumps(body).encode())

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        lines: tuple[bytes, ...] = ()
        for line in lines:
            yield line


def test_a_right_is_missing_until_a_request_succeeds() -> None:
    async def run() -> None:
        server = Server()
        transport = RightsTransport(InProcessTransport(server.handle))
        await transport.request(PODS)
        await transport.request(PODS)
        watch = HTTPRequest("GET", PODS.path, "watch=true", {})
        await transport.stream(watch, idle_s=1)
        assert list(transport.missing.values()) == [MISSING, MISSING]
        server.status = 200
        await transport.request(PODS)
        assert list(transport.missing) == [("GET", "/api/v1/pods", True)]
        stream = await transport.stream(watch, idle_s=1)
        assert not isinstance(stream, HTTPResponse)
        await stream.close()
        assert not transport.missing

    asyncio.run(run())


def test_other_refusals_are_no_missing_rights() -> None:
    async def run() -> None:
        server = Server()
        transport = RightsTransport(InProcessTransport(server.handle))
        for server.status, server.message in ((404, MISSING), (403, "the namespace is being terminated")):
            await transport.request(PODS)
        assert not transport.missing

    asyncio.run(run())
