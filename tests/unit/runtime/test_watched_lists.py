"""The transport that answers lists from informers: one list and one watch for each collection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime.inspection.watched_lists import WatchedLists, is_collection

PODS = "/api/v1/pods"


def a_pod(name: str, revision: int) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(revision)}
    return {"metadata": metadata}


class Server:
    """It serves pods and their watch; ``refused``: the status of other lists, or of watches."""

    def __init__(self, refused_watch: int = 0) -> None:
        self.requests: list[str] = []
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.refused_watch = refused_watch

    async def handle(self, request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        self.requests.append(f"{request.path}?{request.query}")
        if request.path != PODS:
            return HTTPResponse(403, {}, msgspec.json.encode({"message": "no"}))
        if "watch=true" not in request.query:
            body = {"metadata": {"resourceVersion": "5"}, "items": [a_pod("a", 3)]}
            return HTTPResponse(200, {}, msgspec.json.encode(body))
        if self.refused_watch:
            return HTTPResponse(self.refused_watch, {}, msgspec.json.encode({"message": "no watch"}))
        return self._events()

    async def _events(self) -> AsyncGenerator[bytes, None]:
        while True:
            yield await self.events.get()

    def send(self, kind: str, pod: dict[str, Any]) -> None:
        self.events.put_nowait(msgspec.json.encode({"type": kind, "object": pod}) + b"\n")


async def names(lists: WatchedLists, query: str = "limit=500") -> list[str]:
    response = await lists.request(HTTPRequest("GET", PODS, query))
    assert response.status == 200
    return [each["metadata"]["name"] for each in msgspec.json.decode(response.body)["items"]]


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.01)


def test_later_lists_are_answered_from_the_watch() -> None:
    async def main() -> None:
        server, changes = Server(), asyncio.Event()
        async with WatchedLists(InProcessTransport(server.handle), changes.set) as lists:
            assert await names(lists) == ["a"]
            changes.clear()
            server.send("ADDED", a_pod("b", 6))
            await asyncio.wait_for(changes.wait(), 10)
            assert await names(lists, "resourceVersion=5&resourceVersionMatch=Exact&limit=500") == ["a", "b"]
            server.send("DELETED", a_pod("a", 7))

            async def is_gone() -> bool:
                return await names(lists) == ["b"]

            await until(is_gone)
        listed = [each for each in server.requests if "watch" not in each]
        assert len(listed) == 2, "one for the first answer, one for the informer"

    asyncio.run(main())


def test_a_refused_list_is_answered_as_the_server_does_and_not_repeated_at_once() -> None:
    async def main() -> None:
        server = Server()
        async with WatchedLists(InProcessTransport(server.handle), lambda: None) as lists:
            for _ in range(3):
                response = await lists.request(HTTPRequest("GET", "/api/v1/nodes", "limit=500"))
                assert response.status == 403
        assert len(server.requests) == 1

    asyncio.run(main())


def test_a_watch_that_is_not_allowed_is_a_problem_that_names_the_path() -> None:
    async def main() -> None:
        server, changes = Server(refused_watch=403), asyncio.Event()
        async with WatchedLists(InProcessTransport(server.handle), changes.set) as lists:
            assert await names(lists) == ["a"]

            async def is_known() -> bool:
                return bool(lists.missing_watches)

            await until(is_known)
            assert PODS in lists.missing_watches[0]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", True),
        ("/api/v1/namespaces", True),
        ("/api/v1/namespaces/ns/pods", True),
        ("/apis/batch/v1/jobs", True),
        ("/apis/batch/v1/namespaces/ns/jobs", True),
        ("/api/v1/namespaces/ns", False),
        ("/api/v1/namespaces/ns/pods/p", False),
        ("/apis/batch/v1", False),
        ("/version", False),
    ],
)
def test_only_lists_are_kept(path: str, expected: bool) -> None:
    assert is_collection(path) is expected
