"""The webhooks from start to end: certificates, watches, the socket, a test call to itself, and only then the
configurations that direct an API server here.

``serve`` runs until it is cancelled. Several replicas may do the same at the same time: they share the Secret, write
the same configurations, and each serves the API servers that reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Final

import msgspec

from headgate.admission.admission_cache import WATCHED, watched_resources
from headgate.admission.policy import AdmissionPolicy
from headgate.capacity.names import GROUP, POD_GROUPS, QUEUES, VERSION
from headgate.client import write_requests
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.serializer import wire_json
from headgate.runtime.webhooks.certificates import WebhookCertificates
from headgate.runtime.webhooks.registrar import WebhookRegistrar, WebhookSetupError
from headgate.runtime.webhooks.server import WebhookServer
from headgate.runtime.webhooks.target import WebhookTarget

PrintLine = Callable[[str], None]

_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.5
_NOT_FOUND: Final = 404


class WebhookServerConfig(msgspec.Struct, frozen=True):
    """The address for API servers, the listening address, and the Secret (namespace, name) that replicas share."""

    target: WebhookTarget
    host: str
    port: int
    secret: tuple[str, str]


class WebhookHealth:
    """Whether the webhooks of this process work. ``server`` is None until they have started."""

    def __init__(self) -> None:
        self.server: WebhookServer | None = None

    def problem(self) -> str:
        return "the webhooks have not begun" if self.server is None else self.server.health()


async def serve(
    transport: Transport,
    policy: AdmissionPolicy,
    config: WebhookServerConfig,
    print_line: PrintLine,
    health: WebhookHealth,
) -> None:
    """Raises :class:`WebhookSetupError` or ``OSError`` if it cannot start."""
    server = WebhookServer(transport, policy)
    listening_ports: list[int] = []

    async def use_certificates(certificates: WebhookCertificates) -> None:
        await server.use_certificate(certificates)
        for port in listening_ports:
            await _call_itself(server, config, port)

    registrar = WebhookRegistrar(transport, config.secret, config.target, policy, use_certificates)
    await _prepare(registrar)
    running: list[asyncio.Task[None]] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(_stop, running)
        running += [asyncio.create_task(server.follow(resource)) for resource in watched_resources(policy)]
        await server.knows(await _served(transport, print_line) | (watched_resources(policy).keys() - WATCHED))
        port = await stack.enter_async_context(server.listening(config.host, config.port))
        listening_ports.append(port)
        health.server = server
        await _call_itself(server, config, port)
        running.append(asyncio.create_task(registrar.run()))
        registered = asyncio.create_task(registrar.registered.wait())
        await asyncio.wait([registered, *running], return_when=asyncio.FIRST_COMPLETED)
        if registered.done():
            print_line(f"webhooks: ready on {config.host}:{port}, called as {config.target.name}")
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


async def _served(transport: Transport, print_line: PrintLine) -> set[APIResource]:
    """The resources that must be listed before the first response. Queue kinds count only if they are served."""
    response = await transport.request(HTTPRequest("GET", f"/apis/{GROUP}/{VERSION}", "", write_requests.ACCEPT))
    if response.status == _NOT_FOUND:
        print_line("webhooks: Queue and PodGroup are not served here yet; `headgate install-crds` creates them")
        return {NAMESPACES}
    return {NAMESPACES, QUEUES, POD_GROUPS}


def own_username() -> Generator[HTTPRequest, HTTPResponse, str]:
    """The user name that the server has for this process; empty if the server does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    response = yield HTTPRequest("POST", path, "", write_requests.JSON, msgspec.json.encode(body))
    if not response.ok:
        return ""
    return str(wire_json.decode(response.body)["status"]["userInfo"].get("username", ""))
