"""The cache of the admission handlers in the embedded API server. It includes staged writes.

:meth:`StoreAdmissionIndex.view` brings the cache up to date: it reads the objects that changed since the last call, and
those that were staged then and may have been rolled back. Its cost is proportional to the changes, not to the number of
queues. Kinds of which only single objects are read are not cached. Pods are counted by gate and namespace for the
limits of GatePolicies; pods without a gate are not decoded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headgate.admission.admission_cache import ALWAYS_WATCHED, AdmissionCache
from headgate.admission.assumed_resizes import AllowedResize, AssumedResizes
from headgate.admission.settings import AdmissionSettings, Object
from headgate.apiserver.registry import stored_objects
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.names import GATE_POLICIES
from headgate.gate_policies.pod_counts import AdmittedPod, GatedPodCounts
from headgate.kube.api_resources import PODS, APIResource
from headgate.store import Item, Revision, Store
from headgate.store.item import Compacted


def stored_as(resource: APIResource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


_StoreKey = tuple[str, str, str]
"""Resource as in the store, namespace and name."""
_GATES: Final = b'"schedulingGates"'


class StoreAdmissionView:
    """A ``ClusterView`` (``admission/settings.py``): the cache, and other objects from the store."""

    def __init__(self, cache: AdmissionCache, store: Store, count_pods: Callable[[], GatedPodCounts]) -> None:
        self._cache: Final = cache
        self._store: Final = store
        self._count_pods: Final = count_pods

    def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
        if resource in ALWAYS_WATCHED:
            return self._cache.get(resource, namespace, name)
        item = self._store.read_applied(stored_as(resource), namespace if resource.namespaced else "", name)
        return None if item is None else stored_objects.decode(item.data)

    @property
    def queues(self) -> QueueLister:
        return self._cache.queues

    @property
    def resizes(self) -> AssumedResizes:
        return self._cache.resizes

    def group_count(self, queue: str) -> int:
        return self._cache.group_count(queue)

    @property
    def gate_policies(self) -> GatePolicyIndex:
        return self._cache.gate_policies

    @property
    def gated_pods(self) -> GatedPodCounts:
        """Counted when it is asked for: most writes concern no gate with a limit."""
        return self._count_pods()

    def assume(self, assumed: AllowedResize | AdmittedPod, now_s: float) -> None:
        if isinstance(assumed, AdmittedPod):
            self._count_pods().admit(assumed, now_s)
        else:
            self._cache.resizes.assume(assumed, now_s)


class _StoreFollower:
    """Reports the objects of some resources that changed since the last call, staged writes included. ``reset`` is
    called if the history does not tell what changed; all objects are reported then."""

    def __init__(
        self,
        store: Store,
        resources: Iterable[APIResource],
        changed: Callable[[APIResource, str, str, Item | None], None],
        reset: Callable[[], None],
    ) -> None:
        self._store: Final = store
        self._by_stored: Final = {stored_as(resource): resource for resource in resources}
        self._changed: Final = changed
        self._reset: Final = reset
        self._seen: Revision | None = None
        self._staged: dict[_StoreKey, Item] = {}

    def update(self) -> None:
        """Reports the state that the next writer sees."""
        committed, before = self._store.committed, self._staged
        self._staged = {
            (stored, change.item.namespace, change.item.name): change.item
            for stored in self._by_stored
            for change in self._store.staged(stored)
        }
        keys = set[_StoreKey]() if self._seen == committed else set(self._changed_keys())
        if self._seen is None:
            keys = set(self._all_keys())
        # A write that was staged before may be committed or rolled back; one that is still staged was reported.
        keys.update(key for key, item in before.items() if self._staged.get(key) is not item)
        keys.update(key for key, item in self._staged.items() if before.get(key) is not item)
        self._seen = committed
        for stored, namespace, name in sorted(keys):
            item = self._store.read_applied(stored, namespace, name)
            self._changed(self._by_stored[stored], namespace, name, item)

    def _changed_keys(self) -> Iterator[_StoreKey]:
        for stored in self._by_stored:
            found = None if self._seen is None else self._store.changes(stored, self._seen)
            if found is None or isinstance(found, Compacted):
                self._reset()
                self._seen = None
                return
            yield from ((stored, change.item.namespace, change.item.name) for change in found)

    def _all_keys(self) -> Iterator[_StoreKey]:
        for stored in self._by_stored:
            yield from ((stored, item.namespace, item.name) for item in self._store.list_applied(stored, None))


class StoreAdmissionIndex:
    """Keeps an ``AdmissionCache`` up to date with the store."""

    def __init__(self, store: Store, settings: AdmissionSettings) -> None:
        self._store: Final = store
        self._cache = AdmissionCache()
        watched = (*ALWAYS_WATCHED, *([GATE_POLICIES] if settings.features.gate_ownership else []))
        self._objects: Final = _StoreFollower(store, watched, self._object_changed, self._reset)
        self._pods = GatedPodCounts()
        self._gated_pods: Final = _StoreFollower(store, (PODS,), self._pod_changed, self._reset_pods)

    def view(self) -> StoreAdmissionView:
        """The state that the next writer sees: committed and staged writes."""
        self._objects.update()
        return StoreAdmissionView(self._cache, self._store, self._count_pods)

    def _object_changed(self, resource: APIResource, namespace: str, name: str, item: Item | None) -> None:
        if item is None:
            self._cache.removed(resource, namespace, name)
        else:
            self._cache.applied(resource, stored_objects.decode(item.data))

    def _reset(self) -> None:
        self._cache = AdmissionCache(self._cache.resizes)

    def _count_pods(self) -> GatedPodCounts:
        self._gated_pods.update()
        return self._pods

    def _pod_changed(self, resource: APIResource, namespace: str, name: str, item: Item | None) -> None:
        if item is None or _GATES not in item.data:
            self._pods.forget(namespace, name)
        else:
            self._pods.apply(stored_objects.decode(item.data))

    def _reset_pods(self) -> None:
        self._pods = GatedPodCounts()
