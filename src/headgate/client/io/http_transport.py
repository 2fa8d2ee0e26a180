"""The transport over HTTP/1.1 and its TLS settings: a limited pool of keep-alive connections, and one connection for
each open watch.

Watches have their own connections, so they never block writes. The response is bytes; this module decodes and logs
nothing. It retries two requests: a GET on a keep-alive connection that the server had closed, and a request that was
refused with 401, if there are other credentials now. Any other failure raises ``Unreachable``, which says whether the
request may have arrived. ``http/client_pool.py`` has the connections; ``client/io/credentials.py`` has the credentials.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Final

from headgate.client.io.credentials import ClientIdentity, CredentialSource
from headgate.client.kubeconfig import RESTConfig
from headgate.http.client_connection import ConnectionBroken, HTTPClientConnection
from headgate.http.client_pool import ClientConnectionPool
from headgate.http.request_encoder import RETRYABLE_METHODS, common_fields, encode, parse_server_address
from headgate.http.request_slots import RequestSlots
from headgate.http.response_parser import MalformedResponse, ResponseParser
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable, split_lines


def client_context(config: RESTConfig, identity: ClientIdentity) -> ssl.SSLContext:
    """Raises ``OSError`` (``ssl.SSLError``) or ``ValueError`` for invalid certificates."""
    authority = identity.authority
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates of clusters lack extensions that it requires
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        with tempfile.NamedTemporaryFile() as pair:  # OpenSSL needs a file; this one has mode 0600 and is deleted below
            pair.write(identity.certificate + b"\n" + identity.key)
            pair.flush()
            context.load_cert_chain(pair.name, password=b"")  # fail for an encrypted key; do not prompt
    return context


POOL: Final = 32
_CONNECT_S: Final = 10.0
_KEEP_ALIVE_S: Final = 55.0
"""Servers close connections after 90 idle seconds (kube-apiserver) or more; a write must not race with that."""
_UNAUTHORIZED: Final = 401


class HTTPTransport:
    """A ``Transport``. It must be created in a running event loop."""

    def __init__(self, config: RESTConfig, *, pool: int = POOL) -> None:
        self._config = config
        address = parse_server_address(config.server)
        self._problem = address if isinstance(address, str) else ""
        self._pool: ClientConnectionPool | None = None
        if not isinstance(address, str):
            self._pool = ClientConnectionPool(
                address, keep_alive_s=_KEEP_ALIVE_S, server_hostname=config.tls_server_name
            )
        self._credentials = CredentialSource(config)
        self._loop = asyncio.get_running_loop()
        self._slots = RequestSlots(pool)
        self._identity = ClientIdentity()
        self._common_headers = ""
        self._has_tls = False

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        deadline_s = self._loop.time() + request.timeout_s
        identity = self._credentials.cached() or await self._fetch(deadline_s)
        response = await self._exchange(request, identity, deadline_s)
        if response.status == _UNAUTHORIZED and await self._renew(identity, deadline_s):
            response = await self._exchange(request, await self._fetch(deadline_s), deadline_s)
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        deadline_s = self._loop.time() + request.timeout_s
        identity = await self._fetch(deadline_s)
        response = await self._open_stream(request, identity, deadline_s, idle_s)
        if (
            isinstance(response, HTTPResponse)
            and response.status == _UNAUTHORIZED
            and await self._renew(identity, deadline_s)
        ):
            response = await self._open_stream(request, await self._fetch(deadline_s), deadline_s, idle_s)
        return response

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    # -- identity --------------------------------------------------------------------------------------------------

    async def _fetch(self, deadline_s: float) -> ClientIdentity:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._credentials.fetch()
        except TimeoutError:
            raise self._unreachable("its credentials could not be read in time", sent=False) from None

    async def _renew(self, refused: ClientIdentity, deadline_s: float) -> bool:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._credentials.renew(refused)
        except (TimeoutError, Unreachable):
            return False  # the server's 401 response has the better message

    def _use_identity(self, identity: ClientIdentity) -> ClientConnectionPool:
        """Builds the common headers and the TLS context again if the identity has changed."""
        pool = self._pool
        if pool is None:
            raise Unreachable(self._problem, sent=False)
        if identity is self._identity:
            return pool
        try:
            common_headers = common_fields(pool.address, identity.token)
            if pool.address.tls and not (self._has_tls and identity.same_tls(self._identity)):
                pool.use_tls(client_context(self._config, identity))
                self._has_tls = True
        except (OSError, ValueError) as error:
            raise self._unreachable(f"its credentials cannot be used: {error}", sent=False) from error
        self._common_headers, self._identity = common_headers, identity
        return pool

    # -- one request -----------------------------------------------------------------------------------------------

    async def _exchange(self, request: HTTPRequest, identity: ClientIdentity, deadline_s: float) -> HTTPResponse:
        pool = self._use_identity(identity)
        payload = encode(request, pool.address, self._common_headers)
        if not self._slots.take():
            await self._wait_for_slot(deadline_s)
        try:
            connection = pool.idle_connection()
            if connection is not None:
                try:
                    return await self._send(pool, connection, payload, deadline_s)
                except ConnectionBroken as error:
                    if (
                        error.response_started
                        or request.method not in RETRYABLE_METHODS
                        or self._loop.time() >= deadline_s
                    ):
                        raise self._unreachable(error) from error
                    pool.drop_idle()  # the server closed it; the other idle ones are as old
            connection = await self._connect(pool, deadline_s)
            try:
                return await self._send(pool, connection, payload, deadline_s)
            except ConnectionBroken as error:
                raise self._unreachable(error) from error
        finally:
            self._slots.release()

    async def _send(
        self, pool: ClientConnectionPool, connection: HTTPClientConnection, payload: bytes, deadline_s: float
    ) -> HTTPResponse:
        # Not the loop's time, which does not advance while the loop is blocked: a request that waited for a connection
        # must not be sent after another process may have become the leader.
        if time.monotonic() >= deadline_s:
            pool.release(connection)
            raise self._unreachable("the request timed out before it could be sent", sent=False)
        return self._response(await pool.fetch(connection, payload, deadline_s))

    async def _wait_for_slot(self, deadline_s: float) -> None:
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._slots.wait()
        except TimeoutError:
            raise self._unreachable("no connection became free in time", sent=False) from None

    def _response(self, response: ResponseParser) -> HTTPResponse:
        try:
            return HTTPResponse(response.status, response.headers, response.body())
        except MalformedResponse as error:
            raise self._unreachable(error) from error

    # -- a watch ---------------------------------------------------------------------------------------------------

    async def _open_stream(
        self, request: HTTPRequest, identity: ClientIdentity, deadline_s: float, idle_s: float
    ) -> LineStream | HTTPResponse:
        pool = self._use_identity(identity)
        payload = encode(request, pool.address, self._common_headers, accept_gzip=False)
        connection = await self._connect(pool, deadline_s)
        timer = self._loop.call_at(deadline_s, connection.fail, "no response came in time")
        stream: LineStream | None = None
        try:
            response = await connection.fetch_head(payload)
            if response.status == 200 and response.headers.get("content-encoding", "identity") == "identity":
                stream = _Lines(connection, idle_s)
                return stream
            response.parts = [part async for part in connection.parts(idle_s)]
            return self._response(response)
        except ConnectionBroken as error:
            raise self._unreachable(error) from error
        finally:
            timer.cancel()
            if stream is None:
                connection.abort()

    # -- connections -----------------------------------------------------------------------------------------------

    async def _connect(self, pool: ClientConnectionPool, deadline_s: float) -> HTTPClientConnection:
        try:
            return await pool.connect(min(deadline_s, self._loop.time() + _CONNECT_S))
        except TimeoutError:
            raise self._unreachable("it did not accept a connection in time", connected=False) from None
        except OSError as error:
            raise self._unreachable(error, connected=False) from error

    def _unreachable(self, error: Exception | str, *, sent: bool = True, connected: bool = True) -> Unreachable:
        text = f"{self._config.server} cannot be reached: {error or type(error).__name__}"
        return Unreachable(text, sent=sent and connected, connected=connected)


class _Lines:
    """A ``LineStream``: lines of any length, read only as fast as they are consumed."""

    def __init__(self, connection: HTTPClientConnection, idle_s: float) -> None:
        self._connection = connection
        self._idle_s = idle_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for line in split_lines(self._connection.parts(self._idle_s)):
                yield line
        except ConnectionBroken as error:
            raise Unreachable(f"the connection of the watch broke: {error}") from error

    async def close(self) -> None:
        self._connection.abort()  # a client can end a watch only by closing its connection
