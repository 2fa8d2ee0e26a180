"""Runs the webhook server: it prepares certificates, starts watches, listens, sends itself a test call, and only then
writes the Mutating- and ValidatingWebhookConfiguration that direct an API server to it.

:class:`WebhookService` does this in a thread with its own event loop, connections and caches, so that reviews do not
wait for the scheduler and the controllers of the same process. A server that cannot start, or that fails, is started
again with back-off; the rest of the process continues. Several replicas may do the same at the same time: they share
the Secret, and each serves the API servers that reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import Final

import msgspec

from headgate.admission.admission_cache import ALWAYS_WATCHED, watched_resources
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import GROUP, POD_GROUPS, QUEUES, VERSION
from headgate.client import write_requests
from headgate.client.backoff import Backoff
from headgate.client.io.cancellation import raise_if_cancelled
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport, Unreachable
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.serializer import wire_json
from headgate.runtime.event_loop_thread import EventLoopThread, LoopFactory
from headgate.runtime.webhooks.certificates import WebhookCertificates
from headgate.runtime.webhooks.metrics import WebhookMetrics
from headgate.runtime.webhooks.registrar import WebhookRegistrar, WebhookSetupError
from headgate.runtime.webhooks.server import WebhookServer
from headgate.runtime.webhooks.target import WebhookTarget

PrintLine = Callable[[str], None]

_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.5
_NOT_FOUND: Final = 404
_log: Final = logging.getLogger(__name__)


class WebhookServerConfig(msgspec.Struct, frozen=True):
    """The address for API servers, the listening address, and the Secret (namespace, name) that replicas share."""

    target: WebhookTarget
    host: str
    port: int
    secret: tuple[str, str]


class WebhookHealth:
    """Whether the webhooks of this process work; read by other threads. ``server`` is None while they do not run;
    ``start_problem`` says why the last start failed."""

    def __init__(self) -> None:
        self.server: WebhookServer | None = None
        self.start_problem = ""
        self.has_registered = False  # since the last start
        self.metrics: Final = WebhookMetrics()

    def problem(self) -> str:
        server = self.server
        if server is None:
            return self.start_problem or "the webhook server has not started yet"
        return server.health()

    def metrics_page(self) -> bytes:
        return self.metrics.page(is_ready=not self.problem())


class WebhookService:
    """``connect`` and ``make_settings`` are called in the thread. ``gives_up``: if the first start fails, :meth:`run`
    returns the problem; otherwise the start is repeated."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Transport]],
        make_settings: Callable[[Transport], Awaitable[AdmissionSettings]],
        config: WebhookServerConfig,
        print_line: PrintLine,
        health: WebhookHealth,
        *,
        gives_up: bool,
        loop_factory: LoopFactory | None = None,
    ) -> None:
        self._connect: Final = connect
        self._make_settings: Final = make_settings
        self._config: Final = config
        self._print_line: Final = print_line
        self._health: Final = health
        self._gives_up = gives_up
        self._thread: Final = EventLoopThread[str]("webhooks", loop_factory)

    async def run(self) -> str:
        """Runs until it is cancelled; then it waits for the reviews in progress. Returns why it gave up."""
        return await self._thread.run(self._serve_with_retries)

    def begin_shutdown(self, delay_s: float) -> None:
        """Readiness fails from now on, but requests are still served. In the second half of ``delay_s`` each response
        closes its connection."""

        def begin() -> None:
            if self._health.server is not None:
                self._health.server.begin_shutdown(delay_s / 2)

        self._thread.call(begin)

    # -- in the thread

    async def _serve_with_retries(self) -> str:
        backoff = Backoff(initial_s=1.0)
        while True:
            self._health.has_registered = False
            problem = await self._serve_once()
            if self._health.has_registered:
                backoff.reset()
                self._gives_up = False
            self._health.server = None
            self._health.metrics.failed()
            if self._gives_up:
                return problem
            wait_s = backoff.next(random.random())
            self._health.start_problem = problem
            _log.warning("webhooks: %s; the next attempt is in %.0f s", problem, wait_s)
            await asyncio.sleep(wait_s)

    async def _serve_once(self) -> str:
        """Returns why the server could not start, or why it ended."""
        config = self._config
        try:
            async with self._connect() as transport:
                settings = await self._make_settings(transport)
                await serve(transport, settings, config, self._print_line, self._health)
        except (WebhookSetupError, Unreachable) as problem:
            return f"the webhooks cannot start: {problem}"
        except OSError as error:
            return f"cannot listen on {config.host}:{config.port}: {error.strerror or error}; check --webhook-listen"
        except Exception as error:
            raise_if_cancelled()
            _log.exception("webhooks: the server failed")
            return f"the webhooks failed: {type(error).__name__}: {error}"
        return "the webhooks ended"


async def serve(
    transport: Transport,
    settings: AdmissionSettings,
    config: WebhookServerConfig,
    print_line: PrintLine,
    health: WebhookHealth,
) -> None:
    """Serves in the running event loop until it is cancelled. Raises :class:`WebhookSetupError` or ``OSError`` if it
    cannot start."""
    server = WebhookServer(transport, settings, metrics=health.metrics)
    listening_ports: list[int] = []

    async def use_certificates(certificates: WebhookCertificates) -> None:
        await server.use_certificate(certificates)
        for port in listening_ports:
            await _call_itself(server, config, port)

    # the scope: which namespaces and queues opt in, and which gates have a GatePolicy
    registrar = WebhookRegistrar(
        transport, config.secret, config.target, settings, use_certificates, lambda: server.scope
    )
    server.scope_changed = registrar.scope_changed
    server.registration_problem = registrar.registration_problem
    await _prepare(registrar)
    running: list[asyncio.Task[None]] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(_stop, running)
        running += [asyncio.create_task(server.watch(resource)) for resource in watched_resources(settings)]
        served = await _served_resources(transport, print_line)
        await server.wait_for_lists(served | (watched_resources(settings).keys() - ALWAYS_WATCHED))
        port = await stack.enter_async_context(server.listening(config.host, config.port))
        listening_ports.append(port)
        health.server = server
        await _call_itself(server, config, port)
        running.append(asyncio.create_task(registrar.run()))
        registered = asyncio.create_task(registrar.registered.wait())
        await asyncio.wait([registered, *running], return_when=asyncio.FIRST_COMPLETED)
        if registered.done():
            health.has_registered = True
            print_line(f"webhooks: ready on {config.host}:{port}; API servers call {config.target.name}")
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        registered.cancel()
        await asyncio.gather(*(task for task in running if task.done()))


async def _stop(running: list[asyncio.Task[None]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _prepare(registrar: WebhookRegistrar) -> None:
    """Retries, because replicas that start together write the same Secret: all but one get a conflict."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await registrar.prepare()
        except WebhookSetupError:
            await asyncio.sleep(_PAUSE_S)
    return await registrar.prepare()


async def _call_itself(server: WebhookServer, config: WebhookServerConfig, port: int) -> None:
    problem = ""
    for _ in range(_ATTEMPTS):
        problem = await server.call_itself(config.host, port, config.target.name)
        if not problem:
            return
        await asyncio.sleep(_PAUSE_S)
    raise WebhookSetupError(problem)


async def _served_resources(transport: Transport, print_line: PrintLine) -> set[APIResource]:
    """The resources whose first list must be complete before the server listens. Queue and PodGroup only if their CRDs
    are installed."""
    response = await transport.request(HTTPRequest("GET", f"/apis/{GROUP}/{VERSION}", "", write_requests.ACCEPT))
    if response.status == _NOT_FOUND:
        print_line("webhooks: Queue and PodGroup are not served here yet; `headgate install-crds` creates them")
        return {NAMESPACES}
    return {NAMESPACES, QUEUES, POD_GROUPS}


def own_username() -> Generator[HTTPRequest, HTTPResponse, str]:
    """The user name under which the API server authenticates this process; empty if the API server does not tell it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    response = yield HTTPRequest("POST", path, "", write_requests.JSON, msgspec.json.encode(body))
    if not response.ok:
        return ""
    return str(wire_json.decode(response.body)["status"]["userInfo"].get("username", ""))
