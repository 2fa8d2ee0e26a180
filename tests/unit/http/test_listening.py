"""The listening socket: what the connections that come out of it are like."""

from __future__ import annotations

import asyncio
import socket

from headgate.apiserver.http.shell import listen


def test_small_answers_are_not_held_back_on_accepted_connections() -> None:
    """Nagle's wait together with a client's late acknowledgement costs 40 ms on each answer."""

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
