"""The cache of ``admission/`` for writes in the embedded server: it follows the store, including staged writes.

Each lookup reads what changed since the last one, and what was staged then and may have been rolled back: its cost
follows change, not the number of queues. Kinds of which only single objects are read are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headgate.admission.admission_cache import WATCHED, AdmissionCache
from headgate.admission.assumed_resizes import AssumedResizes
from headgate.admission.policy import Object
from headgate.apiserver.registry import stored_objects
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.kube.api_resources import APIResource
from headgate.store import Revision, Store
from headgate.store.item import Compacted


def stored_as(resource: APIResource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


_BY_STORED: Final = {stored_as(resource): resource for resource in WATCHED}


class StoreAdmissionView:
    """A ``View`` (``admission/policy.py``): the cache, and other objects from the store."""

    def __init__(self, cache: AdmissionCache, store: Store) -> None:
        self._cache: Final = cache
        self._store: Final = store

    def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
        if resource in WATCHED:
            return self._cache.get(resource, namespace, name)
        item = self._store.peek(stored_as(resource), namespace if resource.namespaced else "", name)
        return None if item is None else stored_objects.decode(item.data)

    @property
    def queues(self) -> QueueLister:
        return self._cache.queues

    @property
    def resizes(self) -> AssumedResizes:
        return self._cache.resizes

    def tenants(self, queue: str) -> int:
        return self._cache.tenants(queue)


class StoreAdmissionIndex:
    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._cache = AdmissionCache()
        self._seen: Revision | None = None
        self._staged: set[tuple[str, str, str]] = set()

    def view(self) -> StoreAdmissionView:
        """The view of the next writer."""
        committed = self._store.committed
        changed = self._staged if self._seen == committed else self._staged | set(self._changed_keys())
        if self._seen is None:
            changed = set(self._all_keys())
        self._staged = {
            (stored, change.item.namespace, change.item.name)
            for stored in _BY_STORED
            for change in self._store.staged(stored)
        }
        self._seen = committed
        for stored, namespace, name in sorted(changed | self._staged):
            self._read(_BY_STORED[stored], stored, namespace, name)
        return StoreAdmissionView(self._cache, self._store)

    def _changed_keys(self) -> Iterator[tuple[str, str, str]]:
        for stored in _BY_STORED:
            found = None if self._seen is None else self._store.changes(stored, self._seen)
            if found is None or isinstance(found, Compacted):
                self._cache, self._seen = AdmissionCache(self._cache.resizes), None
                return
            yield from ((stored, change.item.namespace, change.item.name) for change in found)

    def _all_keys(self) -> Iterator[tuple[str, str, str]]:
        for stored in _BY_STORED:
            yield from ((stored, item.namespace, item.name) for item in self._store.peek_all(stored, None))

    def _read(self, resource: APIResource, stored: str, namespace: str, name: str) -> None:
        item = self._store.peek(stored, namespace, name)
        if item is None:
            self._cache.removed(resource, namespace, name)
        else:
            self._cache.applied(resource, stored_objects.decode(item.data))
