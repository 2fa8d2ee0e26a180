"""The metric families of quota, with Kueue's names and labels, in the order of the page.

Kueue has most metrics of a ClusterQueue for LocalQueues, too, with other labels; both are made from one row. Amounts
are in cores, bytes and pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.kube.metrics import MetricFamily, exponential_buckets

BY_CLUSTER_QUEUE: Final = ("cluster_queue",)
BY_LOCAL_QUEUE: Final = ("name", "namespace")

_PER_QUEUE: Final[Mapping[str, MetricFamily]] = {
    "pending_workloads": MetricFamily("gauge", "Workloads that wait, by status: active or inadmissible."),
    "unadmitted_workloads": MetricFamily("gauge", "Workloads that are not admitted, by reason and underlying cause."),
    "reserving_active_workloads": MetricFamily("gauge", "Workloads that hold quota."),
    "admitted_active_workloads": MetricFamily("gauge", "Workloads that are admitted and not finished."),
    "finished_workloads": MetricFamily("gauge", "Workloads that are finished and still there."),
    "quota_reserved_workloads_total": MetricFamily("counter", "Reservations of quota."),
    "admitted_workloads_total": MetricFamily("counter", "Admissions."),
    "evicted_workloads_total": MetricFamily("counter", "Evictions, by reason and underlying cause."),
    "finished_workloads_total": MetricFamily("counter", "Workloads that have finished."),
    "quota_reserved_wait_time_seconds": MetricFamily("histogram", "From when it was queued until quota was reserved."),
    "admission_wait_time_seconds": MetricFamily("histogram", "From when it was queued until it was admitted."),
    "admission_checks_wait_time_seconds": MetricFamily(
        "histogram", "From the reservation of quota until it was admitted."
    ),
    "ready_wait_time_seconds": MetricFamily("histogram", "From when it was queued until its pods were ready at first."),
    "admitted_until_ready_wait_time_seconds": MetricFamily(
        "histogram", "From the admission until its pods were ready at first."
    ),
}
_OTHERS: Final[Mapping[str, MetricFamily]] = {
    "evicted_workloads_once_total": MetricFamily("counter", "Workloads that were evicted for the first time."),
    "preempted_workloads_total": MetricFamily(
        "counter", "Workloads that were preempted, by the queue of the preemptor."
    ),
    "workload_eviction_latency_seconds": MetricFamily("histogram", "From the eviction until the quota was free."),
    "admission_attempts_total": MetricFamily("counter", "Cycles with pending workloads, by whether any got quota."),
    "admission_attempt_duration_seconds": MetricFamily("histogram", "How long such a cycle took to decide."),
    "cluster_queue_status": MetricFamily("gauge", "1 for the status that the ClusterQueue has."),
    "local_queue_status": MetricFamily("gauge", "1 for the Active status that the LocalQueue has."),
    "cluster_queue_info": MetricFamily("gauge", "Always 1; the labels say in which cohort the ClusterQueue is."),
    "cluster_queue_nominal_quota": MetricFamily("gauge", "The nominal quota."),
    "cluster_queue_borrowing_limit": MetricFamily("gauge", "The borrowing limit; infinite if there is none."),
    "cluster_queue_lending_limit": MetricFamily("gauge", "The lending limit; infinite if there is none."),
    "cluster_queue_resource_reservation": MetricFamily("gauge", "What is reserved."),
    "cluster_queue_resource_usage": MetricFamily("gauge", "What is reserved by admitted workloads."),
    "local_queue_resource_reservation": MetricFamily("gauge", "What is reserved."),
    "local_queue_resource_usage": MetricFamily("gauge", "What is reserved by admitted workloads."),
    "cohort_info": MetricFamily("gauge", "Always 1; the labels say where the cohort is in its tree."),
    "cohort_subtree_quota": MetricFamily("gauge", "The quota of the cohort and of what is lent to it from below."),
    "cohort_subtree_resource_reservations": MetricFamily("gauge", "What is reserved in the queues below."),
    "cohort_subtree_admitted_active_workloads": MetricFamily(
        "gauge", "Workloads that are admitted in the queues below."
    ),
    "cohort_subtree_admitted_workloads_total": MetricFamily("counter", "Admissions in the queues below."),
    "build_info": MetricFamily("gauge", "1; what gives quota here."),
}


def of_cluster_queue(metric: str) -> str:
    return f"kueue_{metric}"


def of_local_queue(metric: str) -> str:
    return f"kueue_local_queue_{metric}"


FAMILIES: Final[Mapping[str, MetricFamily]] = {
    **{of_cluster_queue(what): family for what, family in _PER_QUEUE.items()},
    **{of_local_queue(what): family for what, family in _PER_QUEUE.items()},
    **{f"kueue_{what}": family for what, family in _OTHERS.items()},
}


def _kueues(count: int) -> tuple[float, ...]:
    return (1.0, *exponential_buckets(2.5, 2, count - 1))


PROMETHEUS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The default buckets of Prometheus clients."""
WAITS: Final[Mapping[str, tuple[float, ...]]] = {
    "quota_reserved_wait_time_seconds": _kueues(14),
    "admission_wait_time_seconds": _kueues(16),
    "admission_checks_wait_time_seconds": _kueues(14),
    "ready_wait_time_seconds": _kueues(14),
    "admitted_until_ready_wait_time_seconds": _kueues(14),
}
EVICTION_LATENCY: Final = _kueues(14)
