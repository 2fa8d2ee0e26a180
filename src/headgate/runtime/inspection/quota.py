"""Kueue's queues and workloads at one revision, rebuilt from lists, for ``headgate workloads`` and ``explain``.

A generator that yields requests and is sent responses. Workloads are listed first, the other lists at their revision.
The engine gets the objects and never decides; it provides the quota reservations, the positions in a queue and what is
missing. A refused list is reported as unavailable. A user who may list only one namespace sees the workloads and
LocalQueues of that namespace, but neither positions nor amounts: those depend on the other namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import msgspec

from headgate.client.pager import ListRefused, ListResponse, ListResult
from headgate.client.permissions import FORBIDDEN
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.gated_jobs import condition_message
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, RUNTIME_CLASSES, APIResource
from headgate.kube.serializer import wire_json
from headgate.quota.api.admission_checks import is_check_active
from headgate.quota.engine import QuotaEngine, QuotaSettings
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from headgate.runtime.inspection.queues import list_at
from headgate.runtime.inspection.unavailable import UnavailableResource, lacks, unavailable_resource

Wire = dict[str, Any]

_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


class QuotaInspection(msgspec.Struct, frozen=True):
    """``workloads``: wire objects by namespace/name. ``revision``: of the workloads, and of the other lists if the
    server still has it. ``unseen``: resources that could not be listed, not even in the given namespace.
    ``gated_jobs``: by LocalQueue, the message of its condition GatedJobs."""

    engine: QuotaEngine
    workloads: Mapping[str, Wire]
    revision: str
    unavailable: tuple[UnavailableResource, ...] = ()
    unseen: frozenset[APIResource] = frozenset()
    gated_jobs: Mapping[str, str] = {}

    def lacks(self, resource: APIResource) -> bool:
        """Whether the list of an existing resource is missing."""
        return lacks(self.unavailable, resource)

    def has_listed(self, resource: APIResource) -> bool:
        """Whether the resource was listed, at least in the given namespace."""
        return resource not in self.unseen

    def unavailable_reason(self, resource: APIResource) -> str:
        """Why :meth:`has_listed` is false."""
        return next((each.line for each in reversed(self.unavailable) if each.plural == resource.plural), "")

    @property
    def is_absent(self) -> bool:
        """Whether the server does not serve Kueue's kinds."""
        return any(each.plural == WORKLOADS.plural and each.is_absent for each in self.unavailable)

    @property
    def knows_positions(self) -> bool:
        """Whether the engine has all objects that it needs. Without the flavors, for example, every ClusterQueue would
        look inactive."""
        return not any(map(self.lacks, (WORKLOADS, *_KINDS)))


def inspect_quota(namespace: str, now_s: float) -> Generator[HTTPRequest, HTTPResponse, QuotaInspection]:
    """``namespace``: the namespace to list if the user may not list all namespaces; empty for none."""
    engine = QuotaEngine(QuotaSettings())
    unavailable: list[UnavailableResource] = []
    unseen: set[APIResource] = set()
    workloads: list[Wire] = []
    gated_jobs: dict[str, str] = {}
    revision = ""
    handlers = _event_handlers(engine)
    for resource in (WORKLOADS, *_KINDS):
        listed, missing = yield from _list(resource, revision, namespace)
        unavailable += missing
        if isinstance(listed, ListRefused):
            unseen.add(resource)
            if resource is WORKLOADS and any(each.is_absent for each in missing):
                break  # the server does not serve Kueue's kinds
            continue
        revision = revision or listed.revision
        if resource is WORKLOADS:
            workloads = listed.items
            continue
        for wire in listed.items:
            handlers[resource](wire, now_s)
        if resource is LOCAL_QUEUES:
            gated_jobs = {_key_of(wire): message for wire in listed.items if (message := condition_message(wire))}
    for wire in workloads:
        engine.workload_applied(wire, now_s)
    known = {_key_of(each): each for each in workloads}
    return QuotaInspection(engine, known, revision, tuple(unavailable), frozenset(unseen), gated_jobs)


def _key_of(wire: Wire) -> str:
    return f"{wire['metadata']['namespace']}/{wire['metadata']['name']}"


def _list(
    resource: APIResource, revision: str, namespace: str
) -> Generator[HTTPRequest, HTTPResponse, tuple[ListResult[Wire] | ListRefused, list[UnavailableResource]]]:
    """Lists all namespaces, or else this one; also returns what could not be listed."""
    found = yield from list_at(resource, revision)
    if not isinstance(found, ListRefused):
        return found, []
    unavailable = [unavailable_resource(resource, found)]
    if found.status != FORBIDDEN or not namespace or not resource.namespaced:
        return found, unavailable
    in_namespace = yield from list_at(resource, revision, namespace)
    if isinstance(in_namespace, ListRefused):
        unavailable.append(unavailable_resource(resource, in_namespace, namespace))
    return in_namespace, unavailable


_KINDS: Final = (
    NAMESPACES,
    LIMIT_RANGES,
    RUNTIME_CLASSES,
    RESOURCE_FLAVORS,
    ADMISSION_CHECKS,
    COHORTS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
)
"""The resources whose objects the engine receives before the workloads, in this order."""


def apply_object(engine: QuotaEngine, resource: APIResource, wire: Wire, now_s: float) -> None:
    """Adds an object that does not exist yet. Resources that the engine does not use are ignored."""
    handler = _event_handlers(engine).get(resource)
    if handler is not None:
        handler(wire, now_s)


def _event_handlers(engine: QuotaEngine) -> dict[APIResource, Callable[[Wire, float], object]]:
    def namespace(wire: Wire, now_s: float) -> object:
        return engine.namespace_applied(wire["metadata"]["name"], wire["metadata"].get("labels") or {}, now_s)

    def check(wire: Wire, now_s: float) -> object:
        return engine.check_applied(wire["metadata"]["name"], is_check_active(wire), now_s)

    return {
        NAMESPACES: namespace,
        LIMIT_RANGES: engine.limit_range_applied,
        RUNTIME_CLASSES: engine.runtime_class_applied,
        RESOURCE_FLAVORS: engine.flavor_applied,
        ADMISSION_CHECKS: check,
        COHORTS: engine.cohort_applied,
        CLUSTER_QUEUES: engine.cluster_queue_applied,
        LOCAL_QUEUES: engine.local_queue_applied,
    }
