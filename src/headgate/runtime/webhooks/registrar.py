"""Keeps the objects of the webhooks up to date: the Secret with the certificates, the entries of this replica in the
webhook configurations, and the conversion webhook in CustomResourceDefinitions.

It reconciles after a change of one of them and every ten minutes. Each reconcile reads the objects and writes only what
differs, so all replicas may do it. While the Secret has the annotation of an uninstallation, configurations and
definitions are left alone. A Secret that is missing or invalid is created again, a certificate that expires soon is
renewed, changed entries are restored. Entries that belong to other replicas stay (``configurations.py``). Failures are
retried with back-off.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.client import write_requests
from headgate.client.backoff import APIServerBackoff
from headgate.client.io.informer import Informer, InformerEvent, ListSynced
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from headgate.kube.serializer import wire_json
from headgate.runtime.webhooks.api_server_features import APIServerFeatures, read_features
from headgate.runtime.webhooks.certificates import TYPE, WebhookCertificates, ensure_certificates
from headgate.runtime.webhooks.configurations import (
    MUTATING,
    NAME,
    VALIDATING,
    Component,
    merge_configuration,
    own_entries,
)
from headgate.runtime.webhooks.conversions import NAMES, SELECTOR, with_conversion
from headgate.runtime.webhooks.target import WebhookTarget

Object = dict[str, Any]

SECRETS: Final = APIResource("", "v1", "secrets", namespaced=True)
STATE: Final = "headgate.dev/webhooks"
"""The annotation of the Secret by which ``headgate uninstall`` says that the configurations are deleted permanently."""
REMOVED: Final = "removed"
_RESYNC_S: Final = 600.0
_PROPAGATION_S: Final = 2.0
"""How long API servers need to see a changed configuration, and so to trust an added CA."""
_PAUSE_S: Final = 0.5
_SETTLE_S: Final = 0.2
"""After a change, how long a replica waits before it reads: its watches of queues and namespaces show by then what led
another replica to write, so the replicas agree."""
_NOT_FOUND, _CONFLICT = 404, 409
_SECRET_LABELS: Final = {"app.kubernetes.io/part-of": "headgate"}
"""By which `headgate uninstall` knows a Secret that a replica created."""
_log: Final = logging.getLogger(__name__)


class WebhookSetupError(Exception):
    """The objects of the webhooks could not be read or written; the text says why."""


class WebhookConflict(WebhookSetupError):
    """Another client changed an object after it was read."""


class WebhookRegistrar:
    """``use_certificates`` makes the server use the certificates. ``scope`` returns which namespaces and queues opt in
    now; :meth:`scope_changed` must be called when that changes. ``registered`` is set after the first complete
    reconcile."""

    def __init__(
        self,
        transport: Transport,
        secret: tuple[str, str],
        target: WebhookTarget,
        settings: AdmissionSettings,
        use_certificates: Callable[[WebhookCertificates], Awaitable[None]],
        scope: Callable[[], ReviewScope] = ReviewScope,
    ) -> None:
        self._transport = transport
        self._scope = scope
        self._written: set[tuple[APIResource, Component]] = set()  # since this replica started
        self._left_alone: set[tuple[APIResource, Component]] = set()
        self._converted: set[str] = set()
        self._namespace, self._name = secret
        self._target = target
        self._settings = settings
        self._use_certificates = use_certificates
        self._in_use: WebhookCertificates | None = None
        self._is_removed = False
        self._changed = asyncio.Event()
        self.registered: Final = asyncio.Event()
        self._problem = ""  # why the last reconcile failed

    async def prepare(self) -> None:
        """Prepares the certificates, but not the configurations. Raises :class:`WebhookSetupError`."""
        self._in_use = await self._ensure_secret()
        await self._use_certificates(self._in_use)

    def registration_problem(self) -> str:
        """Why the configurations have not been written yet; empty if they have been."""
        if self.registered.is_set():
            return ""
        return f"the webhook configurations are not written yet{self._problem and f': {self._problem}'}"

    def scope_changed(self) -> None:
        """A namespace or a queue opts in or out, so the conditions of the webhooks may change."""
        self._changed.set()

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
        """Updates all objects once. The configurations trust a new CA before a replica uses a certificate that this CA
        signed. Returns the problem with the conversion webhook; such a problem does not stop the rest."""
        certificates = await self._ensure_secret()
        problem = ""
        if not self._is_removed:
            features = await read_features(self._transport)
            for resource in (MUTATING, VALIDATING):
                await self._configure(resource, certificates.bundle, features)
            if not features.converts:
                problem = await self._convert(certificates.bundle)
        if certificates != self._in_use:
            if self._in_use is not None and certificates.bundle != self._in_use.bundle:
                await asyncio.sleep(_PROPAGATION_S)
            await self._use_certificates(certificates)
            self._in_use = certificates
            _log.debug("webhooks: a new certificate is in use")
        return problem

    async def _work(self) -> None:
        backoff = APIServerBackoff()
        while True:
            self._changed.clear()
            try:
                problem = await self.reconcile()
                self.registered.set()
                if problem:
                    raise WebhookSetupError(problem)
                self._problem = ""
                backoff.reset()
                wait_s = _RESYNC_S
            except (WebhookSetupError, Unreachable) as error:
                # Two replicas that start together write at the same time; the next attempt reads what the other wrote.
                level = logging.DEBUG if isinstance(error, WebhookConflict) and not self._problem else logging.WARNING
                self._problem = str(error)
                _log.log(level, "webhooks: %s", error)
                connected = error.connected if isinstance(error, Unreachable) else True
                wait_s = backoff.next(random.random(), connected=connected)
            await asyncio.sleep(_PAUSE_S)  # a replica of an older release may restore its own entries at each change
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
                await asyncio.sleep(_SETTLE_S)
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
        annotations = {} if found is None else found["metadata"].get("annotations") or {}
        self._is_removed = annotations.get(STATE) == REMOVED
        data = {} if found is None else found.get("data") or {}
        certificates = ensure_certificates(data, self._target, datetime.datetime.now(datetime.UTC), self._in_use)
        if certificates.data() != data:
            metadata = {"name": self._name, "namespace": self._namespace, "labels": dict(_SECRET_LABELS)}
            new_secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE}
            await self._put(SECRETS, self._namespace, found, {**(found or new_secret), "data": certificates.data()})
        return certificates

    async def _configure(self, resource: APIResource, bundle: bytes, features: APIServerFeatures) -> None:
        own = own_entries(
            resource,
            self._settings,
            self._target,
            bundle,
            self._scope(),
            with_conditions=features.match_conditions,
        )
        starting = [each.component for each in own if (resource, each.component) not in self._written]
        found = await self._get(resource, "", NAME)
        merged = merge_configuration(resource, found, own, starting)
        if merged.wanted is not None:
            await self._put(resource, "", found, merged.wanted)
            if found is not None:
                _log.debug(
                    "webhooks: the entries of this replica in %s %s differed and are restored", resource.plural, NAME
                )
        for each in own:
            place = resource, each.component
            self._written.add(place)
            if each.component not in merged.left_alone:
                self._left_alone.discard(place)
            elif place not in self._left_alone:
                self._left_alone.add(place)
                _log.warning(
                    "webhooks: a replica with other settings that started later has written the entries of %s in %s %s;"
                    " this replica does not change them. Run all replicas with the same options",
                    each.component,
                    resource.plural,
                    NAME,
                )

    async def _convert(self, bundle: bytes) -> str:
        """Sets the conversion webhook. Returns the problem, if there is one."""
        try:
            for name in NAMES:
                found = await self._get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
                is_starting = name not in self._converted
                wanted = (
                    None if found is None else with_conversion(found, self._target, bundle, is_starting=is_starting)
                )
                if wanted is not None:
                    await self._put(CUSTOM_RESOURCE_DEFINITIONS, "", found, wanted)
                    _log.debug("webhooks: this server converts the versions of %s", name)
                if found is not None:
                    self._converted.add(name)
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
            raise WebhookConflict(f"{resource.plural} {name} was changed by another client at the same time")
        if not response.ok:
            hint = "; create its namespace, or pass another --webhook-secret" if response.status == _NOT_FOUND else ""
            text = f"{response.status}: {message_of(response)}{hint}"
            raise WebhookSetupError(f"{resource.plural} {name} cannot be written: {text}")
