"""The transport over HTTP/1.1 and its TLS settings: a bounded pool of kept connections, and one more for each open
watch.

Watches have their own connections, so they never starve the writes. The response is bytes; nothing is decoded or logged
here. Two requests are retried: a GET on a kept connection that turned out to be closed, and a request that was refused
with 401 once there are other credentials. Any other failure is ``Unreachable``, which says whether the request may have
arrived. ``http/client_connection.py`` is one connection; ``client/io/credentials.py`` provides the identity.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from ssl import SSLContext
from typing import Final

from headgate.client.io.credentials import ClientIdentity, CredentialSource
from headgate.client.kubeconfig import RESTConfig
from headgate.http.client_connection import ConnectionBroken, HTTPClientConnection
from headgate.http.request_encoder import RETRYABLE_METHODS, ServerAddress, common_fields, encode, parse_server_address
from headgate.http.request_slots import RequestSlots
from headgate.http.response_parser import MalformedResponse, ResponseParser
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable, split_lines


def client_context(access: RESTConfig, identity: ClientIdentity) -> ssl.SSLContext:
    """Raises ``OSError`` (``ssl.SSLError``) or ``ValueError`` for certificates that are none."""
    authority = identity.authority
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # clusters' own certificates lack extensions that it asks for
    context.set_alpn_protocols(["http/1.1"])
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate:
        with tempfile.NamedTemporaryFile() as pair:  # OpenSSL takes a file; this one is 0600 and gone soon
            pair.write(identity.certificate + b"\n" + identity.key)
            pair.flush()
            context.load_cert_chain(pair.name, password=b"")  # for a locked key: fail, do not ask the terminal
    return context


POOL: Final = 32
_CONNECT_S: Final = 10.0
_KEEP_S: Final = 55.0
"""Servers close what is idle for 90 s (kube-apiserver) or more; a write must not race with that."""
_LAST_LOOKS: Final = 10
_UNAUTHORIZED: Final = 401


class HTTPTransport:
    """A ``Transport``. Make it inside a running event loop."""

    def __init__(self, access: RESTConfig, *, pool: int = POOL) -> None:
        self._access = access
        place = parse_server_address(access.server)
        self._place: ServerAddress | None = None if isinstance(place, str) else place
        self._problem = place if isinstance(place, str) else ""
        self._credentials = CredentialSource(access)
        self._loop = asyncio.get_running_loop()
        self._slots = RequestSlots(pool)
        self._idle: list[HTTPClientConnection] = []  # the one that was used last is at the end
        self._lines: set[HTTPClientConnection] = set()
        self._identity = ClientIdentity()
        self._common = ""
        self._context: SSLContext | None = None
        self._tls_age = 0  # how often the TLS settings changed; lines of an older age are not kept

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        deadline_s = self._loop.time() + request.timeout_s
        identity = self._credentials.at_hand() or await self._fetch(deadline_s)
        response = await self._exchange(request, identity, deadline_s)
        if response.status == _UNAUTHORIZED and await self._renewed(identity, deadline_s):
            response = await self._exchange(request, await self._fetch(deadline_s), deadline_s)
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        deadline_s = self._loop.time() + request.timeout_s
        identity = await self._fetch(deadline_s)
        answer = await self._open(request, identity, deadline_s, idle_s)
        if (
            isinstance(answer, HTTPResponse)
            and answer.status == _UNAUTHORIZED
            and await self._renewed(identity, deadline_s)
        ):
            answer = await self._open(request, await self._fetch(deadline_s), deadline_s, idle_s)
        return answer

    async def close(self) -> None:
        self._idle.clear()
        for line in list(self._lines):
            line.abort()
        for _ in range(_LAST_LOOKS):
            if not self._lines:
                break
            await asyncio.sleep(0)  # the event loop closes sockets in its next rounds

    # -- who we are ------------------------------------------------------------------------------------------------

    async def _fetch(self, deadline_s: float) -> ClientIdentity:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._credentials.fetch()
        except TimeoutError:
            raise self._unreachable("credentials were not there in time", sent=False) from None

    async def _renewed(self, refused: ClientIdentity, deadline_s: float) -> bool:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._credentials.renew(refused)
        except (TimeoutError, Unreachable):
            return False  # the server's own answer says it better

    def _adopt(self, identity: ClientIdentity) -> ServerAddress:
        """Makes the common parts of requests anew when who we are has changed."""
        if self._place is None:
            raise Unreachable(self._problem, sent=False)
        if identity is self._identity:
            return self._place
        try:
            common = common_fields(self._place, identity.token)
            if self._place.tls and (self._context is None or not identity.same_tls(self._identity)):
                self._context = client_context(self._access, identity)
                self._tls_age += 1
                self._drop_idle()
        except (OSError, ValueError) as error:
            raise self._unreachable(f"its credentials are of no use: {error}", sent=False) from error
        self._common, self._identity = common, identity
        return self._place

    # -- one request -----------------------------------------------------------------------------------------------

    async def _exchange(self, request: HTTPRequest, identity: ClientIdentity, deadline_s: float) -> HTTPResponse:
        place = self._adopt(identity)
        payload = encode(request, place, self._common)
        if not self._slots.take():
            await self._queue(deadline_s)
        try:
            line = self._kept_line()
            if line is not None:
                try:
                    return await self._ask(line, payload, deadline_s)
                except ConnectionBroken as error:
                    if (
                        error.response_started
                        or request.method not in RETRYABLE_METHODS
                        or self._loop.time() >= deadline_s
                    ):
                        raise self._unreachable(error) from error
                    self._drop_idle()  # kept too long; the others are no better
            line = await self._connect(place, deadline_s)
            try:
                return await self._ask(line, payload, deadline_s)
            except ConnectionBroken as error:
                raise self._unreachable(error) from error
        finally:
            self._slots.release()

    async def _ask(self, line: HTTPClientConnection, payload: bytes, deadline_s: float) -> HTTPResponse:
        # Not the loop's time, which may stand still while this process does: what waited for a connection meanwhile
        # must not be sent when the right to send it has passed to somebody else.
        if time.monotonic() >= deadline_s:
            self._put_back(line)
            raise self._unreachable("its time was up before it could be sent", sent=False)
        timer = self._loop.call_at(deadline_s, line.fail, "no answer came in time")
        try:
            answer = await line.fetch(payload)
        except BaseException:
            line.abort()  # an answer to somebody who has left must not reach the next one
            raise
        finally:
            timer.cancel()
            self._put_back(line)
        return self._response(answer)

    async def _queue(self, deadline_s: float) -> None:
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._slots.wait()
        except TimeoutError:
            raise self._unreachable("no connection became free in time", sent=False) from None

    def _response(self, answer: ResponseParser) -> HTTPResponse:
        try:
            return HTTPResponse(answer.status, answer.headers, answer.body())
        except MalformedResponse as error:
            raise self._unreachable(error) from error

    # -- a watch ---------------------------------------------------------------------------------------------------

    async def _open(
        self, request: HTTPRequest, identity: ClientIdentity, deadline_s: float, idle_s: float
    ) -> LineStream | HTTPResponse:
        place = self._adopt(identity)
        payload = encode(request, place, self._common, accept_gzip=False)
        line = await self._connect(place, deadline_s)
        timer = self._loop.call_at(deadline_s, line.fail, "no answer came in time")
        opened: LineStream | None = None
        try:
            answer = await line.fetch_head(payload)
            if answer.status == 200 and answer.headers.get("content-encoding", "identity") == "identity":
                opened = _Lines(line, idle_s)
                return opened
            answer.parts = [part async for part in line.parts(idle_s)]
            return self._response(answer)
        except ConnectionBroken as error:
            raise self._unreachable(error) from error
        finally:
            timer.cancel()
            if opened is None:
                line.abort()

    # -- connections -----------------------------------------------------------------------------------------------

    def _kept_line(self) -> HTTPClientConnection | None:
        oldest_s = self._loop.time() - _KEEP_S
        while self._idle:
            line = self._idle.pop()
            if line.reusable and line.idle_since_s >= oldest_s:
                return line
            line.abort()
        return None

    def _put_back(self, line: HTTPClientConnection) -> None:
        if line.reusable and line.tls_age == self._tls_age:
            line.idle_since_s = self._loop.time()
            self._idle.append(line)
        else:
            line.abort()

    def _drop_idle(self) -> None:
        for line in self._idle:
            line.abort()
        self._idle.clear()

    async def _connect(self, place: ServerAddress, deadline_s: float) -> HTTPClientConnection:
        age = self._tls_age
        try:
            async with asyncio.timeout_at(min(deadline_s, self._loop.time() + _CONNECT_S)):
                _, line = await self._loop.create_connection(
                    lambda: HTTPClientConnection(self._loop, self._lines, age),
                    place.host,
                    place.port,
                    ssl=self._context if place.tls else None,
                    server_hostname=(self._access.tls_server_name or place.host) if place.tls else None,
                )
        except TimeoutError:
            raise self._unreachable("it does not take connections in time", sent=False) from None
        except OSError as error:
            raise self._unreachable(error, sent=False) from error
        return line

    def _unreachable(self, error: Exception | str, *, sent: bool = True) -> Unreachable:
        return Unreachable(f"{self._access.server} cannot be reached: {error or type(error).__name__}", sent=sent)


class _Lines:
    """Lines of any length, read no faster than they are consumed."""

    def __init__(self, line: HTTPClientConnection, idle_s: float) -> None:
        self._line = line
        self._idle_s = idle_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for line in split_lines(self._line.parts(self._idle_s)):
                yield line
        except ConnectionBroken as error:
            raise Unreachable(f"the watch broke off: {error}") from error

    async def close(self) -> None:
        self._line.abort()  # a watch is cut, not ended: there is nothing to say goodbye for
