"""The ``resource-in-use`` finalizer: protects objects that quota in use depends on.

A ClusterQueue keeps the finalizer while quota is reserved in it; a flavor or an admission check keeps it while a
ClusterQueue names it. This module knows which objects have the finalizer and still need it; the controller watches and
writes. LocalQueues do not get the finalizer, as in Kueue.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import EffectResponse, Patch
from headgate.kube.api_resources import APIResource
from headgate.kube.object_meta import resource_version_of
from headgate.quota import names
from headgate.quota.engine import QuotaEngine
from headgate.quota.kinds.names import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS
from headgate.quota.status.workload_counters import WorkloadCounters

Object = dict[str, Any]
PROTECTED: Final = (CLUSTER_QUEUES, RESOURCE_FLAVORS, ADMISSION_CHECKS)


class ProtectedObject(msgspec.Struct, frozen=True):
    """An object that has the finalizer, or should have it."""

    resource: APIResource
    name: str


class InUseFinalizers:
    def __init__(self, engine: QuotaEngine, counters: WorkloadCounters) -> None:
        self._engine: Final = engine
        self._counters: Final = counters
        self._objects: Final[dict[ProtectedObject, Object]] = {}
        self._terminating: Final[dict[ProtectedObject, None]] = {}

    def put(self, resource: APIResource, obj: Object) -> ProtectedObject:
        protected = ProtectedObject(resource, obj["metadata"]["name"])
        self._objects[protected] = obj
        if obj["metadata"].get("deletionTimestamp"):
            self._terminating[protected] = None
        else:
            self._terminating.pop(protected, None)
        return protected

    def remove(self, resource: APIResource, name: str) -> None:
        self._objects.pop(ProtectedObject(resource, name), None)
        self._terminating.pop(ProtectedObject(resource, name), None)

    def terminating(self) -> list[ProtectedObject]:
        """Deleted objects whose finalizer is removed when they are no longer used."""
        return list(self._terminating)

    def next(self, protected: ProtectedObject) -> Patch | None:
        """The next write for the object, if any."""
        obj = self._objects.get(protected)
        if obj is None:
            return None
        metadata = obj["metadata"]
        known = metadata.get("finalizers") or []
        has_finalizer, is_terminating = names.RESOURCE_IN_USE in known, protected in self._terminating
        if has_finalizer != is_terminating or (is_terminating and self.is_used(protected)):
            return None
        desired = (
            [each for each in known if each != names.RESOURCE_IN_USE]
            if has_finalizer
            else [*known, names.RESOURCE_IN_USE]
        )
        precondition = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": {**precondition, "finalizers": desired or None}}
        return Patch(protected.resource, "", protected.name, body, how="merge")

    def response_received(self, protected: ProtectedObject, response: EffectResponse) -> None:
        """Applies the object of a response, unless the watch has shown a newer version or the deletion."""
        known = self._objects.get(protected)
        if known is None or resource_version_of(response.body) < resource_version_of(known):
            return  # the watch has shown a newer version
        metadata = response.body["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.remove(protected.resource, protected.name)
        else:
            self.put(protected.resource, response.body)

    def is_used(self, protected: ProtectedObject) -> bool:
        cache, name = self._engine.cache, protected.name
        if protected.resource == CLUSTER_QUEUES:
            # The ledger includes assumed admissions, which the server does not show yet.
            held = self._engine.ledger.held_in(name)
            return bool(held) or self._counters.counts(("cluster queue", name)).holding > 0
        is_flavor = protected.resource == RESOURCE_FLAVORS
        return bool(cache.queues_of_flavor(name) if is_flavor else cache.queues_of_check(name))
