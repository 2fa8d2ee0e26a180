"""Keeps the webhooks' objects on the cluster up to date: the Secret with their certificates, their configurations, and
the conversion of definitions.

It checks when one of them changed and periodically; each check reads the objects and writes only what differs, so all
replicas may do it. A Secret that is missing or invalid is created again, a certificate that expires soon is renewed, a
changed configuration is restored. Failures are retried with back-off.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate.admission.policy import AdmissionPolicy
from headgate.client import write_requests
from headgate.client.backoff import Backoff
from headgate.client.io.informer import Informer, InformerEvent, ListSynced
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from headgate.kube.serializer import wire_json
from headgate.runtime.webhooks.certificates import TYPE, WebhookCertificates, ensure_certificates
from headgate.runtime.webhooks.configurations import (
    MUTATING,
    NAME,
    VALIDATING,
    desired_webhooks,
    is_up_to_date,
    new_configuration,
    repaired_configuration,
)
from headgate.runtime.webhooks.conversions import NAMES, SELECTOR, converts_in_process, with_conversion
from headgate.runtime.webhooks.target import WebhookTarget

Object = dict[str, Any]

SECRETS: Final = APIResource("", "v1", "secrets", namespaced=True)
_RESYNC_S: Final = 600.0
_PROPAGATION_S: Final = 2.0
"""After this time API servers, which watch the configurations, trust an added authority."""
_PAUSE_S: Final = 0.5
_NOT_FOUND, _CONFLICT = 404, 409
_log: Final = logging.getLogger(__name__)


class WebhookSetupError(Exception):
    """A check could not be completed; the text says why."""


class WebhookRegistrar:
    """``use_certificates`` makes the server use the certificates. ``registered`` is set after the first complete
    check."""

    def __init__(
        self,
        transport: Transport,
        secret: tuple[str, str],
        target: WebhookTarget,
        policy: AdmissionPolicy,
        use_certificates: Callable[[WebhookCertificates], Awaitable[None]],
    ) -> None:
        self._transport = transport
        self._namespace, self._name = secret
        self._target = target
        self._policy = policy
        self._use_certificates = use_certificates
        self._in_use: WebhookCertificates | None = None
        self._changed = asyncio.Event()
        self.registered: Final = asyncio.Event()

    async def prepare(self) -> None:
        """Prepares the certificates, but not the configurations. Raises :class:`WebhookSetupError`."""
        self._in_use = await self._ensure_secret()
        await self._use_certificates(self._in_use)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, namespace, name in (
                (SECRETS, self._namespace, self._name),
                (MUTATING, "", NAME),
                (VALIDATING, "", NAME),
            ):
                group.create_task(self._watch(resource, namespace, fieldSelector=f"metadata.name={name}"))
            group.create_task(self._watch(CUSTOM_RESOURCE_DEFINITIONS, "", labelSelector=SELECTOR))
            group.create_task(self._work())

    async def reconcile(self) -> str:
        """One check. The configurations get a new authority before any replica uses a certificate that it signed.
        Returns a problem with the conversion, which does not stop the rest."""
        certificates = await self._ensure_secret()
        for resource in (MUTATING, VALIDATING):
            await self._configure(resource, certificates.bundle)
        problem = await self._convert(certificates.bundle)
        if certificates != self._in_use:
            if self._in_use is not None and certificates.bundle != self._in_use.bundle:
                await asyncio.sleep(_PROPAGATION_S)
            await self._use_certificates(certificates)
            self._in_use = certificates
            _log.info("webhooks: a new certificate is in use")
        return problem

    async def _work(self) -> None:
        backoff = Backoff()
        while True:
            self._changed.clear()
            try:
                problem = await self.reconcile()
                self.registered.set()
                if problem:
                    raise WebhookSetupError(problem)
                backoff.reset()
                wait_s = _RESYNC_S
            except (WebhookSetupError, Unreachable) as error:
                _log.warning("webhooks: %s", error)
                wait_s = backoff.next(random.random())
            await asyncio.sleep(_PAUSE_S)  # replicas with different options must not overwrite each other at full speed
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _watch(self, resource: APIResource, namespace: str, **query: str) -> None:
        def handle(event: InformerEvent) -> None:
            if not isinstance(event, ListSynced):
                self._changed.set()

        await Informer(
            self._transport,
            resource.collection_path(namespace),
            handle,
            jitter=random.random,
            sleep=asyncio.sleep,
            query=query,
            report=lambda problem: _log.warning("webhooks: %s", problem),
        ).run()

    async def _ensure_secret(self) -> WebhookCertificates:
        """The content of the Secret, which is created or renewed if necessary."""
        found = await self._get(SECRETS, self._namespace, self._name)
        data = {} if found is None else found.get("data") or {}
        certificates = ensure_certificates(data, self._target, datetime.datetime.now(datetime.UTC), self._in_use)
        if certificates.data() != data:
            metadata = {"name": self._name, "namespace": self._namespace}
            new_secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE}
            await self._put(SECRETS, self._namespace, found, {**(found or new_secret), "data": certificates.data()})
        return certificates

    async def _configure(self, resource: APIResource, bundle: bytes) -> None:
        webhooks = desired_webhooks(resource, self._policy, self._target, bundle)
        found = await self._get(resource, "", NAME)
        if found is None:
            await self._put(resource, "", None, new_configuration(resource, webhooks))
        elif not is_up_to_date(found, webhooks):
            await self._put(resource, "", found, repaired_configuration(found, webhooks))
            _log.info("webhooks: the %s %s was changed and is repaired", resource.plural, NAME)

    async def _convert(self, bundle: bytes) -> str:
        """Sets the conversion webhook, unless the server converts by itself. Returns the problem, if there is one."""
        if await converts_in_process(self._transport):
            return ""
        try:
            for name in NAMES:
                found = await self._get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
                wanted = None if found is None else with_conversion(found, self._target, bundle)
                if wanted is not None:
                    await self._put(CUSTOM_RESOURCE_DEFINITIONS, "", found, wanted)
                    _log.info("webhooks: versions of %s are converted here", name)
        except WebhookSetupError as problem:
            return str(problem)
        return ""

    async def _get(self, resource: APIResource, namespace: str, name: str) -> Object | None:
        response = await self._transport.request(
            HTTPRequest("GET", resource.object_path(namespace, name), "", write_requests.ACCEPT)
        )
        if response.status == _NOT_FOUND:
            return None
        if not response.ok:
            raise WebhookSetupError(
                f"{resource.plural} {name} cannot be read: {response.status}: {message_of(response)}"
            )
        found: Object = wire_json.decode(response.body)
        return found

    async def _put(self, resource: APIResource, namespace: str, found: Object | None, wanted: Object) -> None:
        """Replaces only the state that was read: another replica may have written since."""
        name = wanted["metadata"]["name"]
        if found is None:
            request = write_requests.create(resource, namespace, wanted)
        else:
            body = msgspec.json.encode(wanted)
            request = HTTPRequest("PUT", resource.object_path(namespace, name), "", write_requests.JSON, body)
        response = await self._transport.request(request)
        if response.status == _CONFLICT:
            raise WebhookSetupError(f"{resource.plural} {name} was changed by another client at the same time")
        if not response.ok:
            hint = "; create it, or name another Secret by --webhook-secret" if response.status == _NOT_FOUND else ""
            text = f"{response.status}: {message_of(response)}{hint}"
            raise WebhookSetupError(f"{resource.plural} {name} cannot be written: {text}")
