"""Whether the API server is reached: a transport that remembers which watches have no connection, and a heartbeat.

A watch of a server that was killed breaks at once; one behind a network that is gone only falls silent. So the server's
version, which needs no right, is read every few seconds, and more often while there is no answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from headgate.client.connection import Connection
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport, Unreachable

_EVERY_S: Final = 5.0
_RETRY_S: Final = 1.0
_TIMEOUT_S: Final = 4.0
_VERSION: Final = HTTPRequest("GET", "/version", "", {"accept": "application/json"})
_HEARTBEAT: Final = ""
_UNAUTHORIZED: Final = 401


class ObservedTransport:
    """A ``Transport``. ``changed`` is called when a connection is lost, and when all work again."""

    def __init__(self, transport: Transport, changed: Callable[[], None]) -> None:
        self._transport: Final = transport
        self._changed: Final = changed
        self._problems: Final[dict[str, str]] = {}  # by the path of a watch; that of the heartbeat is empty
        self._since_s = 0.0

    @property
    def connection(self) -> Connection:
        if not self._problems:
            return Connection()
        return Connection(next(iter(self._problems.values())), self._since_s)

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        return await self._transport.request(request)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        try:
            found = await self._transport.stream(request, idle_s=idle_s)
        except Unreachable as problem:
            self._set(request.path, str(problem))
            raise
        self._set(request.path, "")
        return found

    async def close(self) -> None:
        await self._transport.close()

    def forget_watches(self) -> None:
        """All watches end, and others begin: a problem of one that does not begin again would stay for ever."""
        for path in [each for each in self._problems if each != _HEARTBEAT]:
            self._set(path, "")

    async def keep_asking(self) -> None:
        """The heartbeat, until it is cancelled."""
        while True:
            self._set(_HEARTBEAT, await self._ask())
            await asyncio.sleep(_RETRY_S if self._problems else _EVERY_S)

    async def _ask(self) -> str:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                response = await self._transport.request(_VERSION)
        except Unreachable as problem:
            return str(problem)
        except TimeoutError:
            return f"the API server has not answered for {_TIMEOUT_S:.0f} s"
        if response.status == _UNAUTHORIZED:
            return "the API server does not accept the credentials of this process any more (401)"
        return ""

    def _set(self, path: str, problem: str) -> None:
        had = bool(self._problems)
        if problem:
            self._problems[path] = problem
        else:
            self._problems.pop(path, None)
        if bool(self._problems) != had:
            self._since_s = time.time()
            self._changed()
