"""The webhook server: reviews in, responses out, over TLS with a certificate that may change while it runs.

``admission/`` decides reviews, ``quota/kinds/`` converts versions, ``http/server.py`` serves. If a response needs a
missing object, the server reads it from the API server, once, and only within the timeout of the calling API server.
Health probes use the same port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

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
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.kubeconfig import InlineOrFile, RESTConfig
from headgate.client.write_requests import ACCEPT, JSON
from headgate.http.request_handler import ClientPeer, HandlerResponse, RequestProblem
from headgate.http.request_head import RequestHead
from headgate.http.request_reader import ReceivedRequest
from headgate.http.server import HTTPServer
from headgate.http.server_limits import MIB, ServerLimits
from headgate.http.server_tls import bare_server_context, key_pair_context
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.api_resources import APIResource
from headgate.kube.serializer import wire_json
from headgate.quota.kinds import conversion_review
from headgate.runtime.webhooks import conversions
from headgate.runtime.webhooks.certificates import WebhookCertificates

Object = dict[str, Any]

_MOST_BYTES: Final = 8 * MIB
"""A review holds an object twice, and neither is larger than what an API server takes."""
_MOST_CONVERTED_BYTES: Final = 128 * MIB
"""A list is converted whole."""
_MOST_BODIES_BYTES: Final = 512 * MIB
"""All bodies that are not complete yet, in total."""
_MOST_CONNECTIONS: Final = 2000
_PATIENCE_S: Final = 10.0
"""With handshakes, heads and bodies that do not come."""
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
        self._policy = policy
        self._paths: Final[Mapping[str, AdmissionStep]] = {step.path: step for step in all_steps(policy) if step.path}
        self._watched: Final = watched_resources(policy)
        self._book = AdmissionCache()
        self._synced: set[APIResource] = set()
        self._told = asyncio.Event()
        self._absent: dict[Key, float] = {}
        self._server: Final = HTTPServer(self, webhook_limits(patience_s), bare_server_context())
        self._bundle = b""
        self._is_ready = False

    # -- the certificate -------------------------------------------------------------------------------------------

    async def use_certificate(self, kept: WebhookCertificates) -> None:
        """New connections get this certificate; existing ones stay."""
        self._server.use_tls(key_pair_context(kept.server))
        self._bundle = kept.bundle

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
        async with self._server.listening(host, port) as bound:
            try:
                yield bound
            finally:
                self._is_ready = False

    async def call_itself(self, host: str, port: int, name: str) -> str:
        """Asks as an API server would, by the name that one uses; what is wrong, or nothing. It is ready then."""
        probe = {"apiVersion": API_VERSION, "kind": KIND, "request": _probe(self._policy)}
        address = _ANYWHERE.get(host, host)
        url = f"https://{f'[{address}]' if ':' in address else address}:{port}"
        config = RESTConfig(server=url, tls_server_name=name, authority=InlineOrFile(data=self._bundle))
        request = HTTPRequest("POST", "/pods/mutate", "", JSON, msgspec.json.encode(probe), timeout_s=_SELF_CALL_S)
        transport = HTTPTransport(config)
        try:
            answer = await transport.request(request)
            if not answer.ok:
                return f"{name} answers itself with {answer.status}: {answer.body.decode('utf-8', 'replace').strip()}"
            said = wire_json.decode(answer.body)
        except (Unreachable, msgspec.DecodeError) as problem:
            return f"{name} does not answer itself at {address}:{port}: {problem}"
        finally:
            await transport.close()
        response = said.get("response") or {}
        if not response.get("allowed") or bool(response.get("patch")) != self._policy.gates:
            return f"{name} answers itself with {said}"
        self._is_ready = True
        return ""

    def health(self) -> str:
        """What is wrong, or nothing."""
        return "" if self._is_ready else "no call to itself has succeeded yet"

    # -- requests --------------------------------------------------------------------------------------------------

    def wants_body(self, head: RequestHead, peer: ClientPeer) -> bool:
        return self._refusal(head) is None

    def handle(
        self, request: ReceivedRequest, peer: ClientPeer
    ) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]:
        head = request.head
        refusal = self._refusal(head)
        if refusal is not None:
            return refusal
        path = unquote(head.path)
        most = _MOST_CONVERTED_BYTES if path == conversions.PATH else _MOST_BYTES
        if not request.complete or len(request.body) > most:
            return _text(413, f"more than {most} bytes")
        return self._convert(request.body) if path == conversions.PATH else self._review(path, request.body)

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        if problem.kind == "body too slow":
            return _text(408, f"no whole body came in {self._patience_s:.0f} s")
        return None

    def _refusal(self, head: RequestHead) -> HandlerResponse | None:
        """The response to what is no review and no conversion: probes are answered, too."""
        path = unquote(head.path)
        if head.method == "GET":
            return self._probe_response(path)
        if path not in self._paths and path != conversions.PATH:
            known = ", ".join((*self._paths, conversions.PATH))
            return _text(404, f"nothing is answered at {path}; known: {known}")
        if head.method != "POST":
            return _text(405, f"POST {KIND if path in self._paths else conversion_review.KIND}")
        return None

    def _probe_response(self, path: str) -> HandlerResponse:
        if path in ("/livez", "/healthz"):
            return _text(200, "ok")
        if path == "/readyz":
            problem = self.health()
            return _text(500 if problem else 200, problem or "ok")
        return _text(404, "404 page not found")

    async def _convert(self, body: bytes) -> HandlerResponse:
        # A long list takes its time, in which admission goes on.
        converted = await asyncio.to_thread(conversion_review.review_response, body)
        return _text(400, converted) if isinstance(converted, str) else _json(converted)

    def _review(self, path: str, body: bytes) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]:
        asked = read_review(body, time.monotonic())
        if isinstance(asked, str):
            return _text(400, asked)
        step = self._paths[path]
        answer, missed = self._ask(step, asked, {})
        return self._review_later(step, asked, missed) if missed else _json(write_review(asked.uid, answer))

    async def _review_later(self, step: AdmissionStep, asked: AdmissionRequest, missed: list[Key]) -> HandlerResponse:
        """Reads the missing objects first; with them the step may find that it misses others."""
        fetched: dict[Key, Object | None] = {}
        deadline_s = time.monotonic() + _ASK_S
        while True:
            for key in missed:
                fetched[key] = await self._fetch(key, deadline_s)
            answer, missed = self._ask(step, asked, fetched)
            if not missed:
                return _json(write_review(asked.uid, answer))

    def _ask(
        self, step: AdmissionStep, asked: AdmissionRequest, fetched: dict[Key, Object | None]
    ) -> tuple[AdmissionResponse, list[Key]]:
        """The answer, and the objects without which it does not count."""
        reading = CacheReader(self._book, fetched)
        answer = step.handle(asked, self._policy, reading)
        missed = [key for key in reading.missed if key[0] in self._synced]
        if answer.assumes is not None and not missed:
            self._book.resizes.assume(answer.assumes, asked.now_s)
        return answer, missed

    async def _fetch(self, key: Key, deadline_s: float) -> Object | None:
        """From the API server; what it does not have is not asked for again at once."""
        now_s = time.monotonic()
        left_s = deadline_s - now_s
        if left_s <= 0 or self._absent.get(key, 0.0) > now_s:
            return None
        resource, namespace, name = key
        path = resource.object_path(namespace, name)
        try:
            answer = await self._transport.request(HTTPRequest("GET", path, "", ACCEPT, timeout_s=left_s))
        except Unreachable:
            return None
        if answer.ok:
            found: Object = wire_json.decode(answer.body)
            return found
        if len(self._absent) >= _MOST_ABSENT:
            self._absent.clear()
        self._absent[key] = now_s + _ABSENT_S
        return None


def webhook_limits(patience_s: float = _PATIENCE_S) -> ServerLimits:
    return ServerLimits(
        body_bytes=_MOST_BYTES,
        body_bytes_of_path={conversions.PATH: _MOST_CONVERTED_BYTES},
        total_body_bytes=_MOST_BODIES_BYTES,
        connections=_MOST_CONNECTIONS,
        handshake_s=patience_s,
        head_s=patience_s,
        body_s=patience_s,
        body_silent_s=patience_s,
        idle_s=_KEPT_ALIVE_S,
        stop_s=1.0,
    )


def _json(body: bytes) -> HandlerResponse:
    return HandlerResponse(200, body, _JSON)


def _text(status: int, text: str) -> HandlerResponse:
    return HandlerResponse(status, f"{text}\n".encode())


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
