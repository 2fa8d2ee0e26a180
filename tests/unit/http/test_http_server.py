"""The listening socket: options of accepted connections, and how many connections it allows."""

from __future__ import annotations

import asyncio
import resource
import socket

import pytest

from headgate.apiserver.io.http_server import _that_fit, listen
from headgate.http.server_limits import ServerLimits


def test_accepted_connections_have_tcp_nodelay() -> None:
    """Nagle's algorithm and a client's delayed acknowledgement would cost 40 ms per response."""

    async def accepted_option() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock: socket.socket = writer.get_extra_info("socket")
            seen.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        sock = listen("127.0.0.1", 0)
        async with await asyncio.start_server(accepted, sock=sock):
            _, writer = await asyncio.open_connection(*sock.getsockname())
            try:
                return await seen
            finally:
                writer.close()
                await writer.wait_closed()

    assert asyncio.run(accepted_option()) == 1


@pytest.mark.parametrize(
    ("files", "asked", "connections"),
    [(1000, 5000, 936), (1000, 936, 936), (1000, 935, 935), (1000, 10, 10), (66, 10, 2), (65, 10, 1), (30, 10, 1)],
)
def test_connections_are_bounded_by_the_files_that_the_process_may_open(
    files: int, asked: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: None)
    assert _that_fit(ServerLimits(connections=asked)).connections == connections
