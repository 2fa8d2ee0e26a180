"""The quota ledger: which workload holds how much quota, summed up in two trees of ClusterQueues and Cohorts.

The tree ``now`` counts all workloads that hold quota, evicted or not. The tree ``after_evictions`` is the state after
all pending evictions: it leaves out evicted workloads and counts *claims*. A claim is the quota that a preemptor waits
for while its victims end. An admission must fit in both trees, so quota that was freed for a preemptor stays reserved
for it (kueue#13797), and no workload is evicted for quota that is about to be free. ``quota/preemption/targets.py``
chooses victims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_groups import Cohort, FlavorResource, Usage
from headgate.quota.cache.occupancy import ClusterQueueOf, Occupancy
from headgate.quota.cache.quota_tree import QuotaNode, QuotaTree


class QuotaClaim(msgspec.Struct, frozen=True):
    """The quota that a preemptor waits for while its victims end. ``has_reclaimed``: a victim is of another queue."""

    queue: str
    usage: Usage
    has_reclaimed: bool = False


OnLimit = Callable[[QuotaHolder, int], None]


def _no_cluster_queue(local_queue: str) -> str:
    return ""


class QuotaLedger:
    """``now`` and ``after_evictions``: the two trees. ``occupancy``: a third one with the usage on nodes, including
    terminating pods whose quota was released. Workloads are named by ``namespace/name`` (``key``)."""

    def __init__(self, cluster_queue_of: ClusterQueueOf = _no_cluster_queue) -> None:
        self.now = QuotaTree()
        self.after_evictions = QuotaTree()
        self.occupancy = Occupancy(cluster_queue_of)
        self._holders: dict[str, QuotaHolder] = {}
        self._by_queue: dict[str, dict[FlavorResource, dict[str, QuotaHolder]]] = {}
        self._claims: dict[str, QuotaClaim] = {}
        self._with_limit: dict[str, dict[str, QuotaHolder]] = {}  # by queue
        self.on_limit: OnLimit | None = None
        """Called when a workload with a run-time limit gets (+1) or loses quota, or is evicted (-1)."""

    def get(self, key: str) -> QuotaHolder | None:
        return self._holders.get(key)

    def claim_of(self, key: str) -> QuotaClaim | None:
        return self._claims.get(key)

    def holders(self) -> Iterable[QuotaHolder]:
        return self._holders.values()

    def claims(self) -> Mapping[str, QuotaClaim]:
        return self._claims

    def tree_of(self, queue: str) -> str:
        """The name of the tree that a queue belongs to: the name of its root cohort, or ``/queue`` for a queue without
        a cohort."""
        node = self.now.queue(queue)
        if node is None:
            return f"/{queue}"
        root = node.root
        return f"/{root.name}" if root.is_queue else root.name

    def available_after_evictions(self, queue: str, fr: FlavorResource) -> int:
        """How much the queue may use once all evicted workloads have ended."""
        node = self.after_evictions.queue(queue)
        return 0 if node is None else node.available(fr)

    def users(self, queue: str, frs: Iterable[FlavorResource]) -> Iterator[QuotaHolder]:
        """The workloads that hold some of these resources in a queue and are not evicted."""
        by_resource = self._by_queue.get(queue, {})
        found: dict[str, QuotaHolder] = {}
        for fr in frs:
            found.update(by_resource.get(fr, {}))
        return (each for each in found.values() if not each.is_evicted)

    def held_in(self, queue: str) -> list[QuotaHolder]:
        """All workloads that hold quota in a queue, by key."""
        found = {key: each for users in self._by_queue.get(queue, {}).values() for key, each in users.items()}
        return [found[key] for key in sorted(found)]

    def with_limit(self, tree: str) -> Iterator[QuotaHolder]:
        """The workloads in a tree that have a run-time limit and are not evicted."""
        for queue, holders in self._with_limit.items():
            if self.tree_of(queue) == tree:
                yield from holders.values()

    def place_queue(self, queue: ClusterQueue) -> None:
        is_new = self.now.queue(queue.name) is None
        for tree in (self.now, self.after_evictions):
            tree.place_queue(queue.name, queue.cohort, queue.quotas)
        self.occupancy.place_queue(queue)
        if is_new:
            for holder in self.held_in(queue.name):
                self._count(holder, +1)
            for claim in self._claims.values():
                if claim.queue == queue.name:
                    self._add(self.after_evictions, claim.queue, claim.usage, +1)

    def remove_queue(self, name: str) -> None:
        """Keeps the holders of the queue: they are counted again if the queue returns."""
        for tree in (self.now, self.after_evictions):
            tree.remove_queue(name)
        self.occupancy.remove_queue(name)

    def place_cohort(self, cohort: Cohort) -> None:
        for tree in (self.now, self.after_evictions):
            tree.place_cohort(cohort.name, cohort.parent, cohort.quotas)
        self.occupancy.place_cohort(cohort)

    def remove_cohort(self, name: str) -> None:
        for tree in (self.now, self.after_evictions):
            tree.remove_cohort(name)
        self.occupancy.remove_cohort(name)

    def put(self, holder: QuotaHolder) -> None:
        """Sets the quota that a workload holds, in place of what it held before."""
        self._remove_holder(holder.key)
        self._holders[holder.key] = holder
        for fr in holder.usage:
            self._by_queue.setdefault(holder.queue, {}).setdefault(fr, {})[holder.key] = holder
        if holder.ends_s is not None and not holder.is_evicted:
            self._with_limit.setdefault(holder.queue, {})[holder.key] = holder
            if self.on_limit is not None:
                self.on_limit(holder, +1)
        self._count(holder, +1)
        self.occupancy.put(holder)

    def remove(self, key: str, *, keeps_pods: bool = False) -> QuotaHolder | None:
        """The workload holds no quota any more. ``keeps_pods``: see ``Occupancy.remove``."""
        self.occupancy.remove(key, keeps_pods=keeps_pods)
        return self._remove_holder(key)

    def _remove_holder(self, key: str) -> QuotaHolder | None:
        holder = self._holders.pop(key, None)
        if holder is None:
            return None
        for fr in holder.usage:  # empty if all pods of the workload are reclaimable
            by_resource = self._by_queue[holder.queue]
            del by_resource[fr][key]
            if not by_resource[fr]:
                del by_resource[fr]
            if not by_resource:
                del self._by_queue[holder.queue]
        if holder.ends_s is not None and not holder.is_evicted:
            del self._with_limit[holder.queue][key]
            if not self._with_limit[holder.queue]:
                del self._with_limit[holder.queue]
            if self.on_limit is not None:
                self.on_limit(holder, -1)
        self._count(holder, -1)
        return holder

    def claim(self, key: str, claim: QuotaClaim | None) -> None:
        """Sets the quota that a preemptor waits for while its victims end; None removes the claim."""
        before = self._claims.pop(key, None)
        if before is not None:
            self._add(self.after_evictions, before.queue, before.usage, -1)
        if claim is not None:
            self._claims[key] = claim
            self._add(self.after_evictions, claim.queue, claim.usage, +1)

    def simulate_usage(self, queue: str, usage: Usage, sign: int) -> None:
        """Adds usage to the tree ``after_evictions`` (+1) or subtracts it (-1), for a simulation; the caller undoes
        it."""
        self._add(self.after_evictions, queue, usage, sign)

    def simulate_in_both(self, queue: str, usage: Usage, sign: int) -> None:
        """The same in both trees."""
        for tree in (self.now, self.after_evictions):
            self._add(tree, queue, usage, sign)

    def fits(self, queue: str, usage: Usage) -> bool:
        """Whether the usage fits in both trees."""
        nodes = (self.now.queue(queue), self.after_evictions.queue(queue))
        return all(node is not None and fits(node, usage) for node in nodes)

    def _count(self, holder: QuotaHolder, sign: int) -> None:
        self._add(self.now, holder.queue, holder.usage, sign)
        if not holder.is_evicted:
            self._add(self.after_evictions, holder.queue, holder.usage, sign)

    def _add(self, tree: QuotaTree, queue: str, usage: Usage, sign: int) -> None:
        node = tree.queue(queue)
        if node is not None:
            tree.add(node, usage, sign)


def fits(node: QuotaNode, usage: Usage) -> bool:
    """Whether this usage fits in the quota that is available to a ClusterQueue."""
    return all(amount <= node.available(fr) for fr, amount in usage.items() if amount)
