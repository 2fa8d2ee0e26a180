"""A proxy between a client and an API server that loses responses, answers with wrong errors and cuts watches.

It speaks plain HTTP to the client, whose kubeconfig points to it, and TLS to the server. There are no faults until
:meth:`FaultyProxy.inject_faults` is called; faults are counted by kind. :meth:`FaultyProxy.refuse` and
:meth:`FaultyProxy.hold_watches` cause one certain fault instead of random ones. Every write that was passed on is
recorded with its time, so that a test knows which client wrote when.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
import time
from collections import Counter
from pathlib import Path

import yaml

from harness.server import Server

ERROR_BODY = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"spoiled","reason":"InternalError","code":500}'
)
_ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(ERROR_BODY),
    ERROR_BODY,
)
_READS = ("GET", "HEAD")


class FaultyProxy:
    """``kubeconfig`` is for the client. ``server`` may be another one, or move, while this runs."""

    def __init__(self, server: Server, folder: Path, seed: int = 1) -> None:
        self.server = server
        self.faults: Counter[str] = Counter()
        self.writes: list[tuple[float, str, str]] = []
        self.refused_bodies: list[bytes] = []
        """The bodies of what was answered with an error and not passed on."""
        self._chance = random.Random(seed)
        self._rate = 0.0
        self._longest_watch_s: float | None = None
        self._refused: tuple[str, str] | None = None
        self._lost: tuple[str, str] | None = None
        self.holds_lost = False
        self.watches_flow = True
        self.pause_s = 0.0
        self._ready = threading.Event()
        self._port = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)
        self.kubeconfig = folder / f"kubeconfig-{self._port}"
        config = yaml.safe_load(server.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._port}"}
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def inject_faults(self, rate: float, longest_watch_s: float | None) -> None:
        """From now on this share of answers is spoiled in each of three ways, and no watch lives longer than that."""
        self._rate, self._longest_watch_s = rate, longest_watch_s

    def refuse(self, method: str, path_end: str) -> None:
        """From now on such requests are answered with an error and not passed on, until :meth:`allow`."""
        self._refused = (method, path_end)

    def lose(self, method: str, path_end: str, *, hold: bool = False) -> None:
        """The server acts on the next such request, and the client gets no answer. ``hold``: its connection breaks only
        after :meth:`allow`."""
        self._lost = (method, path_end)
        self.holds_lost = hold

    def allow(self) -> None:
        self._refused = self._lost = None
        self.holds_lost = False

    def hold_watches(self) -> None:
        """From now on watches deliver nothing, until :meth:`resume_watches` delivers all of it."""
        self.watches_flow = False

    def resume_watches(self, pause_s: float = 0.0) -> None:
        """``pause_s``: from now on between any two lines, so that each is heard by itself."""
        self.watches_flow, self.pause_s = True, pause_s

    def end_faults(self) -> None:
        self.allow()
        self.resume_watches()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(10)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._open: set[asyncio.Task[None]] = set()
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = listener.sockets[0].getsockname()[1]
        self._ready.set()
        await self._closing.wait()
        listener.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        line = _Line(self, reader, writer)
        try:
            await line.serve()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # one side has closed; the other sees the end of the connection
        finally:
            line.abort()
            self._open.discard(task)

    def fate(self, method: str, path: str) -> str:
        if self._refused is not None and method == self._refused[0] and path.endswith(self._refused[1]):
            return "error"
        if self._lost is not None and method == self._lost[0] and path.endswith(self._lost[1]):
            self._lost = None
            return "lost"
        return self._chance.choices(
            ("error", "error after the act", "lost", ""), (self._rate, self._rate, self._rate, 1 - 3 * self._rate)
        )[0]

    def watch_s(self) -> float | None:
        return None if self._longest_watch_s is None else self._chance.uniform(0.05, self._longest_watch_s)


class _Line:
    """One connection of the client, and the one to the server that goes with it."""

    def __init__(self, proxy: FaultyProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._wire = proxy
        self._reader, self._writer = reader, writer
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def abort(self) -> None:
        self._writer.transport.abort()
        if self._server is not None:
            self._server[1].transport.abort()

    async def serve(self) -> None:
        while True:
            head = await self._reader.readuntil(b"\r\n\r\n")
            body = await self._reader.readexactly(_length(head))
            method, target = head.decode("latin-1").split(" ", 2)[:2]
            path = target.partition("?")[0]
            if "watch=true" in target:
                await self._watch(head + body)
                return
            fate = self._wire.fate(method, path)
            self._wire.faults[fate] += 1
            if fate == "error":
                self._wire.refused_bodies.append(body)
                self._writer.write(_ERROR)
                continue
            if method not in _READS:
                self._wire.writes.append((time.monotonic(), method, path))
            answer = await self._ask(head + body)
            if fate == "lost":
                while self._wire.holds_lost:
                    await asyncio.sleep(0.01)
                return
            self._writer.write(_ERROR if fate else answer)
            await self._writer.drain()

    async def _ask(self, request: bytes) -> bytes:
        reader = await self._send(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if b"transfer-encoding: chunked" not in head.lower():
            return head + await reader.readexactly(_length(head))
        parts = [head]
        while True:
            size = await reader.readuntil(b"\r\n")
            parts += [size, await reader.readexactly(int(size, 16) + 2)]
            if int(size, 16) == 0:
                return b"".join(parts)

    async def _watch(self, request: bytes) -> None:
        reader = await self._send(request)
        limit_s = self._wire.watch_s()
        try:
            async with asyncio.timeout(limit_s):
                while part := await reader.read(65536):
                    while not self._wire.watches_flow:
                        await asyncio.sleep(0.01)
                    for piece in part.splitlines(keepends=True) if self._wire.pause_s else (part,):
                        self._writer.write(piece)
                        await self._writer.drain()
                        await asyncio.sleep(self._wire.pause_s if piece.endswith(b"}\n") else 0)
        except TimeoutError:
            self._wire.faults["cut"] += 1

    async def _send(self, request: bytes) -> asyncio.StreamReader:
        if self._server is None:
            server = self._wire.server
            host, port = server.address.split(":")
            tls = ssl.create_default_context(cafile=str(server.ca))
            self._server = await asyncio.open_connection(host, int(port), ssl=tls, limit=1 << 24)
        reader, writer = self._server
        writer.write(request)
        await writer.drain()
        return reader


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
