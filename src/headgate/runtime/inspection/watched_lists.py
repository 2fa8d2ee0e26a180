"""A transport that answers lists from informers, for a command that repeats an inspection when something changes.

The first list of a collection is sent to the API server. If the server answers it, an informer lists and watches the
collection, and later lists are answered from what it delivered, without a request. A list that is refused is sent again
after some seconds. Requests for single objects are passed on. ``changed`` is called after every event.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport, encode_query

_ASK_AGAIN_S: Final = 15.0
_PAGING: Final = ("limit", "continue", "resourceVersion", "resourceVersionMatch")
_FORBIDDEN: Final = " returned 403"
_OK: Final = 200


class WatchedLists:
    """A ``Transport``. ``problems``: by path, the last failure of a watch."""

    def __init__(self, transport: Transport, changed: Callable[[], None]) -> None:
        self.problems: dict[str, str] = {}
        self._transport = transport
        self._changed = changed
        self._collections: dict[tuple[str, str], _Collection] = {}
        self._refused: dict[tuple[str, str], tuple[float, HTTPResponse]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WatchedLists:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def missing_watches(self) -> list[str]:
        """Problems of watches that the user may not open."""
        return [text for text in self.problems.values() if _FORBIDDEN in text]

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.method != "GET" or not is_collection(request.path):
            return await self._transport.request(request)
        query = {key: value for key, value in parse_qsl(request.query) if key not in _PAGING}
        key = request.path, encode_query(query)
        async with self._locks.setdefault(key, asyncio.Lock()):
            collection = self._collections.get(key)
            if collection is None:
                refusal = await self._refusal(key)
                if refusal is not None:
                    return refusal
                collection = self._collections[key] = self._observe(request.path, query)
        await collection.synced.wait()
        return collection.response()

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        """Ends the informers; the transport below stays open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _refusal(self, key: tuple[str, str]) -> HTTPResponse | None:
        now_s = asyncio.get_running_loop().time()
        known = self._refused.get(key)
        if known is not None and known[0] > now_s:
            return known[1]
        path, query = key
        one = f"{query}&limit=1" if query else "limit=1"
        response = await self._transport.request(HTTPRequest("GET", path, one, {"accept": "application/json"}))
        if response.ok:
            self._refused.pop(key, None)
            return None
        self._refused[key] = now_s + _ASK_AGAIN_S, response
        return response

    def _observe(self, path: str, query: Mapping[str, str]) -> _Collection:
        collection = _Collection(self._changed)

        def report(problem: str) -> None:
            self.problems[path] = problem
            collection.synced.set()
            self._changed()

        informer = Informer(
            self._transport,
            path,
            collection.observe,
            jitter=random.random,
            sleep=asyncio.sleep,
            query=query,
            may_be_absent=True,
            report=report,
        )
        task = asyncio.get_running_loop().create_task(informer.run())
        self._tasks.add(task)
        return collection


class _Collection:
    """The objects of one list, encoded."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.synced = asyncio.Event()
        self._changed = changed
        self._items: dict[tuple[str, str], msgspec.Raw] = {}
        self._revision = ""

    def observe(self, event: InformerEvent) -> None:
        match event:
            case ObjectApplied(obj):
                metadata = obj["metadata"]
                key = metadata.get("namespace") or "", metadata["name"]
                self._items[key] = msgspec.Raw(msgspec.json.encode(obj))
                self._revision = str(metadata.get("resourceVersion") or self._revision)
            case ObjectDeleted(namespace, name):
                self._items.pop((namespace, name), None)
            case ListSynced(revision):
                self._revision = revision
                self.synced.set()
        if self.synced.is_set():
            self._changed()

    def response(self) -> HTTPResponse:
        items = [self._items[key] for key in sorted(self._items)]
        body = {"metadata": {"resourceVersion": self._revision}, "items": items}
        return HTTPResponse(_OK, {"content-type": "application/json"}, msgspec.json.encode(body))


def is_collection(path: str) -> bool:
    """Whether the path is that of a list, in one namespace or in all."""
    root, *rest = path.strip("/").split("/")
    names = rest[2:] if root == "apis" else rest[1:] if root == "api" else []
    return len(names) == 1 or (len(names) == 3 and names[0] == "namespaces")
