"""The transport that observes whether the API server can be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable
from headgate.runtime.reachability import ReachabilityTransport

REFUSED = Unreachable("connection refused", sent=False, connected=False)
BROKEN = Unreachable("the connection broke")


def test_refused_connections_are_counted_and_every_response_is_notified() -> None:
    now_s = [0.0]
    answers: list[HTTPResponse | Unreachable] = [REFUSED, BROKEN, REFUSED, HTTPResponse(403, {}, b"{}")]
    responses: list[float] = []

    async def handle(request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        now_s[0] += 10.0
        answer = answers.pop(0)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    async def main() -> None:
        transport = ReachabilityTransport(
            InProcessTransport(handle), lambda: responses.append(now_s[0]), clock=lambda: now_s[0]
        )
        assert not transport.refused_within(1000.0)
        with pytest.raises(Unreachable):
            await transport.request(HTTPRequest("GET", "/"))
        assert (transport.refused_connections, transport.refused_within(5.0)) == (1, True)
        with pytest.raises(Unreachable):
            await transport.stream(HTTPRequest("GET", "/"), idle_s=1.0)
        assert (transport.refused_connections, transport.refused_within(5.0)) == (1, False)
        with pytest.raises(Unreachable):
            await transport.stream(HTTPRequest("GET", "/"), idle_s=1.0)
        assert (transport.refused_connections, transport.refused_within(5.0)) == (2, True)
        assert responses == []
        await transport.request(HTTPRequest("GET", "/"))
        assert (responses, transport.refused_within(5.0)) == ([40.0], False)

    asyncio.run(main())
