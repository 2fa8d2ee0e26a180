"""The objects that workloads refer to: flavors, ClusterQueues, Cohorts, LocalQueues, namespaces, admission checks.

Each ``…_applied`` and ``…_removed`` updates the trees of the ledger and returns what may have changed for which queues.
The problem of an invalid object is kept, and the object is ignored; a queue that was valid before stays in the tree, so
that its usage is counted, but it admits no workloads. ``engine.py`` handles Workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headgate.kube.lenient_reader import find_object, find_text
from headgate.quota.api.cluster_queue import ActiveCondition, ClusterQueue, find_active_condition, read_cluster_queue
from headgate.quota.api.local_queue import LocalQueue, read_local_queue
from headgate.quota.api.resource_flavor import ResourceFlavor, read_flavor
from headgate.quota.api.resource_groups import read_cohort
from headgate.quota.api.wire_reader import JSONObject
from headgate.quota.api.workload import Workload
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.queues.blockers import WorkloadContext


class CacheChange(msgspec.Struct, frozen=True):
    """What an event changed. ``trees``: trees that may have more quota available. ``queues``: queues whose spec or
    Active condition may have changed."""

    trees: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()


class QuotaCache:
    """``activity``: the condition Active of each ClusterQueue."""

    def __init__(self, ledger: QuotaLedger, honours_gates: bool = True, honours_activation: bool = False) -> None:
        self._ledger = ledger
        self._honours_gates = honours_gates
        self._honours_activation = honours_activation
        self.queues: dict[str, ClusterQueue] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        self.local_queues: dict[str, LocalQueue] = {}
        self.activity: dict[str, ActiveCondition] = {}
        self.problems: dict[tuple[str, str], str] = {}
        """Problems of invalid objects, by kind and name (or namespace/name)."""
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._checks: dict[str, bool] = {}
        self._by_flavor: dict[str, set[str]] = {}
        self._by_check: dict[str, set[str]] = {}

    def context_of(self, workload: Workload) -> WorkloadContext:
        """The objects that the workload refers to. For a workload with quota: the ClusterQueue that admitted it."""
        local = self.local_queues.get(workload.queue_key)
        name = "" if local is None else local.cluster_queue
        if workload.holds_quota and workload.admission is not None:
            name = workload.admission.cluster_queue
        return WorkloadContext(
            local,
            self.queues.get(name),
            self.activity.get(name),
            self._namespaces.get(workload.namespace),
            self._honours_gates,
            self._honours_activation,
        )

    def flavor_applied(self, obj: JSONObject) -> CacheChange:
        name, flavor = _name(obj), read_flavor(obj)
        if isinstance(flavor, str):
            self.problems["ResourceFlavor", name] = flavor
            return self.flavor_removed(name, problem=flavor)
        self.problems.pop(("ResourceFlavor", name), None)
        if self.flavors.get(name) == flavor:
            return CacheChange()
        self.flavors[name] = flavor
        return self._update_activity(self._by_flavor.get(name, ()))

    def flavor_removed(self, name: str, problem: str = "") -> CacheChange:
        if not problem:
            self.problems.pop(("ResourceFlavor", name), None)
        return self._update_activity(self._by_flavor.get(name, ())) if self.flavors.pop(name, None) else CacheChange()

    def check_applied(self, name: str, is_active: bool) -> CacheChange:
        if self._checks.get(name) is is_active:
            return CacheChange()
        self._checks[name] = is_active
        return self._update_activity(self._by_check.get(name, ()))

    def check_removed(self, name: str) -> CacheChange:
        known = self._checks.pop(name, None)
        return CacheChange() if known is None else self._update_activity(self._by_check.get(name, ()))

    def cluster_queue_applied(self, obj: JSONObject) -> CacheChange:
        name, queue = _name(obj), read_cluster_queue(obj)
        if isinstance(queue, str):
            self.problems["ClusterQueue", name] = queue
            return self._update_activity((name,)) if name in self.queues else CacheChange()
        return self.cluster_queue_replaced(queue)

    def cluster_queue_replaced(self, queue: ClusterQueue) -> CacheChange:
        name = queue.name
        is_fixed = self.problems.pop(("ClusterQueue", name), None) is not None
        before = self.queues.get(name)
        if before == queue and not is_fixed:
            return CacheChange()
        trees = {self._ledger.tree_of(name)}
        self._index(before, queue)
        self.queues[name] = queue
        self._ledger.place_queue(queue)
        change = self._update_activity((name,))
        return CacheChange(change.trees | trees, frozenset((name,)))

    def cluster_queue_removed(self, name: str) -> CacheChange:
        self.problems.pop(("ClusterQueue", name), None)
        before = self.queues.pop(name, None)
        if before is None:
            return CacheChange()
        trees = frozenset((self._ledger.tree_of(name),))
        self._index(before, None)
        self.activity.pop(name, None)
        self._ledger.remove_queue(name)
        return CacheChange(trees, frozenset((name,)))

    def cohort_applied(self, obj: JSONObject) -> CacheChange:
        name, cohort = _name(obj), read_cohort(obj)
        if isinstance(cohort, str):
            self.problems["Cohort", name] = cohort
            return CacheChange()
        self.problems.pop(("Cohort", name), None)
        before = self._queues_below(name)
        trees = {self._ledger.tree_of(each) for each in before}
        self._ledger.place_cohort(cohort)
        return self._moved(name, before, trees)

    def cohort_removed(self, name: str) -> CacheChange:
        self.problems.pop(("Cohort", name), None)
        before = self._queues_below(name)
        trees = {self._ledger.tree_of(each) for each in before}
        self._ledger.remove_cohort(name)
        return self._moved(name, before, trees)

    def local_queue_applied(self, obj: JSONObject) -> str:
        """Returns the key of the queue if it changed, otherwise an empty string."""
        queue = read_local_queue(obj)
        if isinstance(queue, str):
            namespace = str(find_object(obj, "metadata").get("namespace", ""))
            key = f"{namespace}/{_name(obj)}"
            self.problems["LocalQueue", key] = queue
            return key if self.local_queues.pop(key, None) else ""
        self.problems.pop(("LocalQueue", queue.key), None)
        if self.local_queues.get(queue.key) == queue:
            return ""
        self.local_queues[queue.key] = queue
        return queue.key

    def local_queue_removed(self, key: str) -> bool:
        self.problems.pop(("LocalQueue", key), None)
        return self.local_queues.pop(key, None) is not None

    def namespace_applied(self, name: str, labels: Mapping[str, str]) -> bool:
        """Returns whether its labels changed."""
        if self._namespaces.get(name) == labels:
            return False
        self._namespaces[name] = dict(labels)
        return True

    def namespace_removed(self, name: str) -> bool:
        return self._namespaces.pop(name, None) is not None

    def queues_of_flavor(self, name: str) -> frozenset[str]:
        return frozenset(self._by_flavor.get(name, ()))

    def queues_of_check(self, name: str) -> frozenset[str]:
        return frozenset(self._by_check.get(name, ()))

    def _index(self, before: ClusterQueue | None, after: ClusterQueue | None) -> None:
        for index, listed in (
            (self._by_flavor, lambda queue: queue.flavors),
            (self._by_check, lambda queue: [name for name, _ in queue.checks]),
        ):
            for each in listed(before) if before is not None else ():
                index[each].discard(before.name if before is not None else "")
            for each in listed(after) if after is not None else ():
                index.setdefault(each, set()).add(after.name if after is not None else "")

    def _queues_below(self, cohort: str) -> set[str]:
        """The queues below a cohort, and below all cohorts that form a cycle with it."""
        tree = self._ledger.now
        nodes = (tree.cohort(name) for name in {cohort, *tree.cycle_of(cohort)})
        return {queue.name for node in nodes if node is not None for queue in tree.queues_below(node)}

    def _moved(self, cohort: str, before: set[str], trees: set[str]) -> CacheChange:
        """The change for all queues that are, or were, below the cohort."""
        queues = before | self._queues_below(cohort)
        change = self._update_activity(queues)
        return CacheChange(change.trees | trees, frozenset(queues))

    def _update_activity(self, queues: Iterable[str]) -> CacheChange:
        names = [name for name in queues if name in self.queues]
        for name in names:
            self.activity[name] = self._activity(self.queues[name])
        return CacheChange(frozenset(self._ledger.tree_of(name) for name in names), frozenset(names))

    def _activity(self, queue: ClusterQueue) -> ActiveCondition:
        problem = self.problems.get(("ClusterQueue", queue.name))
        if problem is not None:
            return ActiveCondition(False, "Invalid", f"Can't admit new workloads: {problem}.")
        cycle = self._ledger.now.cycle_of(queue.cohort) if queue.cohort else ()
        return find_active_condition(queue, self.flavors.keys(), self._checks, cycle)


def _name(obj: JSONObject) -> str:
    return find_text(obj, "metadata", "name")
