"""Metrics that are read from the quota engine and the workload counters on each scrape: queues, cohorts, pending
workloads and usage.

The cost of a scrape grows with the number of queues, flavors and pending shapes, and of parked workloads where several
LocalQueues share a ClusterQueue (``_parked``). Amounts are in cores, bytes and whole units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from headgate.kube.metrics import Labels, Sample
from headgate.kube.resource_amounts import CPU
from headgate.quota import names
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.cache.quota_tree import QuotaNode
from headgate.quota.engine import QuotaEngine
from headgate.quota.metrics.counters import local_labels
from headgate.quota.metrics.metric_families import of_cluster_queue, of_local_queue
from headgate.quota.status.workload_counters import QueueCounts, WorkloadCounters

_INFINITE: Final = float("inf")
_STATUSES: Final = ("pending", "active", "terminating")


def samples(engine: QuotaEngine, counters: WorkloadCounters) -> Iterator[Sample]:
    reserved_above: dict[str, Counter[FlavorResource]] = {}
    admitted_above: Counter[str] = Counter()
    for name in sorted(engine.cache.queues):
        counts = counters.counts(("cluster queue", name))
        yield from _of_cluster_queue(engine, name, counts)
        node = engine.ledger.now.queue(name)
        for cohort in cohorts_above(node):
            reserved_above.setdefault(cohort.name, Counter()).update(counts.reserved)
            admitted_above[cohort.name] += counts.states["admitted"]
    parked = _parked(engine)
    for key in sorted(engine.cache.local_queues):
        yield from _of_local_queue(engine, key, counters.counts(("local queue", key)), parked.get(key, 0))
    for cohort in engine.ledger.now.cohorts():
        yield from _of_cohort(cohort, reserved_above.get(cohort.name, Counter()), admitted_above[cohort.name])


def cohorts_above(node: QuotaNode | None) -> Iterator[QuotaNode]:
    """The ancestors of a ClusterQueue, its own cohort first."""
    return iter(()) if node is None else (each for each in node.path() if not each.is_queue)


def _parked(engine: QuotaEngine) -> dict[str, int]:
    """Parked workloads by LocalQueue. They are counted one by one only if several LocalQueues share a ClusterQueue."""
    keys_by_queue: dict[str, list[str]] = {}
    for key, local in engine.cache.local_queues.items():
        keys_by_queue.setdefault(local.cluster_queue, []).append(key)
    found: dict[str, int] = {}
    for queue, keys in keys_by_queue.items():
        is_only = len(keys) == 1
        found |= (
            {keys[0]: engine.queue_manager.inadmissible_count(queue)}
            if is_only
            else engine.queue_manager.inadmissible_by_local_queue(queue)
        )
    return found


def _of_cluster_queue(engine: QuotaEngine, name: str, counts: QueueCounts) -> Iterator[Sample]:
    queue, activity = engine.cache.queues[name], engine.cache.activity.get(name)
    label = (("cluster_queue", name),)
    # Blocked workloads are not active: they are not in the queue.
    ready = engine.queue_manager.active_count(name)
    yield from _pending(of_cluster_queue("pending_workloads"), label, ready, counts.states["waiting"])
    yield Sample(of_cluster_queue("reserving_active_workloads"), label, counts.holding)
    yield Sample(of_cluster_queue("admitted_active_workloads"), label, counts.states["admitted"])
    is_active = activity is not None and activity.is_active
    status = "terminating" if queue.is_terminating else "active" if is_active else "pending"
    for each in _STATUSES:
        yield Sample("kueue_cluster_queue_status", (*label, ("status", each)), int(each == status))
    node = engine.ledger.now.queue(name)
    parent, root = _cohorts_of(node)
    yield Sample("kueue_cluster_queue_info", (*label, ("parent_cohort", parent), ("root_cohort", root)), 1)
    for fr, quota in sorted(queue.quotas.items()):
        labels = (("cohort", queue.cohort), *label, *_labels(fr))
        for what, value in (
            ("nominal_quota", quota.nominal),
            ("borrowing_limit", quota.borrowing_limit),
            ("lending_limit", quota.lending_limit),
            ("resource_reservation", counts.reserved[fr]),
            ("resource_usage", counts.admitted[fr]),
        ):
            yield Sample(f"kueue_cluster_queue_{what}", labels, _amount(fr, value))


def _of_local_queue(engine: QuotaEngine, key: str, counts: QueueCounts, parked: int) -> Iterator[Sample]:
    local, label = engine.cache.local_queues[key], local_labels(key)
    activity = engine.cache.activity.get(local.cluster_queue)
    is_open = activity is not None and activity.is_active and local.stop_policy == names.NONE
    waiting = counts.states["waiting"]
    yield from _pending(of_local_queue("pending_workloads"), label, waiting - parked if is_open else 0, waiting)
    yield Sample(of_local_queue("reserving_active_workloads"), label, counts.holding)
    yield Sample(of_local_queue("admitted_active_workloads"), label, counts.states["admitted"])
    for each, value in (("True", is_open), ("False", not is_open), ("Unknown", False)):
        yield Sample("kueue_local_queue_status", (*label, ("active", each)), int(value))
    queue = engine.cache.queues.get(local.cluster_queue)
    for fr in sorted(queue.quotas) if queue is not None else ():
        labels = (*label, *_labels(fr))
        yield Sample("kueue_local_queue_resource_reservation", labels, _amount(fr, counts.reserved[fr]))
        yield Sample("kueue_local_queue_resource_usage", labels, _amount(fr, counts.admitted[fr]))


def _of_cohort(cohort: QuotaNode, reserved: Mapping[FlavorResource, int], admitted: int) -> Iterator[Sample]:
    label = (("cohort", cohort.name),)
    parent = "" if cohort.parent is None else cohort.parent.name
    yield Sample("kueue_cohort_info", (*label, ("parent_cohort", parent), ("root_cohort", cohort.root.name)), 1)
    yield Sample("kueue_cohort_subtree_admitted_active_workloads", label, admitted)
    for fr in sorted(cohort.subtree):
        yield Sample("kueue_cohort_subtree_quota", (*label, *_labels(fr)), _amount(fr, cohort.subtree[fr]))
    for fr, amount in sorted(reserved.items()):
        if amount:
            yield Sample("kueue_cohort_subtree_resource_reservations", (*label, *_labels(fr)), _amount(fr, amount))


def _pending(name: str, label: Labels, ready: int, waiting: int) -> Iterator[Sample]:
    ready = min(max(ready, 0), waiting)
    yield Sample(name, (*label, ("status", "active")), ready)
    yield Sample(name, (*label, ("status", "inadmissible")), waiting - ready)


def _cohorts_of(node: QuotaNode | None) -> tuple[str, str]:
    if node is None or node.parent is None:
        return "", ""
    return node.parent.name, node.root.name


def _labels(fr: FlavorResource) -> Labels:
    return ("flavor", fr[0]), ("resource", fr[1])


def _amount(fr: FlavorResource, units: int | None) -> float:
    """In cores, bytes or whole units; infinite if there is no limit."""
    if units is None:
        return _INFINITE
    return units / 1000 if fr[1] == CPU else units
