"""The metric families of quota, with Kueue's names and labels, in the order in which they are exported.

Kueue has most metrics of a ClusterQueue for LocalQueues, too, with other labels; one entry of the table describes both.
Amounts are in cores, bytes and whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from headgate.kube.metrics import MetricFamily, exponential_buckets

BY_CLUSTER_QUEUE: Final = ("cluster_queue",)
BY_LOCAL_QUEUE: Final = ("name", "namespace")

_PER_QUEUE: Final[Mapping[str, MetricFamily]] = {
    "pending_workloads": MetricFamily("gauge", "Workloads that wait, by status: active or inadmissible.", ("status",)),
    "unadmitted_workloads": MetricFamily(
        "gauge", "Workloads that are not admitted, by reason and underlying cause.", ("reason", "underlying_cause")
    ),
    "reserving_active_workloads": MetricFamily("gauge", "Workloads that hold quota."),
    "admitted_active_workloads": MetricFamily("gauge", "Workloads that are admitted and not finished."),
    "finished_workloads": MetricFamily("gauge", "Workloads that are finished and not deleted."),
    "quota_reserved_workloads_total": MetricFamily("counter", "Reservations of quota.", ("priority_class",)),
    "admitted_workloads_total": MetricFamily("counter", "Admissions.", ("priority_class",)),
    "evicted_workloads_total": MetricFamily(
        "counter", "Evictions, by reason and underlying cause.", ("reason", "underlying_cause", "priority_class")
    ),
    "finished_workloads_total": MetricFamily("counter", "Workloads that have finished.", ("priority_class",)),
    "quota_reserved_wait_time_seconds": MetricFamily(
        "histogram", "Time from the queueing of a Workload until quota was reserved.", ("priority_class",)
    ),
    "admission_wait_time_seconds": MetricFamily(
        "histogram", "Time from the queueing of a Workload until its admission.", ("priority_class",)
    ),
    "admission_checks_wait_time_seconds": MetricFamily(
        "histogram", "Time from the reservation of quota until the admission of the Workload.", ("priority_class",)
    ),
    "ready_wait_time_seconds": MetricFamily(
        "histogram", "Time from the queueing of a Workload until its pods were first ready.", ("priority_class",)
    ),
    "admitted_until_ready_wait_time_seconds": MetricFamily(
        "histogram", "Time from the admission of a Workload until its pods were first ready.", ("priority_class",)
    ),
}
_OTHERS: Final[Mapping[str, MetricFamily]] = {
    "evicted_workloads_once_total": MetricFamily(
        "counter",
        "Workloads that were evicted for the first time.",
        ("cluster_queue", "reason", "underlying_cause", "priority_class"),
    ),
    "preempted_workloads_total": MetricFamily(
        "counter",
        "Workloads that were preempted, by the queue of the preemptor.",
        ("preempting_cluster_queue", "reason"),
    ),
    "workload_eviction_latency_seconds": MetricFamily(
        "histogram", "Time from the eviction of a Workload until its quota was free.", ("cluster_queue", "reason")
    ),
    "admission_attempts_total": MetricFamily(
        "counter", "Cycles with pending workloads, by whether a workload got quota.", ("result",)
    ),
    "admission_attempt_duration_seconds": MetricFamily(
        "histogram", "How long such a cycle took to decide.", ("result",)
    ),
    "cluster_queue_status": MetricFamily(
        "gauge", "1 for the status that the ClusterQueue has.", ("cluster_queue", "status")
    ),
    "local_queue_status": MetricFamily(
        "gauge", "1 for the Active status that the LocalQueue has.", ("name", "namespace", "active")
    ),
    "cluster_queue_info": MetricFamily(
        "gauge",
        "Always 1; the labels say in which cohort the ClusterQueue is.",
        ("cluster_queue", "parent_cohort", "root_cohort"),
    ),
    "cluster_queue_nominal_quota": MetricFamily(
        "gauge", "The nominal quota.", ("cohort", "cluster_queue", "flavor", "resource")
    ),
    "cluster_queue_borrowing_limit": MetricFamily(
        "gauge", "The borrowing limit; infinite if there is none.", ("cohort", "cluster_queue", "flavor", "resource")
    ),
    "cluster_queue_lending_limit": MetricFamily(
        "gauge", "The lending limit; infinite if there is none.", ("cohort", "cluster_queue", "flavor", "resource")
    ),
    "cluster_queue_resource_reservation": MetricFamily(
        "gauge", "The reserved amount.", ("cohort", "cluster_queue", "flavor", "resource")
    ),
    "cluster_queue_resource_usage": MetricFamily(
        "gauge", "The amount that admitted workloads have reserved.", ("cohort", "cluster_queue", "flavor", "resource")
    ),
    "local_queue_resource_reservation": MetricFamily(
        "gauge", "The reserved amount.", ("name", "namespace", "flavor", "resource")
    ),
    "local_queue_resource_usage": MetricFamily(
        "gauge", "The amount that admitted workloads have reserved.", ("name", "namespace", "flavor", "resource")
    ),
    "cohort_info": MetricFamily(
        "gauge", "Always 1; the labels say where the cohort is in its tree.", ("cohort", "parent_cohort", "root_cohort")
    ),
    "cohort_subtree_quota": MetricFamily(
        "gauge", "The quota of the cohort and the quota that its members lend.", ("cohort", "flavor", "resource")
    ),
    "cohort_subtree_resource_reservations": MetricFamily(
        "gauge", "The reserved amount in the ClusterQueues of the subtree.", ("cohort", "flavor", "resource")
    ),
    "cohort_subtree_admitted_active_workloads": MetricFamily(
        "gauge", "Workloads that are admitted in the ClusterQueues of the subtree.", ("cohort",)
    ),
    "cohort_subtree_admitted_workloads_total": MetricFamily(
        "counter", "Admissions in the ClusterQueues of the subtree.", ("cohort", "priority_class")
    ),
    "build_info": MetricFamily(
        "gauge", "Always 1; the labels name the version of this program.", ("git_version", "compiler")
    ),
}


def of_cluster_queue(metric: str) -> str:
    return f"kueue_{metric}"


def of_local_queue(metric: str) -> str:
    return f"kueue_local_queue_{metric}"


def _with_queue(family: MetricFamily, labels: tuple[str, ...]) -> MetricFamily:
    return replace(family, labels=(*labels, *family.labels))


FAMILIES: Final[Mapping[str, MetricFamily]] = {
    **{of_cluster_queue(what): _with_queue(family, BY_CLUSTER_QUEUE) for what, family in _PER_QUEUE.items()},
    **{of_local_queue(what): _with_queue(family, BY_LOCAL_QUEUE) for what, family in _PER_QUEUE.items()},
    of_local_queue("unadmitted_workloads"): _with_queue(
        _PER_QUEUE["unadmitted_workloads"], (*BY_LOCAL_QUEUE, *BY_CLUSTER_QUEUE)
    ),
    **{f"kueue_{what}": family for what, family in _OTHERS.items()},
}


def _wait_buckets(count: int) -> tuple[float, ...]:
    """Kueue's buckets of wait times."""
    return (1.0, *exponential_buckets(2.5, 2, count - 1))


PROMETHEUS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The default buckets of Prometheus clients."""
WAITS: Final[Mapping[str, tuple[float, ...]]] = {
    "quota_reserved_wait_time_seconds": _wait_buckets(14),
    "admission_wait_time_seconds": _wait_buckets(16),
    "admission_checks_wait_time_seconds": _wait_buckets(14),
    "ready_wait_time_seconds": _wait_buckets(14),
    "admitted_until_ready_wait_time_seconds": _wait_buckets(14),
}
EVICTION_LATENCY: Final = _wait_buckets(14)
