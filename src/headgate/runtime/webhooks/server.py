"""The webhook server: it answers AdmissionReviews and ConversionReviews over TLS. Its certificate may be replaced.

``admission/`` decides reviews, ``quota/kinds/`` converts versions, ``http/server.py`` listens. Responses come from the
cache, except in two cases: if the reviewed object refers to another one that is not cached yet (its PodGroup or its
owner), and before a refusal because of queues or PodGroups, which the client may have changed a moment ago. Then the
server reads these from the API server, once, and only within the timeout of the calling API server. Health probes use
the same port. ``service.py`` runs the server in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from headgate.admission.admission_cache import (
    ALWAYS_WATCHED,
    FIELD_SELECTORS,
    AdmissionCache,
    Key,
    watched_resources,
)
from headgate.admission.admission_review import (
    API_VERSION,
    KIND,
    AdmissionRequest,
    AdmissionResponse,
    read_review,
    write_review,
)
from headgate.admission.cache_reader import CacheReader
from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.admission.steps import AdmissionStep, all_steps
from headgate.capacity.names import OPT_IN, POD_GROUPS, QUEUES
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
from headgate.runtime import decision_log
from headgate.runtime.webhooks import conversions
from headgate.runtime.webhooks.certificates import WebhookCertificates
from headgate.runtime.webhooks.metrics import WebhookMetrics

Object = dict[str, Any]

_MAX_REVIEW_BYTES: Final = 8 * MIB
"""An AdmissionReview holds the new and the old object, and an API server limits the size of both."""
_MAX_CONVERSION_BYTES: Final = 128 * MIB
"""A ConversionReview may hold a whole list."""
_MAX_INCOMPLETE_BYTES: Final = 512 * MIB
"""For all request bodies that are not complete yet, in total."""
_MAX_CONNECTIONS: Final = 2000
_CLIENT_TIMEOUT_S: Final = 10.0
"""For a TLS handshake, for the head of a request, and for its body."""
_IDLE_TIMEOUT_S: Final = 120.0
"""Longer than API servers keep an idle connection, so that they close it."""
_READ_TIMEOUT_S: Final = 3.0
"""For all reads of one review. It is less than the timeout in the webhook configurations (``configurations.py``)."""
_STOP_S: Final = 5.0
"""How long the server waits at its end for reviews in progress: as long as API servers wait for them."""
_NOT_FOUND_TTL_S: Final = 1.0
"""An object that could not be read is not requested again for so long."""
_MAX_NOT_FOUND: Final = 10_000
_MAX_SINGLE_READS: Final = 16
"""If a refusal depends on more queues, all queues are listed at once."""
_SELF_CALL_S: Final = 5.0
_JSON: Final = "application/json"
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_log: Final = logging.getLogger(__name__)


class WebhookServer:
    """Serves requests inside ``listening``. :meth:`watch` keeps the cache of the admission handlers up to date."""

    def __init__(
        self,
        transport: Transport,
        settings: AdmissionSettings,
        *,
        metrics: WebhookMetrics | None = None,
        client_timeout_s: float = _CLIENT_TIMEOUT_S,
    ) -> None:
        self._transport = transport
        self._metrics: Final = metrics or WebhookMetrics()
        self._client_timeout_s: Final = client_timeout_s
        self._settings = settings
        self._paths: Final[Mapping[str, AdmissionStep]] = {step.path: step for step in all_steps(settings) if step.path}
        self._watched: Final = watched_resources(settings)
        self._cache = AdmissionCache()
        self._known_scope = self._cache.scope
        self.scope_changed: Callable[[], None] = lambda: None  # called when `scope` has changed
        self._synced: set[APIResource] = set()
        self._list_synced = asyncio.Event()
        self._not_found_until_s: dict[Key, float] = {}
        self._server: Final = HTTPServer(self, webhook_limits(client_timeout_s), bare_server_context())
        self._bundle = b""
        self._is_ready = False
        self._is_stopping = False
        self.registration_problem: Callable[[], str] = str  # why no API server calls this server; `str` returns ""

    # -- certificate -----------------------------------------------------------------------------------------------

    async def use_certificate(self, certificates: WebhookCertificates) -> None:
        """New connections get this certificate; existing connections keep theirs."""
        self._server.use_tls(key_pair_context(certificates.server))
        self._bundle = certificates.bundle

    # -- cache -----------------------------------------------------------------------------------------------------

    async def watch(self, resource: APIResource) -> None:
        """Keeps the objects of the resource in the cache until it is cancelled."""

        def handle_event(event: InformerEvent) -> None:
            match event:
                case ObjectApplied(wire):
                    self._cache.applied(resource, wire)
                case ObjectDeleted(namespace, name):
                    self._cache.removed(resource, namespace, name)
                case ListSynced():
                    self._synced.add(resource)
                    self._list_synced.set()
            if self._cache.scope != self._known_scope:
                self._known_scope = self._cache.scope
                self.scope_changed()

        await Informer(
            self._transport,
            resource.collection_path(),
            handle_event,
            jitter=random.random,
            sleep=asyncio.sleep,
            query={"fieldSelector": FIELD_SELECTORS[resource]} if resource in FIELD_SELECTORS else {},
            fields=self._watched[resource],
            may_be_absent=resource not in ALWAYS_WATCHED,
            report=lambda problem: _log.warning("webhooks: %s", problem),
        ).run()

    @property
    def scope(self) -> ReviewScope:
        """Which objects without a queue or an annotation of their own concern Headgate, by the cache."""
        return self._cache.scope

    async def wait_for_lists(self, resources: set[APIResource]) -> None:
        """Waits until the lists of all these resources are in the cache."""
        while not resources <= self._synced:
            self._list_synced.clear()
            await self._list_synced.wait()

    # -- listening -------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Serves until the ``async with`` block ends. Yields the port."""
        async with self._server.listening(host, port) as bound_port:
            try:
                yield bound_port
            finally:
                self._is_ready = False

    async def call_itself(self, host: str, port: int, name: str) -> str:
        """Sends a test review to this server, with the host name that API servers use. Returns the problem. If there is
        none, it returns an empty text, and the server is ready."""
        test_review = {"apiVersion": API_VERSION, "kind": KIND, "request": _test_request(self._settings)}
        address = _LOOPBACK.get(host, host)
        url = f"https://{f'[{address}]' if ':' in address else address}:{port}"
        config = RESTConfig(server=url, tls_server_name=name, authority=InlineOrFile(data=self._bundle))
        body = msgspec.json.encode(test_review)
        request = HTTPRequest("POST", "/pods/mutate", "", JSON, body, timeout_s=_SELF_CALL_S)
        transport = HTTPTransport(config)
        try:
            response = await transport.request(request)
            if not response.ok:
                text = response.body.decode("utf-8", "replace").strip()
                return f"the test call to {name} returned {response.status}: {text}"
            reviewed = wire_json.decode(response.body)
        except (Unreachable, msgspec.DecodeError) as problem:
            return f"the test call to {name} at {address}:{port} failed: {problem}"
        finally:
            await transport.close()
        decision = reviewed.get("response") or {}
        if not decision.get("allowed") or bool(decision.get("patch")) != self._settings.queue_gate_enabled:
            return f"the test call to {name} returned an unexpected review: {reviewed}"
        self._is_ready = True
        return ""

    def begin_shutdown(self, keep_connections_s: float) -> None:
        """The server is no longer ready and continues to serve. After ``keep_connections_s`` every response closes its
        connection, so that API servers connect again and reach another replica. Before, the Service may still lead
        them here, and each review would need a connection of its own."""
        self._is_stopping = True
        if keep_connections_s:
            asyncio.get_running_loop().call_later(keep_connections_s, self._server.close_after_responses)
        else:
            self._server.close_after_responses()

    def health(self) -> str:
        """The problem; empty if the server is ready."""
        if self._is_stopping:
            return "the webhook server is stopping"
        return self.registration_problem() if self._is_ready else "no test call to this server has succeeded yet"

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
        max_bytes = _MAX_CONVERSION_BYTES if path == conversions.PATH else _MAX_REVIEW_BYTES
        if not request.complete or len(request.body) > max_bytes:
            return _text(413, f"more than {max_bytes} bytes")
        return self._convert(request.body) if path == conversions.PATH else self._review(path, request.body)

    def refuse(self, problem: RequestProblem) -> HandlerResponse | None:
        if problem.kind == "body too slow":
            return _text(408, f"the body was not complete after {self._client_timeout_s:.0f} s")
        return None

    def _refusal(self, head: RequestHead) -> HandlerResponse | None:
        """The response to a request that is neither a review nor a conversion, for example to a health probe."""
        path = unquote(head.path)
        if head.method == "GET":
            return self._probe_response(path)
        if path not in self._paths and path != conversions.PATH:
            known = ", ".join((*self._paths, conversions.PATH))
            return _text(404, f"there is no webhook at {path}; the paths are: {known}")
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
        # The conversion of a long list takes long, and must not block admission.
        converted = await asyncio.to_thread(conversion_review.review_response, body)
        return _text(400, converted) if isinstance(converted, str) else _json(converted)

    def _review(self, path: str, body: bytes) -> HandlerResponse | Coroutine[Any, Any, HandlerResponse]:
        request = read_review(body, time.monotonic())
        if isinstance(request, str):
            return _text(400, request)
        step = self._paths[path]
        response, wanted = self._run_step(step, request, {})
        if wanted:
            return self._review_after_reads(step, request, wanted)
        return self._reviewed(step, request, response)

    def _reviewed(self, step: AdmissionStep, request: AdmissionRequest, response: AdmissionResponse) -> HandlerResponse:
        if response.refusal and not request.dry_run and decision_log.is_enabled():
            decision_log.log_refused_review(request, response.refusal)
        written = _json(write_review(request.uid, response))
        self._metrics.reviewed(step.name, time.monotonic() - request.now_s)
        return written

    async def _review_after_reads(
        self, step: AdmissionStep, request: AdmissionRequest, wanted: list[Key]
    ) -> HandlerResponse:
        """Reads the objects and repeats the step until it needs no other object."""
        read: dict[Key, Object | None] = {}
        deadline_s = time.monotonic() + _READ_TIMEOUT_S
        while True:
            if len(wanted) > _MAX_SINGLE_READS and all(key[0] == QUEUES for key in wanted):
                await self._list_queues(read, wanted, deadline_s)
            for key in wanted:
                if key not in read:
                    read[key] = await self._read(key, deadline_s)
            response, wanted = self._run_step(step, request, read)
            if not wanted:
                return self._reviewed(step, request, response)

    def _run_step(
        self, step: AdmissionStep, request: AdmissionRequest, read: dict[Key, Object | None]
    ) -> tuple[AdmissionResponse, list[Key]]:
        """Returns the response, and the objects to read. If there are any, the response is not valid."""
        reader = CacheReader(self._cache, read)
        response = step.handle(request, self._settings, reader)
        keys = [*reader.missed, *reader.used] if response.refusal else reader.missed
        wanted = [key for key in dict.fromkeys(keys) if key[0] in self._synced]
        if response.assumes is not None and not wanted:
            self._cache.assume(response.assumes, request.now_s)
        return response, wanted

    async def _read(self, key: Key, deadline_s: float) -> Object | None:
        """Reads an object from the API server. If that fails, a cached queue or PodGroup counts as it is. The read of
        another object that was not found is not repeated for :data:`_NOT_FOUND_TTL_S`; a queue is read only before a
        refusal, and always: it may have just been created."""
        now_s = time.monotonic()
        left_s = deadline_s - now_s
        resource, namespace, name = key
        cached = self._cache.get(resource, namespace, name) if resource in (QUEUES, POD_GROUPS) else None
        is_known_missing = resource != QUEUES and self._not_found_until_s.get(key, 0.0) > now_s
        if left_s <= 0 or is_known_missing:
            return cached
        self._metrics.read()
        path = resource.object_path(namespace, name)
        try:
            response = await self._transport.request(HTTPRequest("GET", path, "", ACCEPT, timeout_s=left_s))
        except Unreachable:
            return cached
        if response.ok:
            found: Object = wire_json.decode(response.body)
            return found
        if len(self._not_found_until_s) >= _MAX_NOT_FOUND:
            self._not_found_until_s.clear()
        self._not_found_until_s[key] = now_s + _NOT_FOUND_TTL_S
        return None if response.status == 404 else cached

    async def _list_queues(self, read: dict[Key, Object | None], wanted: list[Key], deadline_s: float) -> None:
        """Reads all queues at once; nothing if that fails."""
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return
        self._metrics.read()
        try:
            request = HTTPRequest("GET", QUEUES.collection_path(), "", ACCEPT, timeout_s=left_s)
            response = await self._transport.request(request)
        except Unreachable:
            return
        if response.ok:
            items = wire_json.decode(response.body).get("items") or []
            read.update(dict.fromkeys(wanted))
            read.update({(QUEUES, "", item["metadata"]["name"]): item for item in items})


def webhook_limits(client_timeout_s: float = _CLIENT_TIMEOUT_S) -> ServerLimits:
    return ServerLimits(
        body_bytes=_MAX_REVIEW_BYTES,
        body_bytes_of_path={conversions.PATH: _MAX_CONVERSION_BYTES},
        total_body_bytes=_MAX_INCOMPLETE_BYTES,
        connections=_MAX_CONNECTIONS,
        handshake_s=client_timeout_s,
        head_s=client_timeout_s,
        body_s=client_timeout_s,
        body_silent_s=client_timeout_s,
        idle_s=_IDLE_TIMEOUT_S,
        stop_s=_STOP_S,
    )


def _json(body: bytes) -> HandlerResponse:
    return HandlerResponse(200, body, _JSON)


def _text(status: int, text: str) -> HandlerResponse:
    return HandlerResponse(status, f"{text}\n".encode())


def _test_request(settings: AdmissionSettings) -> Object:
    """The creation of a pod that opts in: it gets the queue gate, unless the settings add none."""
    metadata = {"name": "self-call", "annotations": {OPT_IN: "true"}}
    spec = {"schedulerName": min(settings.schedulers)}
    return {
        "uid": "self-call",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "self-call",
        "object": {"metadata": metadata, "spec": spec},
    }
