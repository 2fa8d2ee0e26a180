"""The finalizer of what quota stands on: no ClusterQueue goes while somebody holds quota in it, and no flavor or
admission check while a ClusterQueue names it.

Here it is known who has the finalizer and whether he still needs it; the controller hears and writes. A LocalQueue has
none, as in Kueue: it is a way to a ClusterQueue, and nobody holds anything of it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube.resource import Resource
from headgate.kube.revisions import revision_of
from headgate.owners.effects import Answer, Patch
from headgate.quota import names
from headgate.quota.engine import Engine
from headgate.quota.kinds.names import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS
from headgate.quota.serving.census import Census

Object = dict[str, Any]
GUARDED: Final = (CLUSTER_QUEUES, RESOURCE_FLAVORS, ADMISSION_CHECKS)


class Guarded(msgspec.Struct, frozen=True):
    """Something that has the finalizer, or should have it."""

    resource: Resource
    name: str


class Guards:
    def __init__(self, engine: Engine, census: Census) -> None:
        self._engine: Final = engine
        self._census: Final = census
        self._objects: Final[dict[Guarded, Object]] = {}
        self._leaving: Final[dict[Guarded, None]] = {}

    def put(self, resource: Resource, obj: Object) -> Guarded:
        guarded = Guarded(resource, obj["metadata"]["name"])
        self._objects[guarded] = obj
        if obj["metadata"].get("deletionTimestamp"):
            self._leaving[guarded] = None
        else:
            self._leaving.pop(guarded, None)
        return guarded

    def remove(self, resource: Resource, name: str) -> None:
        self._objects.pop(Guarded(resource, name), None)
        self._leaving.pop(Guarded(resource, name), None)

    def leaving(self) -> list[Guarded]:
        """Those who may go as soon as nobody needs them."""
        return list(self._leaving)

    def next(self, guarded: Guarded) -> Patch | None:
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

    def answered(self, guarded: Guarded, answer: Answer) -> None:
        """What the server answered counts as heard, unless it has been told that it is gone."""
        known = self._objects.get(guarded)
        if known is None or revision_of(answer.body) < revision_of(known):
            return  # what the watch told meanwhile is newer
        metadata = answer.body["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.remove(guarded.resource, guarded.name)
        else:
            self.put(guarded.resource, answer.body)

    def is_used(self, guarded: Guarded) -> bool:
        world, name = self._engine.world, guarded.name
        if guarded.resource == CLUSTER_QUEUES:
            # Who was promised quota a moment ago holds it, too, though the server does not say so yet.
            held = self._engine.book.held_in(name)
            return bool(held) or self._census.counts(("cluster queue", name)).holding > 0
        is_flavor = guarded.resource == RESOURCE_FLAVORS
        return bool(world.queues_of_flavor(name) if is_flavor else world.queues_of_check(name))
