"""The read-only transport: reads and reviews are sent, and no write."""

from __future__ import annotations

import asyncio
import logging

import pytest

from headgate.client.io.read_only_transport import ReadOnlyTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream


class Server:
    """Answers everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self.requests.append(f"{request.method} {request.path}")
        return HTTPResponse(200, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self.request(request)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "CONNECT", "anything"])
def test_a_request_that_may_write_is_refused_and_counted(method: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    transport = ReadOnlyTransport(server)
    with caplog.at_level(logging.CRITICAL, "headgate.client.io.read_only_transport"):
        for send in (transport.request, lambda request: transport.stream(request, idle_s=1.0)):
            answer = asyncio.run(send(HTTPRequest(method, "/api/v1/namespaces/default/events")))
            assert isinstance(answer, HTTPResponse)
            assert answer.status == 403
            assert b"this process writes nothing" in answer.body
    assert server.requests == []
    assert transport.refused == {method: 2}


def test_reads_watches_and_reviews_are_sent() -> None:
    server = Server()
    transport = ReadOnlyTransport(server)
    asyncio.run(transport.request(HTTPRequest("GET", "/api/v1/pods")))
    asyncio.run(transport.stream(HTTPRequest("GET", "/api/v1/pods", "watch=true"), idle_s=1.0))
    asyncio.run(transport.request(HTTPRequest("POST", "/apis/authentication.k8s.io/v1/tokenreviews")))
    assert len(server.requests) == 3
    assert not transport.refused


@pytest.mark.parametrize(
    "path",
    [
        "/apis/authentication.k8s.io/v1/tokenreviews/x",
        "/api/v1/namespaces/default/serviceaccounts/a/token",
        "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews",
    ],
)
def test_other_paths_that_look_like_reviews_are_refused(path: str) -> None:
    server = Server()
    assert asyncio.run(ReadOnlyTransport(server).request(HTTPRequest("POST", path))).status == 403
    assert server.requests == []
