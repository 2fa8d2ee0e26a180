"""The fenced transport: it always reads, and writes only while this process is the leader."""

from __future__ import annotations

import asyncio

import pytest

from headgate.client.io.fenced_transport import FencedTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable


class Server:
    """Answers everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[HTTPRequest] = []

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self.requests.append(request)
        return HTTPResponse(200, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self.request(request)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_is_written_when_another_one_may_lead(method: str) -> None:
    server = Server()
    fenced = FencedTransport(server, lambda: 0.0)
    with pytest.raises(Unreachable) as refused:
        asyncio.run(fenced.request(HTTPRequest(method, "/api/v1/namespaces")))
    assert not refused.value.sent
    asyncio.run(fenced.request(HTTPRequest("GET", "/api/v1/namespaces")))
    asyncio.run(fenced.stream(HTTPRequest("GET", "/api/v1/namespaces"), idle_s=1.0))
    assert [each.method for each in server.requests] == ["GET", "GET"]


def test_a_write_may_take_no_longer_than_the_lead_lasts() -> None:
    server = Server()
    asyncio.run(FencedTransport(server, lambda: 3.0).request(HTTPRequest("POST", "/api/v1/namespaces")))
    asyncio.run(
        FencedTransport(server, lambda: 300.0).request(HTTPRequest("POST", "/api/v1/namespaces", timeout_s=7.0))
    )
    assert [each.timeout_s for each in server.requests] == [3.0, 7.0]
