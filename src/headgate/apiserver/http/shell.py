"""HTTP/1.1 over TLS for an :class:`~headgate.apiserver.shell.Endpoint`, as raw ASGI on uvicorn.

Reads a request (bounded), asks the endpoint, writes the answer; streams watches; compresses long answers for clients
that want it. What a request means is decided in ``apiserver/handle.py``.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import uvicorn

from headgate.apiserver import views
from headgate.apiserver.handle import MAX_BODY_BYTES
from headgate.apiserver.messages import Request, Response
from headgate.apiserver.shell import Endpoint
from headgate.apiserver.watching import Watch
from headgate.kube import status

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_log: Final = logging.getLogger(__name__)
_GZIP_FROM_BYTES: Final = 128 * 1024
_STOP_S: Final = 3


class App:
    """The ASGI application."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint: Final = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers, repeated = gather_headers(scope["headers"])
        body = await _read_body(receive)
        if body is None:
            await _send(send, views.refuse(status.body_too_large(MAX_BODY_BYTES)), headers)
            return
        raw_path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        request = Request(
            method=scope["method"],
            path=raw_path.decode("latin-1"),
            query=scope["query_string"].decode("latin-1"),
            headers=headers,
            body=body,
            repeated=repeated,
        )
        try:
            answer = await self._endpoint.answer(request)
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            answer = views.refuse(status.internal_error("the server met a bug of its own; its log has the details"))
        if isinstance(answer, Watch):
            _log.debug("%s %s watches", request.method, request.path)
            await self._stream(answer, receive, send)
        else:
            _log.debug("%s %s %d", request.method, request.path, answer.status)
            await _send(send, answer, headers, head_only=request.method == "HEAD")

    async def _stream(self, watch: Watch, receive: Receive, send: Send) -> None:
        await send(_start(200, watch.content_type, watch.headers, None))
        async with contextlib.aclosing(self._endpoint.events(watch)) as events:
            async for chunk in events:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def gather_headers(pairs: Iterable[tuple[bytes, bytes]]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """The first value of every header, and all values of those that came more than once."""
    first: dict[str, str] = {}
    repeated: dict[str, tuple[str, ...]] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name in first:
            repeated[name] = (*repeated.get(name, (first[name],)), value)
        else:
            first[name] = value
    return first, repeated


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body, or ``None`` once it is longer than any object may be."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            return None
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _start(code: int, content_type: str, headers: tuple[tuple[str, str], ...], length: int | None) -> dict[str, Any]:
    own = {name.lower() for name, _ in headers}
    pairs = [
        (b"audit-id", str(uuid.uuid4()).encode()),
        *([] if "cache-control" in own else [(b"cache-control", b"no-cache, private")]),
        *([(b"content-type", content_type.encode("latin-1"))] if content_type else []),
        *((name.lower().encode(), value.encode("utf-8")) for name, value in headers),
    ]
    if length is not None:
        pairs.append((b"content-length", str(length).encode()))
    return {"type": "http.response.start", "status": code, "headers": pairs}


async def _send(send: Send, answer: Response, headers: dict[str, str], *, head_only: bool = False) -> None:
    body, extra = answer.body, answer.headers
    if len(body) >= _GZIP_FROM_BYTES and "gzip" in headers.get("accept-encoding", ""):
        body = gzip.compress(body, 1)
        extra = (*extra, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    await send(_start(answer.status, answer.content_type, extra, len(body)))
    await send({"type": "http.response.body", "body": b"" if head_only else body})


class _Quiet(uvicorn.Server):
    """Signals belong to whoever starts the server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """Bind at once, so that a port in use is known before anything else is set up."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sends small answers at once only on sockets that it knows to be TCP's.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


class HttpServer:
    def __init__(self, endpoint: Endpoint, sock: socket.socket, certificate: Path, key: Path) -> None:
        self._sock = sock
        self._server = _Quiet(
            uvicorn.Config(
                App(endpoint),
                http="httptools",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ssl_certfile=certificate,
                ssl_keyfile=key,
                timeout_keep_alive=180,
                timeout_graceful_shutdown=_STOP_S,
            )
        )

    async def serve(self) -> None:
        """Until ``stop``."""
        await self._server.serve(sockets=[self._sock])

    def stop(self) -> None:
        self._server.should_exit = True
