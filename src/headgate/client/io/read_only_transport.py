"""A transport that sends no write: it refuses every mutating request with 403 and counts it.

Only ``GET`` and ``HEAD`` are sent, and reviews, which are questions to the API server and store nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import msgspec

from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport

_log: Final = logging.getLogger(__name__)
_READS: Final = frozenset({"GET", "HEAD"})
_REVIEWS: Final = frozenset(
    {
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    }
)
_FORBIDDEN: Final = 403


class ReadOnlyTransport:
    """A ``Transport``. ``refused``: how many requests were refused, by method."""

    def __init__(self, transport: Transport, refused: Counter[str] | None = None) -> None:
        self._transport = transport
        self.refused: Counter[str] = Counter() if refused is None else refused

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.method in _READS or (request.method == "POST" and request.path in _REVIEWS):
            return await self._transport.request(request)
        return self._refuse(request)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        if request.method in _READS:
            return await self._transport.stream(request, idle_s=idle_s)
        return self._refuse(request)

    async def close(self) -> None:
        await self._transport.close()

    def _refuse(self, request: HTTPRequest) -> HTTPResponse:
        self.refused[request.method] += 1
        message = f"not sent: {request.method} {request.path}: this process writes nothing"
        _log.error("read-only: %s", message)
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": _FORBIDDEN}
        body = msgspec.json.encode({**status, "message": message})
        return HTTPResponse(_FORBIDDEN, {"content-type": "application/json"}, body)
