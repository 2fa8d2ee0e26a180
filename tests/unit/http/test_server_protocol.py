"""Deadlines of less than a millisecond, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import pytest

from event_loops import Run, on_both_loops
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.server_limits import ServerLimits
from headgate.http.server_protocol import ServerProtocol


class SilentHandler:
    """A handler that sends nothing and records that the connection was lost."""

    def __init__(self) -> None:
        self.is_lost = asyncio.Event()

    def received(self, data: bytes) -> None: ...

    def may_write(self) -> None: ...

    def expired(self) -> None: ...

    def sends_no_more(self) -> bool:
        return False

    def finish(self) -> None: ...

    def lost(self) -> None:
        self.is_lost.set()


@on_both_loops
@pytest.mark.parametrize("deadlines_s", [(0.0001, 0.0002), (0.0002, 0.0001), (0.0001, 0.01), (3600.0, 0.0001)])
def test_a_deadline_within_a_millisecond_can_be_replaced_and_ends_the_connection(
    run: Run, deadlines_s: tuple[float, ...]
) -> None:
    async def scenario() -> None:
        handler = SilentHandler()
        limits = ServerLimits()
        protocol = ServerProtocol(
            ConnectionTracker(limits), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), limits, lambda line: handler
        )
        server, client = socket.socketpair()
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        with client:
            await loop.connect_accepted_socket(lambda: protocol, server)
            for seconds in deadlines_s:
                protocol.set_deadline(seconds)
            async with asyncio.timeout(10):
                await handler.is_lost.wait()
                with contextlib.suppress(ConnectionResetError):
                    assert await loop.sock_recv(client, 1) == b""
            assert protocol.closed

    run(scenario())
