"""A small quota ledger for tests: queues, workloads that hold quota, and workloads to nominate."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.quota.api.cluster_queue import ClusterQueue, read_cluster_queue
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_flavor import ResourceFlavor, read_flavor
from headgate.quota.api.resource_groups import Cohort, read_cohort
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.cycle.nomination import Nomination, nominate
from kueue_builders import a_cluster_queue, a_cohort, a_flavor, a_workload


class Book:
    """Amounts of cpu are whole cores here, as people write them."""

    def __init__(self) -> None:
        self.book = QuotaLedger()
        self.queues: dict[str, ClusterQueue] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        for name in ("default", "spot", "fixed"):
            self.flavor(name)

    def flavor(self, name: str, **more: Any) -> None:
        flavor = read_flavor(a_flavor(name, **more))
        assert isinstance(flavor, ResourceFlavor), flavor
        self.flavors[name] = flavor

    def queue(self, name: str, *listed: Any, **spec: Any) -> Book:
        queue = read_cluster_queue(a_cluster_queue(name, *listed, **spec))
        assert isinstance(queue, ClusterQueue), queue
        self.queues[name] = queue
        self.book.place_queue(queue)
        return self

    def cohort(self, name: str, parent: str = "", *listed: Any) -> Book:
        cohort = read_cohort(a_cohort(name, parent, *listed))
        assert isinstance(cohort, Cohort), cohort
        self.book.place_cohort(cohort)
        return self

    def hold(
        self,
        key: str,
        queue: str,
        cpu: int,
        flavor: str = "default",
        priority: int = 0,
        at_s: float = 0.0,
        since_s: float = 0.0,
    ) -> Book:
        usage = {(flavor, "cpu"): cpu * 1000}
        self.book.put(QuotaHolder(key, f"uid-{key}", queue, usage, priority, at_s, since_s))
        return self

    def evict(self, key: str) -> None:
        holder = self.book.get(key)
        assert holder is not None
        self.book.put(msgspec.structs.replace(holder, is_evicted=True))

    def nominate(self, queue: str, *pod_sets: Any, tried: Any = (), **more: Any) -> Nomination:
        workload = read_workload(a_workload("new", *pod_sets, **more))
        assert isinstance(workload, Workload), workload
        return nominate(self.book, self.queues[queue], self.flavors, workload, workload.created_s, tried)

    def victims(self, queue: str, **more: Any) -> list[tuple[str, str]]:
        """The workloads that are evicted for a workload, and why."""
        return [(each.holder.key, each.reason) for each in self.nominate(queue, **more).targets]
