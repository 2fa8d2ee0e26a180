"""The annotation ``scheduling-gated-by`` (Kueue's KEP-6915) on owners of pods, for example on a Deployment.

The annotation is read from the topmost managed ancestor each time and never copied to the pod. Gated pods are indexed
by all their owners, so that the removal of an annotation enqueues only the pods of that owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.jobs.framework.management import AncestorKinds, UnknownAncestor, managed_ancestor
from headgate.jobs.framework.scheduling_gated_by import gated_by
from headgate.jobs.pods.pod_cache import Key
from headgate.kube.api_resources import APIResource

Object = dict[str, Any]
ObjectRef = tuple[APIResource, str, str]

FIELDS: Final = frozenset({"metadata.annotations", "metadata.labels", "metadata.ownerReferences"})


class AncestorGates:
    """The possible owners of pods and their owners, and the gated pods of each. ``known``: the kinds that can be
    owners."""

    def __init__(self, known: AncestorKinds, *, manages_all: bool) -> None:
        self._known: Final = known
        self._manages_all: Final = manages_all
        self._objects: Final[dict[ObjectRef, Object]] = {}
        self._waiting_pods: Final[dict[ObjectRef, dict[Key, None]]] = {}

    @property
    def resources(self) -> frozenset[APIResource]:
        return frozenset(self._known.values())

    def put(self, resource: APIResource, obj: Object) -> Iterable[Key]:
        ref = resource, obj["metadata"]["namespace"], obj["metadata"]["name"]
        before = self._objects.get(ref)
        self._objects[ref] = obj
        is_gate_unchanged = before is not None and gated_by(before) == gated_by(obj)
        return () if is_gate_unchanged else self._waiting_pods.pop(ref, ())

    def remove(self, resource: APIResource, namespace: str, name: str) -> Iterable[Key]:
        self._objects.pop((resource, namespace, name), None)
        return self._waiting_pods.pop((resource, namespace, name), ())

    def gate_of_pod(self, pod: Object, key: Key) -> str | UnknownAncestor | None:
        """The gate of the pod or of its managed ancestor; None if there is none; :class:`UnknownAncestor` if that is
        not known yet. A pod with a gate is enqueued when the annotation of one of its owners changes."""
        own = gated_by(pod)
        if own is not None:
            return own
        visited: list[ObjectRef] = []

        def find(resource: APIResource, namespace: str, name: str) -> Object | None:
            visited.append((resource, namespace, name))
            return self._objects.get(visited[-1])

        found = managed_ancestor(pod, find, self._known, manages_all=self._manages_all)
        gate = found if isinstance(found, UnknownAncestor) else gated_by(found) if found is not None else None
        if gate is not None:
            for ref in visited:
                self._waiting_pods.setdefault(ref, {})[key] = None
        return gate
