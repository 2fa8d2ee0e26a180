"""A Service with several replicas behind one address: a TCP proxy that connects clients to ready replicas.

As with a real Service, only new connections are directed: one that is open stays with its replica until either end
closes it, and a replica that is no longer ready gets new connections until the next probe. A replica that cannot be
connected to is not replaced by another: the client's connection fails.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import threading
from collections.abc import Sequence

PROBE_S = 0.5
PROBE_LIMIT_S = 10.0
"""A replica that is slow, because the machine has much else to do, is ready: a kubelet needs three failures."""


class ServiceProxy:
    """``backends``: the ports of the replicas on this machine. They serve ``/readyz`` over HTTPS."""

    def __init__(self, backends: Sequence[int]) -> None:
        self._backends = list(backends)
        self.ready: frozenset[int] = frozenset()
        self.connections: dict[int, int] = dict.fromkeys(backends, 0)
        self._turn = itertools.count()
        self._started = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._started.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(10)

    async def _run(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        self._tasks |= {asyncio.create_task(self._probe(port)) for port in self._backends}
        self._started.set()
        await self._closing.wait()
        listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _probe(self, port: int) -> None:
        while True:
            self.ready = self.ready | {port} if await _is_ready(port) else self.ready - {port}
            await asyncio.sleep(PROBE_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        opened = [writer]
        try:
            ready = sorted(self.ready)
            if not ready:
                return
            port = ready[next(self._turn) % len(ready)]
            replica_reader, replica_writer = await asyncio.open_connection("127.0.0.1", port)
            opened.append(replica_writer)
            self.connections[port] += 1
            await asyncio.gather(_copy(reader, replica_writer), _copy(replica_reader, writer))
        except OSError:
            pass  # the client sees the end of its connection
        finally:
            for each in opened:
                each.transport.abort()
            self._tasks.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _is_ready(port: int) -> bool:
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # a kubelet does not verify a probe either
    try:
        async with asyncio.timeout(PROBE_LIMIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")
            status = await reader.readline()
            writer.transport.abort()
            return b" 200 " in status
    except (OSError, TimeoutError):
        return False
