"""Who holds a pod back from above (KEP-6915): the annotation of the Deployment, say, whose pod it is.

It is read from the topmost managed ancestor each time, and never copied down. Pods that were looked at are remembered
by what stands directly above them and above that, so that a gate which goes wakes just them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.jobs.ancestors import Known, Unsure, managed_ancestor
from headgate.jobs.gating import gate_of
from headgate.jobs.pods.roster import Key
from headgate.kube.resource import Resource

Object = dict[str, Any]
Place = tuple[Resource, str, str]

FIELDS: Final = frozenset({"metadata.annotations", "metadata.labels", "metadata.ownerReferences"})


class Above:
    def __init__(self, known: Known, *, manages_all: bool) -> None:
        self._known: Final = known
        self._manages_all: Final = manages_all
        self._objects: Final[dict[Place, Object]] = {}
        self._askers: Final[dict[Place, dict[Key, None]]] = {}

    @property
    def resources(self) -> frozenset[Resource]:
        return frozenset(self._known.values())

    def put(self, resource: Resource, obj: Object) -> Iterable[Key]:
        place = resource, obj["metadata"]["namespace"], obj["metadata"]["name"]
        before = self._objects.get(place)
        self._objects[place] = obj
        is_same = before is not None and gate_of(before) == gate_of(obj)
        return () if is_same else self._askers.pop(place, ())

    def remove(self, resource: Resource, namespace: str, name: str) -> Iterable[Key]:
        self._objects.pop((resource, namespace, name), None)
        return self._askers.pop((resource, namespace, name), ())

    def held_by(self, pod: Object, key: Key) -> str | Unsure | None:
        """Who holds it back, itself or from above; or why nobody can say."""
        own = gate_of(pod)
        if own is not None:
            return own
        asked: list[Place] = []

        def find(resource: Resource, namespace: str, name: str) -> Object | None:
            asked.append((resource, namespace, name))
            return self._objects.get(asked[-1])

        found = managed_ancestor(pod, find, self._known, manages_all=self._manages_all)
        gate = found if isinstance(found, Unsure) else gate_of(found) if found is not None else None
        if gate is not None:
            for place in asked:
                self._askers.setdefault(place, {})[key] = None
        return gate
