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
    """``workloads``: as the server showed them, by namespace/name. ``revision``: of them, and of all the rest if the
    server can. ``unseen``: resources of which nothing could be listed, in the namespace that was asked for, either."""

    engine: QuotaEngine
    workloads: Mapping[str, Wire]
    revision: str
    gaps: tuple[UnavailableResource, ...] = ()
    unseen: frozenset[APIResource] = frozenset()

    def lacks(self, resource: APIResource) -> bool:
        """Whether a list could not be had that is there, as far as is known."""
        return lacks(self.gaps, resource)

    def sees(self, resource: APIResource) -> bool:
        """Whether those of the namespace that was asked for are known, if not all of them."""
        return resource not in self.unseen

    def why_unseen(self, resource: APIResource) -> str:
        """In words, for :meth:`sees`."""
        return next((gap.line for gap in reversed(self.gaps) if gap.plural == resource.plural), "")

    @property
    def is_absent(self) -> bool:
        """Whether the server does not know Kueue's kinds at all."""
        return any(gap.plural == WORKLOADS.plural and gap.is_absent for gap in self.gaps)

    @property
    def knows_places(self) -> bool:
        """Whether the engine has heard of everything that it decides by. Without, say, the flavors it would find that
        every ClusterQueue is stopped."""
        return not any(map(self.lacks, (WORKLOADS, *_KINDS)))


def inspect_quota(namespace: str, now_s: float) -> Generator[HTTPRequest, HTTPResponse, QuotaInspection]:
    """``namespace``: where to look for namespaced objects if all namespaces may not be listed; empty: nowhere."""
    engine = QuotaEngine(QuotaSettings())
    gaps: list[UnavailableResource] = []
    unseen: set[APIResource] = set()
    workloads: list[Wire] = []
    revision = ""
    tellers = _event_handlers(engine)
    for resource in (WORKLOADS, *_KINDS):
        listed, missing = yield from _list(resource, revision, namespace)
        gaps += missing
        if isinstance(listed, ListRefused):
            unseen.add(resource)
            if resource is WORKLOADS and any(gap.is_absent for gap in missing):
                break  # the server does not serve Kueue's kinds
            continue
        revision = revision or listed.revision
        if resource is WORKLOADS:
            workloads = listed.items
            continue
        for wire in listed.items:
            tellers[resource](wire, now_s)
    for wire in workloads:
        engine.workload_applied(wire, now_s)
    known = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in workloads}
    return QuotaInspection(engine, known, revision, tuple(gaps), frozenset(unseen))


def _list(
    resource: APIResource, revision: str, namespace: str
) -> Generator[HTTPRequest, HTTPResponse, tuple[ListResult[Wire] | ListRefused, list[UnavailableResource]]]:
    """Of all namespaces, or else of this one; and what is missing of it."""
    found = yield from list_at(resource, revision)
    if not isinstance(found, ListRefused):
        return found, []
    gaps = [unavailable_resource(resource, found)]
    if found.status != FORBIDDEN or not namespace or not resource.namespaced:
        return found, gaps
    here = yield from list_at(resource, revision, namespace)
    if isinstance(here, ListRefused):
        gaps.append(unavailable_resource(resource, here, namespace))
    return here, gaps


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
"""What the engine is told of before the workloads, in this order."""


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
