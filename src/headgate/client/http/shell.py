"""The transport over HTTP, on aiohttp.

Ordinary requests share a bounded pool; watches have connections of their own, so that a few open watches never starve
the writes. What comes back is bytes; nothing is decoded, retried or logged here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from headgate.client.kubeconfig import Access, Blob
from headgate.client.transport import Lines, Request, Response, Unreachable, split_lines

POOL: Final = 32
_USER_AGENT: Final = "headgate"
_GOODBYE_S: Final = 0.1
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 60.0


class Http:
    """A ``Transport``. Make it inside a running event loop; ``folder`` is where relative file names start."""

    def __init__(self, access: Access, *, folder: Path = Path(), pool: int = POOL) -> None:
        self._access = access
        self._folder = folder
        self._token = _token(access, folder)
        context: ssl.SSLContext | bool = _tls(access, folder) if access.server.startswith("https://") else True
        self._requests = _session(context, pool)
        self._watches = _session(context, 0)

    async def request(self, request: Request) -> Response:
        response = await self._send(request)
        if response.status == 401 and self._access.token_file and self._renew_token():
            response = await self._send(request)
        return response

    async def stream(self, request: Request, *, idle_s: float) -> Lines | Response:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle_s)
        try:
            answer = await self._open(self._watches, request, timeout)
            if answer.status == 200:
                return _Lines(answer)
            async with answer:
                return await _read(answer)
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        await self._requests.close()
        await self._watches.close()
        # TLS says goodbye in both directions; requests that were cancelled are still waiting for the server's half.
        await asyncio.sleep(_GOODBYE_S)

    async def _send(self, request: Request) -> Response:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S, sock_connect=_CONNECT_S)
        try:
            async with await self._open(self._requests, request, timeout) as answer:
                return await _read(answer)
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    async def _open(
        self, session: aiohttp.ClientSession, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        target = f"{self._access.server}{request.path}" + (f"?{request.query}" if request.query else "")
        headers = {"user-agent": _USER_AGENT, **request.headers}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        return await session.request(
            request.method,
            URL(target, encoded=True),  # path and query are ready as they are, and must not be quoted twice
            headers=headers,
            data=request.body or None,
            timeout=timeout,
            server_hostname=self._access.tls_server_name or None,
            allow_redirects=False,  # a redirect would carry the token to somewhere else
        )

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self._access.server} cannot be reached: {str(error) or type(error).__name__}")

    def _renew_token(self) -> bool:
        """Tokens in files are rotated; true if the file holds another one by now."""
        old, self._token = self._token, _token(self._access, self._folder)
        return self._token != old


class _Lines:
    """Lines of any length: aiohttp's own line reader refuses those that are longer than its buffer."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for line in split_lines(self._answer.content.iter_any()):
                yield line
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the watch broke off: {error or type(error).__name__}") from error

    async def close(self) -> None:
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()  # a watch is cut, not ended: there is nothing to say goodbye for
        self._answer.close()


def _session(context: ssl.SSLContext | bool, limit: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=limit, ssl=context)
    return aiohttp.ClientSession(connector=connector, auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar())


async def _read(answer: aiohttp.ClientResponse) -> Response:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Response(status=answer.status, headers=headers, body=await answer.read())


def _token(access: Access, folder: Path) -> str:
    if access.token_file:
        with contextlib.suppress(OSError):
            return (folder / access.token_file).read_text().strip()
    return access.token


def _tls(access: Access, folder: Path) -> ssl.SSLContext:
    authority = _bytes(access.authority, folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # clusters' own certificates lack extensions that it asks for
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate:
        with tempfile.NamedTemporaryFile() as pair:  # OpenSSL takes a file; this one is 0600 and gone in a moment
            pair.write(_bytes(access.client_certificate, folder) + b"\n" + _bytes(access.client_key, folder))
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _bytes(blob: Blob, folder: Path) -> bytes:
    return (folder / blob.file).read_bytes() if blob.file else blob.data
