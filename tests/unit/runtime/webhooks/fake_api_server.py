"""An API server in memory with what the webhooks use: objects, empty lists, watches without events, and a version."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport

Object = dict[str, Any]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/"
MUTATING = f"{CONFIGURATIONS}mutatingwebhookconfigurations/headgate"
VALIDATING = f"{CONFIGURATIONS}validatingwebhookconfigurations/headgate"
SECRET = "/api/v1/namespaces/headgate-system/secrets/headgate-webhooks"


class FakeAPIServer:
    """``refused``: requests to these paths get 403. ``requests``: method and path of each request."""

    def __init__(self, version: str = "v1.35.0") -> None:
        self.objects: dict[str, Object] = {}
        self.refused: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self._version = version
        self._revision = 0

    @property
    def writes(self) -> list[str]:
        return [path for method, path in self.requests if method != "GET" and "selfsubjectreviews" not in path]

    def connect(self) -> contextlib.AbstractAsyncContextManager[Transport]:
        @contextlib.asynccontextmanager
        async def connected() -> AsyncIterator[Transport]:
            yield InProcessTransport(self.answer)

        return connected()

    async def answer(self, request: HTTPRequest) -> HTTPResponse:
        self.requests.append((request.method, request.path))
        if request.path in self.refused:
            return _response(403, {"message": "forbidden here"})
        if "watch=true" in request.query:
            await asyncio.Event().wait()
        if request.method == "GET":
            return self._read(request.path)
        if request.path.endswith("selfsubjectreviews"):
            return _response(201, {"status": {"userInfo": {"username": "me"}}})
        return self._write(request)

    def _read(self, path: str) -> HTTPResponse:
        if path == "/version":
            return _response(200, {"gitVersion": self._version})
        if path in self.objects:
            return _response(200, self.objects[path])
        if "headgate" in path.rpartition("/")[2] or ".kueue." in path:
            return _response(404, {"message": "not found"})
        return _response(200, {"metadata": {"resourceVersion": "1"}, "items": []})

    def _write(self, request: HTTPRequest) -> HTTPResponse:
        body: Object = msgspec.json.decode(request.body)
        metadata = body["metadata"]
        path = request.path if request.method == "PUT" else f"{request.path}/{metadata['name']}"
        before = self.objects.get(path)
        if (before is None) == (request.method == "PUT"):
            return _response(409, {"message": "conflict"})
        if before is not None and before["metadata"]["resourceVersion"] != metadata.get("resourceVersion"):
            return _response(409, {"message": "conflict"})
        self._revision += 1
        self.objects[path] = {**body, "metadata": {**metadata, "resourceVersion": str(self._revision)}}
        return _response(200, self.objects[path])


def _response(status: int, body: Object) -> HTTPResponse:
    return HTTPResponse(status, {}, msgspec.json.encode(body))
