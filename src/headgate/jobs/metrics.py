"""Metrics of jobs: gated jobs, terminating pods and the ages of the oldest, latencies of Workloads and gate removals.

Kueue's names are used where they exist; it has none for gated jobs, because it creates a Workload for each. The
controllers of this package call the methods of :class:`JobMetrics`. The oldest job of each gate is read from a heap, so
the cost of a scrape depends on the number of gates and not on the number of jobs. Any user may invent gates, so a
limited number have a series of their own, and the others share the gate ``other``. When controllers are replaced, the
histograms keep their counts, and the new controllers report their gated jobs again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from headgate.kube.metrics import HistogramVec, MetricFamily, Sample, exponential_buckets, exposition_text
from headgate.waiting.heap import Heap

GateLabels = tuple[str, str]
"""A kind of job, and a gate."""

_GATED: Final = "headgate_gated_jobs"
_OLDEST: Final = "headgate_gated_jobs_oldest_seconds"
_TERMINATING: Final = "headgate_terminating_released_pods"
_OLDEST_TERMINATING: Final = "headgate_terminating_released_pods_oldest_seconds"
_OVERDUE: Final = "headgate_overdue_released_pods"
_OLDEST_OVERDUE: Final = "headgate_overdue_released_pods_oldest_seconds"
_CREATION: Final = "kueue_workload_creation_latency_seconds"
_REMOVAL: Final = "kueue_pod_scheduling_gate_removal_seconds"
_OTHER: Final = "other"
_MAX_GATES: Final = 100
"""Of all kinds together."""
_REMOVAL_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    _GATED: MetricFamily(
        "gauge",
        "Jobs and pods that have no Workload because of a gate: scheduling-gated-by, or another controller's.",
        ("kind", "gate"),
    ),
    _OLDEST: MetricFamily("gauge", "Age of the oldest of them.", ("kind", "gate")),
    _TERMINATING: MetricFamily("gauge", "Pods that still terminate although their quota is already released."),
    _OLDEST_TERMINATING: MetricFamily("gauge", "How long ago the oldest of them began to terminate."),
    _OVERDUE: MetricFamily(
        "gauge", "Those of them that terminate longer than their grace period and --report-terminating-pods-after."
    ),
    _OLDEST_OVERDUE: MetricFamily("gauge", "How long ago the first grace period of the overdue pods ended."),
    _CREATION: MetricFamily(
        "histogram", "Time from the creation of a job until its Workload was created.", ("job_kind",)
    ),
    _REMOVAL: MetricFamily(
        "histogram",
        "Time from the admission of a Workload until the gate was removed from its pod.",
        ("name", "cluster_queue", "is_group"),
    ),
}


class JobMetrics:
    def __init__(self) -> None:
        self._creation: Final = HistogramVec(_CREATION, exponential_buckets(0.01, 2, 11), ("job_kind",))
        self._removal: Final = HistogramVec(_REMOVAL, _REMOVAL_BOUNDS_S, ("name", "cluster_queue", "is_group"))
        self._gated: Final[dict[GateLabels, Heap[Hashable]]] = {}
        self._by_job: Final[dict[Hashable, GateLabels]] = {}
        self._terminating: Final[Heap[str]] = Heap()  # uids of pods
        self._overdue: Final[Heap[str]] = Heap()

    def reset(self) -> None:
        """Clears the gauges. It is called when the controllers start or end."""
        self._gated.clear()
        self._by_job.clear()
        for uid in list(self._terminating):
            self.pod_gone(uid)

    def job_gated(self, job: Hashable, kind: str, gate: str, created_s: float | None) -> None:
        """Records that a job has no Workload because of its gate; an empty gate removes the record. ``job``: its
        work-queue key."""
        if self._by_job.get(job) == (kind, gate):
            return
        self.job_released(job)
        if not gate:
            return
        if (kind, gate) not in self._gated and len(self._gated) >= _MAX_GATES:
            gate = _OTHER
        self._by_job[job] = kind, gate
        self._gated.setdefault((kind, gate), Heap()).put(job, created_s or 0.0)

    def job_released(self, job: Hashable) -> None:
        """A job is no longer gated, or was deleted."""
        known = self._by_job.pop(job, None)
        if known is not None:
            self._gated[known].discard(job)
            if not self._gated[known]:
                del self._gated[known]

    def created(self, kind: str, since_s: float | None, now_s: float) -> None:
        """A Workload was created for a job that was created at ``since_s``."""
        if since_s is not None:
            self._creation.with_label_values(kind).observe(max(now_s - since_s, 0.0))

    def ungated(self, gate: str, cluster_queue: str, is_group: bool, since_s: float | None, now_s: float) -> None:
        """The gate of a pod that was admitted at ``since_s`` was removed."""
        if since_s is not None:
            group = "true" if is_group else "false"
            self._removal.with_label_values(gate, cluster_queue, group).observe(max(now_s - since_s, 0.0))

    def pod_terminating(self, uid: str, began_s: float, overdue_since_s: float | None = None) -> None:
        """A pod whose quota is released terminates since ``began_s``. ``overdue_since_s``: when its grace period ended,
        if it terminates for too long."""
        if self._terminating.key_of(uid) != began_s:
            self._terminating.put(uid, began_s)
        if overdue_since_s is None:
            self._overdue.discard(uid)
        elif self._overdue.key_of(uid) != overdue_since_s:
            self._overdue.put(uid, overdue_since_s)

    def pod_gone(self, uid: str) -> None:
        """The pod has ended, or its quota is not released."""
        self._terminating.discard(uid)
        self._overdue.discard(uid)

    @property
    def terminating_released(self) -> int:
        """The number of terminating pods whose quota is already released."""
        return len(self._terminating)

    def page(self, now_s: float) -> bytes:
        return exposition_text(FAMILIES, self._samples(now_s))

    def _samples(self, now_s: float) -> Iterator[Sample]:
        for (kind, gate), jobs in sorted(self._gated.items(), key=lambda item: item[0]):
            labels = ("kind", kind), ("gate", gate)
            yield Sample(_GATED, labels, len(jobs))
            first = jobs.first()
            yield Sample(_OLDEST, labels, 0.0 if first is None else max(now_s - first[0], 0.0))
        for count, oldest, pods in (
            (_TERMINATING, _OLDEST_TERMINATING, self._terminating),
            (_OVERDUE, _OLDEST_OVERDUE, self._overdue),
        ):
            first_pod = pods.first()
            yield Sample(count, (), len(pods))
            yield Sample(oldest, (), 0.0 if first_pod is None else max(now_s - first_pod[0], 0.0))
        yield from self._creation.samples()
        yield from self._removal.samples()
