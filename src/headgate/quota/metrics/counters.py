"""Metrics that are updated with each event: decisions, and the numbers of unadmitted and finished workloads.

``quota/controller/quota_controller.py`` reports a decision after the server has accepted its write, and changes by
other clients (finished, pods ready, quota released) when it observes them. The counts of a deleted queue are removed.
No decision depends on these values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from headgate.kube.metrics import HistogramVec, Labels, Sample
from headgate.quota import names
from headgate.quota.api.workload import Workload
from headgate.quota.metrics.metric_families import (
    BY_CLUSTER_QUEUE,
    BY_LOCAL_QUEUE,
    EVICTION_LATENCY,
    PROMETHEUS,
    WAITS,
    of_cluster_queue,
    of_local_queue,
)
from headgate.quota.status.workload_counters import QueueRef

_CLASS: Final = ("priority_class",)


class WorkloadLabels(msgspec.Struct, frozen=True):
    """The labels of a counted workload. ``cohorts``: all ancestors of its ClusterQueue. ``local_queue``:
    namespace/name."""

    cluster_queue: str
    local_queue: str
    priority_class: str = ""
    cohorts: tuple[str, ...] = ()


class AdmissionCounters:
    """Counters and histograms of reservations, admissions, evictions and preemptions, by queue."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._waits: Final = {
            what: (
                HistogramVec(of_cluster_queue(what), bounds, (*BY_CLUSTER_QUEUE, *_CLASS)),
                HistogramVec(of_local_queue(what), bounds, (*BY_LOCAL_QUEUE, *_CLASS)),
            )
            for what, bounds in WAITS.items()
        }
        self._latency: Final = HistogramVec(
            "kueue_workload_eviction_latency_seconds", EVICTION_LATENCY, ("cluster_queue", "reason")
        )
        self._attempts: Final = HistogramVec("kueue_admission_attempt_duration_seconds", PROMETHEUS, ("result",))

    # Decisions that the server has accepted.

    def reserved(self, workload_labels: WorkloadLabels, waited_s: float) -> None:
        self._count("quota_reserved_workloads_total", workload_labels, _class_labels(workload_labels))
        self._wait("quota_reserved_wait_time_seconds", workload_labels, waited_s)

    def admitted(self, workload_labels: WorkloadLabels, waited_s: float, checked_s: float) -> None:
        """``waited_s``: the time since the workload was queued; ``checked_s``: the time since its quota was
        reserved."""
        self._count("admitted_workloads_total", workload_labels, _class_labels(workload_labels))
        for cohort in workload_labels.cohorts:
            labels = (("cohort", cohort), *_class_labels(workload_labels))
            self._counts["kueue_cohort_subtree_admitted_workloads_total", labels] += 1
        self._wait("admission_wait_time_seconds", workload_labels, waited_s)
        self._wait("admission_checks_wait_time_seconds", workload_labels, checked_s)

    def evicted(self, workload_labels: WorkloadLabels, reason: str, cause: str, is_first: bool) -> None:
        labels = (("reason", reason), ("underlying_cause", cause), *_class_labels(workload_labels))
        self._count("evicted_workloads_total", workload_labels, labels)
        if is_first:
            name, queue = (
                of_cluster_queue("evicted_workloads_once_total"),
                ("cluster_queue", workload_labels.cluster_queue),
            )
            self._counts[name, (queue, *labels)] += 1

    def preempted(self, by_cluster_queue: str, reason: str) -> None:
        labels = (("preempting_cluster_queue", by_cluster_queue), ("reason", reason))
        self._counts["kueue_preempted_workloads_total", labels] += 1

    def attempted(self, has_admitted: bool, took_s: float) -> None:
        result = "success" if has_admitted else "inadmissible"
        self._counts["kueue_admission_attempts_total", (("result", result),)] += 1
        self._attempts.with_label_values(result).observe(took_s)

    # Observed changes of objects.

    def workload_changed(
        self, before: Workload, after: Workload | None, workload_labels: WorkloadLabels, now_s: float
    ) -> None:
        """A workload changed or was deleted."""
        if before.holds_quota and before.is_evicted and (after is None or not after.holds_quota):
            evicted = before.conditions[names.EVICTED]
            self._latency.with_label_values(workload_labels.cluster_queue, evicted.reason).observe(
                max(now_s - evicted.since_s, 0.0)
            )
        if after is None:
            return
        if after.is_finished and not before.is_finished:
            self._count("finished_workloads_total", workload_labels, _class_labels(workload_labels))
        ready, admitted = after.conditions.get(names.PODS_READY), after.conditions.get(names.ADMITTED)
        if ready is None or admitted is None or before.has(names.PODS_READY):
            return
        if ready.is_true and ready.reason == "Started" and admitted.is_true:
            self._wait("ready_wait_time_seconds", workload_labels, ready.since_s - queued_s(after))
            self._wait("admitted_until_ready_wait_time_seconds", workload_labels, ready.since_s - admitted.since_s)

    def forget(self, queue_ref: QueueRef) -> None:
        for name, labels in [each for each in self._counts if _is_of(queue_ref, each[1])]:
            del self._counts[name, labels]
        for of_cluster, of_local in self._waits.values():
            _forget(of_cluster if queue_ref[0] == "cluster queue" else of_local, queue_ref)
        if queue_ref[0] == "cluster queue":
            _forget(self._latency, queue_ref)

    def samples(self) -> Iterator[Sample]:
        for (name, labels), count in sorted(self._counts.items()):
            yield Sample(name, labels, count)
        for pair in self._waits.values():
            for each in pair:
                yield from each.samples()
        yield from self._latency.samples()
        yield from self._attempts.samples()

    # Private.

    def _count(self, metric: str, workload_labels: WorkloadLabels, further_labels: Labels) -> None:
        self._counts[of_cluster_queue(metric), (("cluster_queue", workload_labels.cluster_queue), *further_labels)] += 1
        self._counts[of_local_queue(metric), (*local_labels(workload_labels.local_queue), *further_labels)] += 1

    def _wait(self, metric: str, workload_labels: WorkloadLabels, waited_s: float) -> None:
        of_cluster, of_local = self._waits[metric]
        namespace, _, name = workload_labels.local_queue.partition("/")
        of_cluster.with_label_values(workload_labels.cluster_queue, workload_labels.priority_class).observe(
            max(waited_s, 0.0)
        )
        of_local.with_label_values(name, namespace, workload_labels.priority_class).observe(max(waited_s, 0.0))


def queued_s(workload: Workload) -> float:
    """The time at which the workload was queued: its creation, or its last requeue."""
    requeued = workload.conditions.get(names.REQUEUED)
    return requeued.since_s if requeued is not None and requeued.is_true else workload.created_s


def local_labels(local_queue: str) -> Labels:
    namespace, _, name = local_queue.partition("/")
    return ("name", name), ("namespace", namespace)


def _class_labels(workload_labels: WorkloadLabels) -> Labels:
    return (("priority_class", workload_labels.priority_class),)


def _is_of(queue_ref: QueueRef, labels: Labels) -> bool:
    kind, name = queue_ref
    if kind == "local queue":
        return labels[:2] == local_labels(name)
    return labels[0] in (("cluster_queue", name), ("preempting_cluster_queue", name))


def _forget(histograms: HistogramVec, queue_ref: QueueRef) -> None:
    kind, key = queue_ref
    namespace, _, name = key.partition("/")
    wanted = (key,) if kind == "cluster queue" else (name, namespace)
    for values in [values for values, _ in histograms.items()]:
        if values[: len(wanted)] == wanted:
            histograms.delete_label_values(*values)


class UnadmittedEntry(msgspec.Struct, frozen=True):
    """Why one workload is not admitted. ``cluster_queue``: where its quota is reserved; empty without a reservation.
    ``reason`` and ``cause``: the labels of the metric; both are empty for a finished workload."""

    cluster_queue: str
    local_queue: str
    reason: str = ""
    cause: str = ""


class UnadmittedWorkloads:
    """The number of unadmitted and finished workloads, by queue, reason and cause."""

    def __init__(self) -> None:
        self._entries: Final[dict[str, UnadmittedEntry]] = {}
        self._counts: Final[Counter[UnadmittedEntry]] = Counter()

    def put(self, key: str, workload: Workload | None) -> None:
        entry = None if workload is None else _unadmitted_entry(workload)
        before = self._entries.get(key)
        if before == entry:
            return
        if before is not None:
            del self._entries[key]
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if entry is not None:
            self._entries[key] = entry
            self._counts[entry] += 1

    def samples(self, cluster_queue_of: Callable[[str], str]) -> Iterator[Sample]:
        """``cluster_queue_of``: the present ClusterQueue of a LocalQueue. Workloads without one are left out."""
        counts: Counter[Sample] = Counter()
        for entry, count in self._counts.items():
            queue = entry.cluster_queue or cluster_queue_of(entry.local_queue)
            if not queue:
                continue
            of_queue, local = (("cluster_queue", queue),), local_labels(entry.local_queue)
            if not entry.reason:
                counts[Sample(of_cluster_queue("finished_workloads"), of_queue, 0)] += count
                counts[Sample(of_local_queue("finished_workloads"), local, 0)] += count
                continue
            reason_labels = (("reason", entry.reason), ("underlying_cause", entry.cause))
            counts[Sample(of_cluster_queue("unadmitted_workloads"), (*of_queue, *reason_labels), 0)] += count
            counts[Sample(of_local_queue("unadmitted_workloads"), (*local, *of_queue, *reason_labels), 0)] += count
        for sample, count in sorted(counts.items()):
            yield Sample(sample.name, sample.labels, count)


def _unadmitted_entry(workload: Workload) -> UnadmittedEntry | None:
    queue = "" if workload.admission is None else workload.admission.cluster_queue
    if workload.is_finished:
        return UnadmittedEntry(queue, workload.queue_key)
    if workload.has(names.ADMITTED) or workload.is_terminating:
        return None
    admitted, reserved = workload.conditions.get(names.ADMITTED), workload.conditions.get(names.QUOTA_RESERVED)
    reason = names.NO_RESERVATION if admitted is None else admitted.reason
    cause = names.PENDING_EVALUATION if reserved is None else "" if reserved.is_true else reserved.reason
    return UnadmittedEntry(queue, workload.queue_key, reason or names.NO_RESERVATION, cause)
