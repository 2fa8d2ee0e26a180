"""The ``resource-in-use`` finalizer: protects objects that quota in use depends on.

A ClusterQueue with reserved quota keeps it, and so does a flavor or an admission check that a ClusterQueue names. This
module knows which objects have the finalizer and still need it; the controller watches and writes. A LocalQueue has
none, as in Kueue: no quota is held in it.
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
    def __init__(self, engine: QuotaEngine, census: WorkloadCounters) -> None:
        self._engine: Final = engine
        self._census: Final = census
        self._objects: Final[dict[ProtectedObject, Object]] = {}
        self._leaving: Final[dict[ProtectedObject, None]] = {}

    def put(self, resource: APIResource, obj: Object) -> ProtectedObject:
        guarded = ProtectedObject(resource, obj["metadata"]["name"])
        self._objects[guarded] = obj
        if obj["metadata"].get("deletionTimestamp"):
            self._leaving[guarded] = None
        else:
            self._leaving.pop(guarded, None)
        return guarded

    def remove(self, resource: APIResource, name: str) -> None:
        self._objects.pop(ProtectedObject(resource, name), None)
        self._leaving.pop(ProtectedObject(resource, name), None)

    def terminating(self) -> list[ProtectedObject]:
        """Those who may go as soon as nobody needs them."""
        return list(self._leaving)

    def next(self, guarded: ProtectedObject) -> Patch | None:
        """What is to be written now."""
        obj = self._objects.get(guarded)
        if obj is None:
            return None
        metadata = obj["metadata"]
        known = metadata.get("finalizers") or []
        has, is_leaving = names.RESOURCE_IN_USE in known, guarded in self._leaving
        if has != is_leaving or (is_leaving and self.is_used(guarded)):
            return None
        wanted = [each for each in known if each != names.RESOURCE_IN_USE] if has else [*known, names.RESOURCE_IN_USE]
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": {**guard, "finalizers": wanted or None}}
        return Patch(guarded.resource, "", guarded.name, body, how="merge")

    def answered(self, guarded: ProtectedObject, answer: EffectResponse) -> None:
        """What the server answered counts as heard, unless it has been told that it is gone."""
        known = self._objects.get(guarded)
        if known is None or resource_version_of(answer.body) < resource_version_of(known):
            return  # the watch has shown a newer version
        metadata = answer.body["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.remove(guarded.resource, guarded.name)
        else:
            self.put(guarded.resource, answer.body)

    def is_used(self, guarded: ProtectedObject) -> bool:
        world, name = self._engine.cache, guarded.name
        if guarded.resource == CLUSTER_QUEUES:
            # Who was promised quota a moment ago holds it, too, though the server does not say so yet.
            held = self._engine.ledger.held_in(name)
            return bool(held) or self._census.counts(("cluster queue", name)).holding > 0
        is_flavor = guarded.resource == RESOURCE_FLAVORS
        return bool(world.queues_of_flavor(name) if is_flavor else world.queues_of_check(name))
