"""The webhooks from beginning to end: certificates, watches, the socket, a call to itself, and only then the
configurations that send an API server here.

``serve`` runs until it is cancelled. Several replicas may do the same at the same time: they share the Secret, write
the same configurations, and each answers whoever reaches it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Final

import msgspec

from headgate.admission.book import WATCHED, watched
from headgate.admission.policy import Policy
from headgate.capacity.names import GROUP, POD_GROUPS, QUEUES, VERSION
from headgate.client import writes
from headgate.client.transport import Request, Response, Transport
from headgate.control.webhooks.certificates import Kept
from headgate.control.webhooks.keeper import Keeper, Setback
from headgate.control.webhooks.shell import WebhookServer
from headgate.control.webhooks.target import Target
from headgate.kube import wire_json
from headgate.kube.resource import NAMESPACES, Resource

Say = Callable[[str], None]

_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.5
_MISSING: Final = 404


class Place(msgspec.Struct, frozen=True):
    """Where API servers find us, where we listen, and the Secret (namespace, name) that replicas share."""

    target: Target
    host: str
    port: int
    secret: tuple[str, str]


class Health:
    """Whether the webhooks of this process work; there may be none yet."""

    def __init__(self) -> None:
        self.server: WebhookServer | None = None

    def problem(self) -> str:
        return "the webhooks have not begun" if self.server is None else self.server.health()


async def serve(transport: Transport, policy: Policy, place: Place, say: Say, health: Health) -> None:
    """Raises :class:`Setback` or ``OSError`` if it cannot begin."""
    server = WebhookServer(transport, policy)
    shown_at: list[int] = []

    async def show(kept: Kept) -> None:
        await server.show(kept)
        for port in shown_at:
            await _prove(server, place, port)

    keeper = Keeper(transport, place.secret, place.target, policy, show)
    await _begin(keeper)
    running: list[asyncio.Task[None]] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(_stop, running)
        running += [asyncio.create_task(server.follow(resource)) for resource in watched(policy)]
        await server.knows(await _served(transport, say) | (watched(policy).keys() - WATCHED))
        port = await stack.enter_async_context(server.listening(place.host, place.port))
        shown_at.append(port)
        health.server = server
        await _prove(server, place, port)
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


async def _begin(keeper: Keeper) -> None:
    """Replicas that start together meet at the Secret: who comes second reads what the first one wrote."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await keeper.begin()
        except Setback:
            await asyncio.sleep(_PAUSE_S)
    return await keeper.begin()


async def _prove(server: WebhookServer, place: Place, port: int) -> None:
    problem = ""
    for _ in range(_ATTEMPTS):
        problem = await server.call_itself(place.host, port, place.target.name)
        if not problem:
            return
        await asyncio.sleep(_PAUSE_S)
    raise Setback(problem)


async def _served(transport: Transport, say: Say) -> set[Resource]:
    """What has to be known before the first answer. Without the kinds of queues there are none to know."""
    answer = await transport.request(Request("GET", f"/apis/{GROUP}/{VERSION}", "", writes.ACCEPT))
    if answer.status == _MISSING:
        say("webhooks: Queue and PodGroup are not served here yet; `headgate install-crds` brings them")
        return {NAMESPACES}
    return {NAMESPACES, QUEUES, POD_GROUPS}


def who_am_i() -> Generator[Request, Response, str]:
    """The name that the server knows us by; empty if it does not say."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = yield Request("POST", path, "", writes.JSON, msgspec.json.encode(body))
    if not answer.ok:
        return ""
    return str(wire_json.decode(answer.body)["status"]["userInfo"].get("username", ""))
