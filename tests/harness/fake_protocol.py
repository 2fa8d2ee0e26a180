"""A server connection without a socket: what is written to it is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.request_handler import RequestHandler
from headgate.http.server_connection import ServerConnection, ServerContext
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import ServerProtocol


class FakeProtocol:
    """Records what is written to it; the test decides when its client reads."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        self.stalled = False
        self.client_certificate = None
        self.source = "127.0.0.1"
        self.waiting_bytes: Callable[[], int] = int
        self.deadlines: list[float | None] = []

    def write(self, data: bytes | memoryview) -> None:
        self.writes.append(bytes(data))

    def set_deadline(self, seconds: float | None) -> None:
        self.deadlines.append(seconds)

    def pause_input(self, hold: bool) -> None: ...
    def close(self, *, linger: bool = False) -> None:
        self.closed = True

    def abort(self, reason: str) -> None: ...
    def finish(self) -> None: ...


def response_to(handler: RequestHandler, sent: bytes, limits: ServerLimits) -> bytes:
    """What a server with this handler writes to a client that sends these bytes."""

    async def run() -> bytes:
        protocol = FakeProtocol()
        context = ServerContext(handler, ConnectionTracker(limits), limits)
        ServerConnection(context, cast(ServerProtocol, protocol)).received(sent)
        return b"".join(protocol.writes)

    return asyncio.run(run())
