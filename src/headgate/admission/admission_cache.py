"""The namespaces, queues and groups that admission handlers read, updated by events.

The embedded server updates it from the store (``cli/embedded/admission.py``), the webhook server from watches. A
response that needs a missing object records it (:class:`CacheReader`) and the API server is asked, because a PodGroup
is often created just before its pods and a watch may be late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.admission.assumed_resizes import AssumedResizes
from headgate.admission.policy import AdmissionPolicy
from headgate.capacity.api.queue import QueueIndex
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.jobs.framework.management import known_ancestors
from headgate.kube.api_resources import NAMESPACES, STATEFUL_SETS, APIResource
from headgate.kube.lenient_reader import find_text
from headgate.quota.kinds.names import LOCAL_QUEUES

Object = dict[str, Any]
Key = tuple[APIResource, str, str]

WATCHED: Final[Mapping[APIResource, tuple[str, ...]]] = {
    NAMESPACES: ("metadata.annotations", "metadata.labels"),
    QUEUES: (
        "metadata.annotations",
        "spec",
        "status.state",
        "status.conditions",
        "status.allocated",
        "status.reserved",
    ),
    POD_GROUPS: ("spec.queue",),
}
"""The watched resources, and the fields that are used."""
_OWNERS: Final = ("metadata.uid", "metadata.labels", "metadata.ownerReferences")

_GROUPS: Final = (*_OWNERS, "spec.replicas", "spec.template.metadata.annotations", "status.replicas")


def watched_resources(policy: AdmissionPolicy) -> Mapping[APIResource, tuple[str, ...]]:
    """The watched resources; with possible ancestors of pods and LocalQueues, if jobs use Kueue's queues."""
    if not policy.suspends_jobs:
        return WATCHED
    owners = dict.fromkeys(known_ancestors(policy.jobs.kinds).values(), _OWNERS)
    return {**WATCHED, LOCAL_QUEUES: ("metadata.uid",), **owners, STATEFUL_SETS: _GROUPS}


class AdmissionCache:
    """Implements ``ClusterView`` (``policy.py``). ``resizes``: of the cache that this one replaces."""

    def __init__(self, resizes: AssumedResizes | None = None) -> None:
        self.resizes: Final = AssumedResizes() if resizes is None else resizes
        self._objects: Final[dict[Key, Object]] = {}
        self._queue_index: Final = QueueIndex()
        self._groups: Final[dict[str, int]] = {}

    def applied(self, resource: APIResource, wire: Object) -> None:
        metadata = wire["metadata"]
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        self.removed(resource, namespace, name)
        self._objects[resource, namespace, name] = wire
        if resource == QUEUES:
            self._queue_index.apply(wire)
        elif resource == POD_GROUPS:
            queue = _queue(wire)
            self._groups[queue] = self._groups.get(queue, 0) + 1

    def removed(self, resource: APIResource, namespace: str, name: str) -> None:
        before = self._objects.pop((resource, namespace, name), None)
        if before is None:
            return
        if resource == QUEUES:
            self._queue_index.remove(name)
        elif resource == POD_GROUPS:
            queue = _queue(before)
            self._groups[queue] -= 1
            if not self._groups[queue]:
                del self._groups[queue]

    def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
        return self._objects.get((resource, namespace if resource.namespaced else "", name))

    @property
    def queues(self) -> QueueLister:
        return self._queue_index

    def tenants(self, queue: str) -> int:
        return self._groups.get(queue, 0)


class CacheReader:
    """The view of one response. ``fetched``: objects fetched for it; ``missed``: objects that were missing."""

    def __init__(self, cache: AdmissionCache, fetched: Mapping[Key, Object | None]) -> None:
        self.missed: Final[list[Key]] = []
        self._cache: Final = cache
        self._fetched: Final = fetched

    def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
        found = self._cache.get(resource, namespace, name)
        if found is not None and uid and found["metadata"].get("uid") != uid:
            found = None  # the watch does not show the new object yet
        key = (resource, namespace if resource.namespaced else "", name)
        if found is None and key not in self._fetched:
            self.missed.append(key)
        return found or self._fetched.get(key)

    @property
    def queues(self) -> QueueLister:
        return self._cache.queues

    @property
    def resizes(self) -> AssumedResizes:
        return self._cache.resizes

    def tenants(self, queue: str) -> int:
        return self._cache.tenants(queue)


def _queue(group: Object) -> str:
    return find_text(group, "spec", "queue")
