"""The metrics of quota by name, with Kueue's names and labels: a table, and the page is in its order.

What Kueue has for each ClusterQueue it has for each LocalQueue, too, with other labels; those twins are made from one
row. Amounts are in cores, bytes and pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.kube.exposition import Family, exponential

BY_CLUSTER_QUEUE: Final = ("cluster_queue",)
BY_LOCAL_QUEUE: Final = ("name", "namespace")

_TWINS: Final[Mapping[str, Family]] = {
    "pending_workloads": Family("gauge", "Workloads that wait, by whether they are worth a look (status)."),
    "unadmitted_workloads": Family("gauge", "Workloads that are not admitted, by reason and underlying cause."),
    "reserving_active_workloads": Family("gauge", "Workloads that hold quota."),
    "admitted_active_workloads": Family("gauge", "Workloads that are admitted and not finished."),
    "finished_workloads": Family("gauge", "Workloads that are finished and still there."),
    "quota_reserved_workloads_total": Family("counter", "Reservations of quota."),
    "admitted_workloads_total": Family("counter", "Admissions."),
    "evicted_workloads_total": Family("counter", "Evictions, by reason and underlying cause."),
    "finished_workloads_total": Family("counter", "Workloads that were seen to finish."),
    "quota_reserved_wait_time_seconds": Family("histogram", "From when it was queued until quota was reserved."),
    "admission_wait_time_seconds": Family("histogram", "From when it was queued until it was admitted."),
    "admission_checks_wait_time_seconds": Family("histogram", "From the reservation of quota until it was admitted."),
    "ready_wait_time_seconds": Family("histogram", "From when it was queued until its pods were ready at first."),
    "admitted_until_ready_wait_time_seconds": Family(
        "histogram", "From the admission until its pods were ready at first."
    ),
}
_OTHERS: Final[Mapping[str, Family]] = {
    "evicted_workloads_once_total": Family("counter", "Workloads that were evicted for the first time."),
    "preempted_workloads_total": Family("counter", "Workloads that made room, by the queue of whom they made it for."),
    "workload_eviction_latency_seconds": Family("histogram", "From the eviction until the quota was free."),
    "admission_attempts_total": Family("counter", "Cycles with somebody to look at, by whether anybody got quota."),
    "admission_attempt_duration_seconds": Family("histogram", "How long such a cycle took to decide."),
    "cluster_queue_status": Family("gauge", "1 for the status that the ClusterQueue has."),
    "local_queue_status": Family("gauge", "1 for what the LocalQueue says of being active."),
    "cluster_queue_info": Family("gauge", "1; where the ClusterQueue stands."),
    "cluster_queue_nominal_quota": Family("gauge", "The nominal quota."),
    "cluster_queue_borrowing_limit": Family("gauge", "The borrowing limit; infinite if there is none."),
    "cluster_queue_lending_limit": Family("gauge", "The lending limit; infinite if there is none."),
    "cluster_queue_resource_reservation": Family("gauge", "What is reserved."),
    "cluster_queue_resource_usage": Family("gauge", "What is reserved by admitted workloads."),
    "local_queue_resource_reservation": Family("gauge", "What is reserved."),
    "local_queue_resource_usage": Family("gauge", "What is reserved by admitted workloads."),
    "cohort_info": Family("gauge", "1; where the cohort stands."),
    "cohort_subtree_quota": Family("gauge", "The quota of the cohort and of what is lent to it from below."),
    "cohort_subtree_resource_reservations": Family("gauge", "What is reserved in the queues below."),
    "cohort_subtree_admitted_active_workloads": Family("gauge", "Workloads that are admitted in the queues below."),
    "cohort_subtree_admitted_workloads_total": Family("counter", "Admissions in the queues below."),
    "build_info": Family("gauge", "1; what gives quota here."),
}


def of_cluster_queue(what: str) -> str:
    return f"kueue_{what}"


def of_local_queue(what: str) -> str:
    return f"kueue_local_queue_{what}"


FAMILIES: Final[Mapping[str, Family]] = {
    **{of_cluster_queue(what): family for what, family in _TWINS.items()},
    **{of_local_queue(what): family for what, family in _TWINS.items()},
    **{f"kueue_{what}": family for what, family in _OTHERS.items()},
}


def _kueues(count: int) -> tuple[float, ...]:
    return (1.0, *exponential(2.5, 2, count - 1))


PROMETHEUS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The buckets of whoever names none."""
WAITS: Final[Mapping[str, tuple[float, ...]]] = {
    "quota_reserved_wait_time_seconds": _kueues(14),
    "admission_wait_time_seconds": _kueues(16),
    "admission_checks_wait_time_seconds": _kueues(14),
    "ready_wait_time_seconds": _kueues(14),
    "admitted_until_ready_wait_time_seconds": _kueues(14),
}
EVICTION_LATENCY: Final = _kueues(14)
