"""Gates of a pod's owners (KEP-6915): the scheduling-gated-by annotation of the Deployment, for example.

The annotation is read from the topmost managed ancestor each time and never copied to the pod. Checked pods are indexed
by their owner and its owner, so that the removal of a gate queues only those pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.jobs.framework.management import AncestorKinds, UnknownAncestor, managed_ancestor
from headgate.jobs.framework.scheduling_gated_by import gate_of
from headgate.jobs.pods.pod_cache import Key
from headgate.kube.api_resources import APIResource

Object = dict[str, Any]
ObjectRef = tuple[APIResource, str, str]

FIELDS: Final = frozenset({"metadata.annotations", "metadata.labels", "metadata.ownerReferences"})


class AncestorGates:
    def __init__(self, known: AncestorKinds, *, manages_all: bool) -> None:
        self._known: Final = known
        self._manages_all: Final = manages_all
        self._objects: Final[dict[ObjectRef, Object]] = {}
        self._askers: Final[dict[ObjectRef, dict[Key, None]]] = {}

    @property
    def resources(self) -> frozenset[APIResource]:
        return frozenset(self._known.values())

    def put(self, resource: APIResource, obj: Object) -> Iterable[Key]:
        place = resource, obj["metadata"]["namespace"], obj["metadata"]["name"]
        before = self._objects.get(place)
        self._objects[place] = obj
        is_same = before is not None and gate_of(before) == gate_of(obj)
        return () if is_same else self._askers.pop(place, ())

    def remove(self, resource: APIResource, namespace: str, name: str) -> Iterable[Key]:
        self._objects.pop((resource, namespace, name), None)
        return self._askers.pop((resource, namespace, name), ())

    def gate_of_pod(self, pod: Object, key: Key) -> str | UnknownAncestor | None:
        """Who holds it back, itself or from above; or why nobody can say."""
        own = gate_of(pod)
        if own is not None:
            return own
        asked: list[ObjectRef] = []

        def find(resource: APIResource, namespace: str, name: str) -> Object | None:
            asked.append((resource, namespace, name))
            return self._objects.get(asked[-1])

        found = managed_ancestor(pod, find, self._known, manages_all=self._manages_all)
        gate = found if isinstance(found, UnknownAncestor) else gate_of(found) if found is not None else None
        if gate is not None:
            for place in asked:
                self._askers.setdefault(place, {})[key] = None
        return gate
