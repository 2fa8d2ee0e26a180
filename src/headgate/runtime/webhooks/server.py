"""The webhook server: reviews in, responses out, over TLS with a certificate that may change while it runs.

``admission/`` decides reviews, ``quota/kinds/`` converts versions; this module has bytes, bounds and deadlines. If a
response needs a missing object, the server reads it from the API server, once, and only within the timeout of the
calling API server. Health probes use the same port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from headgate.admission.admission_cache import WATCHED, AdmissionCache, CacheReader, Key, watched_resources
from headgate.admission.admission_review import (
    API_VERSION,
    KIND,
    AdmissionRequest,
    AdmissionResponse,
    read_review,
    write_review,
)
from headgate.admission.policy import AdmissionPolicy
from headgate.admission.steps import AdmissionStep, all_steps
from headgate.capacity.names import OPT_IN
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.write_requests import ACCEPT
from headgate.http import transport as clients
from headgate.http.transport import Transport, Unreachable
from headgate.kube.api_resources import APIResource
from headgate.kube.serializer import wire_json
from headgate.quota.kinds import conversion_review
from headgate.runtime.webhooks import conversions
from headgate.runtime.webhooks.certificates import WebhookCertificates

Object = dict[str, Any]

_MOST_BYTES: Final = 8 * 1024 * 1024
"""A review holds an object twice, and neither is larger than what an API server takes."""
_MOST_CONVERTED_BYTES: Final = 128 * 1024 * 1024
"""A list is converted whole."""
_MOST_CONNECTIONS: Final = 2000
_PATIENCE_S: Final = 10.0
"""With handshakes, first heads and bodies that do not come."""
_KEPT_ALIVE_S: Final = 120.0
"""Longer than API servers keep an idle connection, so that they close it."""
_ASK_S: Final = 3.0
"""Less than the patience of an API server with us (``configurations.py``), for all that one answer has to ask."""
_ABSENT_S: Final = 1.0
_MOST_ABSENT: Final = 10_000
_SELF_CALL_S: Final = 5.0
_JSON: Final = "application/json"
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_log: Final = logging.getLogger(__name__)


class WebhookServer:
    """Serves requests inside ``listening``; :meth:`follow` keeps the state of the cluster."""

    def __init__(self, transport: Transport, policy: AdmissionPolicy, *, patience_s: float = _PATIENCE_S) -> None:
        self._transport = transport
        self._patience_s: Final = patience_s
        self._unheard: Final[dict[asyncio.BaseProtocol, asyncio.Handle]] = {}  # connections without a request so far
        self._policy = policy
        self._paths: Final[Mapping[str, AdmissionStep]] = {step.path: step for step in all_steps(policy) if step.path}
        self._watched: Final = watched_resources(policy)
        self._book = AdmissionCache()
        self._synced: set[APIResource] = set()
        self._told = asyncio.Event()
        self._absent: dict[Key, float] = {}
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._trust: ssl.SSLContext | None = None
        self._is_ready = False

    # -- the certificate -------------------------------------------------------------------------------------------

    async def use_certificate(self, kept: WebhookCertificates) -> None:
        """New connections get this certificate; existing ones stay."""
        with tempfile.TemporaryDirectory() as folder:  # the only way in that Python has
            chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            chain.write_bytes(kept.server.certificate)
            key.touch(0o600)
            key.write_bytes(kept.server.key)
            self._tls.load_cert_chain(chain, key)
        self._trust = ssl.create_default_context(cadata=kept.bundle.decode("ascii"))

    # -- what is known ---------------------------------------------------------------------------------------------

    async def follow(self, resource: APIResource) -> None:
        """Until it is cancelled."""

        def heard(event: InformerEvent) -> None:
            match event:
                case ObjectApplied(wire):
                    self._book.applied(resource, wire)
                case ObjectDeleted(namespace, name):
                    self._book.removed(resource, namespace, name)
                case ListSynced():
                    self._synced.add(resource)
                    self._told.set()

        await Informer(
            self._transport,
            resource.collection_path(),
            heard,
            jitter=random.random,
            sleep=asyncio.sleep,
            fields=self._watched[resource],
            may_be_absent=resource not in WATCHED,
            report=lambda problem: _log.warning("webhooks: %s", problem),
        ).run()

    async def knows(self, resources: set[APIResource]) -> None:
        """Returns when all of them were told in full."""
        while not resources <= self._synced:
            self._told.clear()
            await self._told.wait()

    # -- listening -------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Answers until the block is left. Yields the port."""
        front = web.Server(
            self._handle, keepalive_timeout=_KEPT_ALIVE_S, lingering_time=self._patience_s, access_log=None
        )
        loop = asyncio.get_running_loop()

        def connected() -> asyncio.BaseProtocol:
            if len(front.connections) >= _MOST_CONNECTIONS:
                return _ConnectionLimitReached()
            handler = front()
            # aiohttp waits for a first head for ever; for later ones its own timer suffices.
            self._unheard[handler] = loop.call_later(2 * self._patience_s, self._give_up, handler)
            return handler

        server = await loop.create_server(
            connected, host or None, port, ssl=self._tls, ssl_handshake_timeout=self._patience_s, backlog=512
        )
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            self._is_ready = False
            server.close()
            for timer in self._unheard.values():
                timer.cancel()
            self._unheard.clear()
            await front.shutdown(1.0)
            await asyncio.sleep(0)  # what was cut is closed by the loop, a turn later

    def _give_up(self, handler: web.RequestHandler) -> None:
        self._unheard.pop(handler, None)
        handler.force_close()

    def _hear(self, handler: asyncio.BaseProtocol | None) -> None:
        timer = self._unheard.pop(handler, None) if handler is not None else None
        if timer is not None:
            timer.cancel()

    async def call_itself(self, host: str, port: int, name: str) -> str:
        """Asks as an API server would, by the name that one uses; what is wrong, or nothing. It is ready then."""
        probe = {"apiVersion": API_VERSION, "kind": KIND, "request": _probe(self._policy)}
        address = _ANYWHERE.get(host, host)
        url = f"https://{f'[{address}]' if ':' in address else address}:{port}/pods/mutate"
        limit = aiohttp.ClientTimeout(total=_SELF_CALL_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.post(url, json=probe, ssl=self._trust or True, server_hostname=name) as answer,
            ):
                said = await answer.json()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as problem:
            return f"{name} does not answer itself at {address}:{port}: {problem or type(problem).__name__}"
        response = said.get("response") or {}
        if not response.get("allowed") or bool(response.get("patch")) != self._policy.gates:
            return f"{name} answers itself with {said}"
        self._is_ready = True
        return ""

    def health(self) -> str:
        """What is wrong, or nothing."""
        return "" if self._is_ready else "no call to itself has succeeded yet"

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        self._hear(request.protocol)
        if request.method == "GET":
            return self._examined(request.path)
        step = self._paths.get(request.path)
        if step is None and request.path != conversions.PATH:
            known = ", ".join((*self._paths, conversions.PATH))
            return _text(404, f"nothing is answered at {request.path}; known: {known}")
        if request.method != "POST":
            return _text(405, f"POST {KIND if step is not None else conversion_review.KIND}")
        most = _MOST_BYTES if step is not None else _MOST_CONVERTED_BYTES
        try:
            async with asyncio.timeout(self._patience_s):
                body = await _read(request, most)
        except TimeoutError:
            return _text(408, f"no whole body came in {self._patience_s:.0f} s")
        if body is None:
            return _text(413, f"more than {most} bytes")
        if step is None:
            # A long list takes its time, in which admission goes on.
            converted = await asyncio.to_thread(conversion_review.answer, body)
            return _text(400, converted) if isinstance(converted, str) else _json(converted)
        asked = read_review(body)
        if isinstance(asked, str):
            return _text(400, asked)
        return _json(write_review(asked.uid, await self._answer(step, asked)))

    def _examined(self, path: str) -> web.Response:
        if path in ("/livez", "/healthz"):
            return _text(200, "ok")
        if path == "/readyz":
            problem = self.health()
            return _text(500 if problem else 200, problem or "ok")
        return _text(404, "404 page not found")

    async def _answer(self, step: AdmissionStep, asked: AdmissionRequest) -> AdmissionResponse:
        fetched: dict[Key, Object | None] = {}
        deadline_s = time.monotonic() + _ASK_S
        while True:
            reading = CacheReader(self._book, fetched)
            answer = step.ask(asked, self._policy, reading)
            missed = [key for key in reading.missed if key[0] in self._synced]
            if not missed:
                return answer
            for key in missed:
                fetched[key] = await self._fetch(key, deadline_s)

    async def _fetch(self, key: Key, deadline_s: float) -> Object | None:
        """From the API server; what it does not have is not asked for again at once."""
        now_s = time.monotonic()
        left_s = deadline_s - now_s
        if left_s <= 0 or self._absent.get(key, 0.0) > now_s:
            return None
        resource, namespace, name = key
        path = resource.object_path(namespace, name)
        try:
            answer = await self._transport.request(clients.HTTPRequest("GET", path, "", ACCEPT, timeout_s=left_s))
        except Unreachable:
            return None
        if answer.ok:
            found: Object = wire_json.decode(answer.body)
            return found
        if len(self._absent) >= _MOST_ABSENT:
            self._absent.clear()
        self._absent[key] = now_s + _ABSENT_S
        return None


class _ConnectionLimitReached(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


async def _read(request: web.BaseRequest, most: int) -> bytes | None:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > most:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type=_JSON)


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")


def _probe(policy: AdmissionPolicy) -> Object:
    """A pod that must be gated if any is."""
    metadata = {"name": "self-call", "annotations": {OPT_IN: "true"}}
    spec = {"schedulerName": min(policy.schedulers)}
    return {
        "uid": "self-call",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "self-call",
        "object": {"metadata": metadata, "spec": spec},
    }
