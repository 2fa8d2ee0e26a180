"""What one admission request reads: the cache of the webhook server, and objects that the server read for this request.

The cache is filled by watches, which may be late. Two reads close the gap:

- An object that a handler needs and that is not cached (:attr:`CacheReader.missed`): a PodGroup is often created just
  before its pods.
- The queues and PodGroups because of which a handler refuses (:attr:`CacheReader.used`): a client that creates a queue
  and then one below it, or deletes a PodGroup and then its queue, must not be refused for what it has just changed.

``runtime/webhooks/server.py`` reads these objects and calls the handler again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from headgate.admission.admission_cache import AdmissionCache, Key, queue_of_group
from headgate.admission.assumed_resizes import AssumedResizes
from headgate.capacity.api.queue import Queue, read_queue
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.pod_counts import GatedPodCounts
from headgate.kube.api_resources import APIResource
from headgate.quota.kinds.names import LOCAL_QUEUES

Object = dict[str, Any]

_CACHE_ONLY: Final = frozenset({QUEUES, LOCAL_QUEUES})
"""Resources whose objects are not missed when the cache does not have them: most namespaces have no default queue, and
a read for each review would delay all of them."""


class CacheReader:
    """The ``ClusterView`` of one call of a handler. ``read``: objects that were read from the API server for this
    request, None for one that does not exist; they take precedence over the cache. ``missed``: objects that the handler
    needed and that are neither cached nor read. ``used``: the queues and PodGroups that a refusal depends on and that
    are not read."""

    def __init__(self, cache: AdmissionCache, read: Mapping[Key, Object | None]) -> None:
        self.missed: Final[list[Key]] = []
        self.used: Final[dict[Key, None]] = {}
        self.queues: Final[QueueLister] = _CurrentQueues(cache.queues, read, self.used)
        self._cache: Final = cache
        self._read: Final = read

    def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
        key = (resource, namespace if resource.namespaced else "", name)
        if key in self._read:
            return self._read[key]
        found = self._cache.get(resource, namespace, name)
        if found is not None and uid and found["metadata"].get("uid") != uid:
            found = None  # the watch does not show the new object yet
        if found is None and resource not in _CACHE_ONLY:
            self.missed.append(key)
        if resource == QUEUES:
            self.used[key] = None
        return found

    @property
    def resizes(self) -> AssumedResizes:
        return self._cache.resizes

    def group_count(self, queue: str) -> int:
        """One group that exists is enough for a refusal, so one is read at a time."""
        cached = self._cache.groups(queue)
        read = {key: group for key, group in self._read.items() if key[0] == POD_GROUPS}
        confirmed = sum(1 for group in read.values() if group is not None and queue_of_group(group) == queue)
        unread = next((key for key in cached if key not in read), None)
        if unread is not None and not confirmed:
            self.used[unread] = None
        return confirmed + len(cached) - sum(1 for key in read if key in cached)

    @property
    def gate_policies(self) -> GatePolicyIndex:
        return self._cache.gate_policies

    @property
    def gated_pods(self) -> GatedPodCounts:
        return self._cache.gated_pods


class _CurrentQueues:
    """Implements ``QueueLister``: the cached queues, with those that were read in their place."""

    def __init__(self, cached: QueueLister, read: Mapping[Key, Object | None], used: dict[Key, None]) -> None:
        self._cached: Final = cached
        self._used: Final = used
        self._read: Final = {
            name: None if found is None else read_queue(found)
            for (resource, _, name), found in read.items()
            if resource == QUEUES
        }

    def get(self, name: str, /) -> Queue | None:
        if name in self._read:
            return self._read[name]
        self._used[QUEUES, "", name] = None
        return self._cached.get(name)

    def children(self, name: str, /) -> Iterable[str]:
        read = {each for each, queue in self._read.items() if queue is not None and queue.parent == name}
        cached = {each for each in self._cached.children(name) if each not in self._read}
        return self._use(sorted(read | cached))

    def _use(self, names: Iterable[str]) -> Iterator[str]:
        """One by one: to a caller that only asks whether there is a child, the first one is enough."""
        for name in names:
            if name not in self._read:
                self._used[QUEUES, "", name] = None
            yield name
