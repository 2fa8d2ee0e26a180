"""The objects of the simulated cluster in memory, each version with a revision, and their watchers.

It takes the place of the API server and its watches. Objects are never changed: a write stores a new version and
queues one change for each watcher of the resource; :meth:`ClusterState.deliver` delivers the changes in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from headgate.kube.api_resources import APIResource

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class Change(NamedTuple):
    """``gone``: the object was removed, and ``obj`` is its last version."""

    resource: APIResource
    obj: Object
    gone: bool


Watcher = Callable[[Change], None]


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


class ClusterState:
    def __init__(self) -> None:
        self.revision = 0
        self._objects: dict[APIResource, dict[Key, Object]] = {}
        self._watchers: dict[APIResource, list[Watcher]] = {}
        self._undelivered: deque[Change] = deque()

    def watch(self, resource: APIResource, watcher: Watcher) -> None:
        """Delivers all later changes to the watcher. Watchers are added before the first object."""
        self._watchers.setdefault(resource, []).append(watcher)

    def get(self, resource: APIResource, namespace: str, name: str) -> Object | None:
        return self._objects.get(resource, {}).get((namespace if resource.namespaced else "", name))

    def objects(self, resource: APIResource) -> Mapping[Key, Object]:
        return self._objects.get(resource, {})

    def put(self, resource: APIResource, obj: Object) -> Object:
        """Stores a version of an object, which belongs to the state from then on. Its metadata gets the revision."""
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self._objects.setdefault(resource, {})[key_of(obj)] = obj
        if resource in self._watchers:
            self._undelivered.append(Change(resource, obj, False))
        return obj

    def remove(self, resource: APIResource, obj: Object) -> None:
        self.revision += 1
        gone = self._objects[resource].pop(key_of(obj))
        if resource in self._watchers:
            self._undelivered.append(Change(resource, gone, True))

    def deliver(self) -> bool:
        """Delivers all changes, also those that watchers make meanwhile. Returns whether there were any."""
        changes = self._undelivered
        if not changes:
            return False
        watchers = self._watchers
        while changes:
            change = changes.popleft()
            for watcher in watchers[change.resource]:
                watcher(change)
        return True

    def all_resources(self) -> Iterator[APIResource]:
        return iter(self._objects)
