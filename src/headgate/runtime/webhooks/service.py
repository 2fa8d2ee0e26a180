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
_MISSING: Final = 404


class WebhookServerConfig(msgspec.Struct, frozen=True):
    """The address for API servers, the listening address, and the Secret (namespace, name) that replicas share."""

    target: WebhookTarget
    host: str
    port: int
    secret: tuple[str, str]


class WebhookHealth:
    """Whether the webhooks of this process work; there may be none yet."""

    def __init__(self) -> None:
        self.server: WebhookServer | None = None

    def problem(self) -> str:
        return "the webhooks have not begun" if self.server is None else self.server.health()


async def serve(
    transport: Transport, policy: AdmissionPolicy, place: WebhookServerConfig, say: PrintLine, health: WebhookHealth
) -> None:
    """Raises :class:`WebhookSetupError` or ``OSError`` if it cannot begin."""
    server = WebhookServer(transport, policy)
    shown_at: list[int] = []

    async def show(kept: WebhookCertificates) -> None:
        await server.use_certificate(kept)
        for port in shown_at:
            await _call_itself(server, place, port)

    keeper = WebhookRegistrar(transport, place.secret, place.target, policy, show)
    await _begin(keeper)
    running: list[asyncio.Task[None]] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(_stop, running)
        running += [asyncio.create_task(server.follow(resource)) for resource in watched_resources(policy)]
        await server.knows(await _served(transport, say) | (watched_resources(policy).keys() - WATCHED))
        port = await stack.enter_async_context(server.listening(place.host, place.port))
        shown_at.append(port)
        health.server = server
        await _call_itself(server, place, port)
        running.append(asyncio.create_task(keeper.run()))
        settling = asyncio.create_task(keeper.settled.wait())
        await asyncio.wait([settling, *running], return_when=asyncio.FIRST_COMPLETED)
        if settling.done():
            say(f"webhooks: ready on {place.host}:{port}, called as {place.target.name}")
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        settling.cancel()
        await asyncio.gather(*(task for task in running if task.done()))


async def _stop(running: list[asyncio.Task[None]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _begin(keeper: WebhookRegistrar) -> None:
    """Replicas that start together meet at the Secret: who comes second reads what the first one wrote."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await keeper.begin()
        except WebhookSetupError:
            await asyncio.sleep(_PAUSE_S)
    return await keeper.begin()


async def _call_itself(server: WebhookServer, place: WebhookServerConfig, port: int) -> None:
    problem = ""
    for _ in range(_ATTEMPTS):
        problem = await server.call_itself(place.host, port, place.target.name)
        if not problem:
            return
        await asyncio.sleep(_PAUSE_S)
    raise WebhookSetupError(problem)


async def _served(transport: Transport, say: PrintLine) -> set[APIResource]:
    """What has to be known before the first answer. Without the kinds of queues there are none to know."""
    answer = await transport.request(HTTPRequest("GET", f"/apis/{GROUP}/{VERSION}", "", write_requests.ACCEPT))
    if answer.status == _MISSING:
        say("webhooks: Queue and PodGroup are not served here yet; `headgate install-crds` brings them")
        return {NAMESPACES}
    return {NAMESPACES, QUEUES, POD_GROUPS}


def own_username() -> Generator[HTTPRequest, HTTPResponse, str]:
    """The name that the server knows us by; empty if it does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = yield HTTPRequest("POST", path, "", write_requests.JSON, msgspec.json.encode(body))
    if not answer.ok:
        return ""
    return str(wire_json.decode(answer.body)["status"]["userInfo"].get("username", ""))
