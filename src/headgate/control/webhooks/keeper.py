"""Keeps the cluster's side of the webhooks right: the Secret with their certificates, their configurations, and
what definitions say about conversion.

It looks when one of them changed and now and then; each look reads what is there and writes only what differs, so
replicas may all do it. A Secret that is gone or cannot be read is made anew, a certificate that ends soon is renewed, a
configuration that somebody changed is repaired. What failed is tried again, ever more slowly.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate.admission.policy import Policy
from headgate.client import writes
from headgate.client.backoff import Backoff
from headgate.client.informer import Event, Informer, Synced
from headgate.client.outcome import message_of
from headgate.client.transport import Request, Transport, Unreachable
from headgate.control.webhooks.certificates import TYPE, Kept, settled
from headgate.control.webhooks.configurations import MUTATING, NAME, VALIDATING, desired, is_right, made, repaired
from headgate.control.webhooks.conversions import NAMES, SELECTOR, converts_itself, told
from headgate.control.webhooks.target import Target
from headgate.kube import wire_json
from headgate.kube.resource import CUSTOM_RESOURCE_DEFINITIONS, Resource

Object = dict[str, Any]

SECRETS: Final = Resource("", "v1", "secrets", namespaced=True)
_LOOK_EVERY_S: Final = 600.0
_NOTICED_S: Final = 2.0
"""API servers follow configurations by a watch: by then they believe an authority that was added."""
_PAUSE_S: Final = 0.5
_MISSING, _CONFLICT = 404, 409
_log: Final = logging.getLogger(__name__)


class Setback(Exception):
    """A look could not be finished; the text says what stood in the way."""


class Keeper:
    """``show`` lets the server show a certificate from now on, and returns when it does. ``settled`` is set once all
    was right for the first time."""

    def __init__(
        self,
        transport: Transport,
        secret: tuple[str, str],
        target: Target,
        policy: Policy,
        show: Callable[[Kept], Awaitable[None]],
    ) -> None:
        self._transport = transport
        self._namespace, self._name = secret
        self._target = target
        self._policy = policy
        self._show = show
        self._shown: Kept | None = None
        self._stirred = asyncio.Event()
        self.settled: Final = asyncio.Event()

    async def begin(self) -> None:
        """Certificates are there and shown; configurations are not touched yet. Raises :class:`Setback`."""
        self._shown = await self._hold()
        await self._show(self._shown)

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, namespace, name in (
                (SECRETS, self._namespace, self._name),
                (MUTATING, "", NAME),
                (VALIDATING, "", NAME),
            ):
                group.create_task(self._watch(resource, namespace, fieldSelector=f"metadata.name={name}"))
            group.create_task(self._watch(CUSTOM_RESOURCE_DEFINITIONS, "", labelSelector=SELECTOR))
            group.create_task(self._work())

    async def look(self) -> str:
        """Once. The configurations name a new authority before anybody shows what it signed. What could not be said
        about conversion stops nothing else; it is returned."""
        kept = await self._hold()
        for resource in (MUTATING, VALIDATING):
            await self._configure(resource, kept.bundle)
        problem = await self._convert(kept.bundle)
        if kept != self._shown:
            if self._shown is not None and kept.bundle != self._shown.bundle:
                await asyncio.sleep(_NOTICED_S)
            await self._show(kept)
            self._shown = kept
            _log.info("webhooks: a new certificate is shown")
        return problem

    async def _work(self) -> None:
        backoff = Backoff()
        while True:
            self._stirred.clear()
            try:
                problem = await self.look()
                self.settled.set()
                if problem:
                    raise Setback(problem)
                backoff.reset()
                wait_s = _LOOK_EVERY_S
            except (Setback, Unreachable) as setback:
                _log.warning("webhooks: %s", setback)
                wait_s = backoff.next(random.random())
            await asyncio.sleep(_PAUSE_S)  # replicas that were told different things do not fight at full speed
            try:
                async with asyncio.timeout(wait_s):
                    await self._stirred.wait()
            except TimeoutError:
                pass

    async def _watch(self, resource: Resource, namespace: str, **query: str) -> None:
        def heard(event: Event) -> None:
            if not isinstance(event, Synced):
                self._stirred.set()

        await Informer(
            self._transport,
            resource.collection(namespace),
            heard,
            jitter=random.random,
            sleep=asyncio.sleep,
            query=query,
            report=lambda problem: _log.warning("webhooks: %s", problem),
        ).run()

    async def _hold(self) -> Kept:
        """What the Secret holds, after it was made or renewed if need be."""
        found = await self._get(SECRETS, self._namespace, self._name)
        data = {} if found is None else found.get("data") or {}
        kept = settled(data, self._target, datetime.datetime.now(datetime.UTC), self._shown)
        if kept.data() != data:
            metadata = {"name": self._name, "namespace": self._namespace}
            fresh: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE}
            await self._put(SECRETS, self._namespace, found, {**(found or fresh), "data": kept.data()})
        return kept

    async def _configure(self, resource: Resource, bundle: bytes) -> None:
        webhooks = desired(resource, self._policy, self._target, bundle)
        found = await self._get(resource, "", NAME)
        if found is None:
            await self._put(resource, "", None, made(resource, webhooks))
        elif not is_right(found, webhooks):
            await self._put(resource, "", found, repaired(found, webhooks))
            _log.info("webhooks: the %s %s is as it should be again", resource.plural, NAME)

    async def _convert(self, bundle: bytes) -> str:
        """What stood in the way; a server that converts by itself is not told."""
        if await converts_itself(self._transport):
            return ""
        try:
            for name in NAMES:
                found = await self._get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
                wanted = None if found is None else told(found, self._target, bundle)
                if wanted is not None:
                    await self._put(CUSTOM_RESOURCE_DEFINITIONS, "", found, wanted)
                    _log.info("webhooks: versions of %s are converted here", name)
        except Setback as problem:
            return str(problem)
        return ""

    async def _get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        answer = await self._transport.request(Request("GET", resource.object(namespace, name), "", writes.ACCEPT))
        if answer.status == _MISSING:
            return None
        if not answer.ok:
            raise Setback(f"{resource.plural} {name} cannot be read: {answer.status}: {message_of(answer)}")
        found: Object = wire_json.decode(answer.body)
        return found

    async def _put(self, resource: Resource, namespace: str, found: Object | None, wanted: Object) -> None:
        """Over the state that was read, or not at all: another replica may have been first."""
        name = wanted["metadata"]["name"]
        if found is None:
            request = writes.create(resource, namespace, wanted)
        else:
            body = msgspec.json.encode(wanted)
            request = Request("PUT", resource.object(namespace, name), "", writes.JSON, body)
        answer = await self._transport.request(request)
        if answer.status == _CONFLICT:
            raise Setback(f"{resource.plural} {name} was written by somebody else at the same time")
        if not answer.ok:
            way_out = "; create it, or name another Secret by --webhook-secret" if answer.status == _MISSING else ""
            said = f"{answer.status}: {message_of(answer)}{way_out}"
            raise Setback(f"{resource.plural} {name} cannot be written: {said}")
