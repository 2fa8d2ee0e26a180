"""Metrics of jobs: gated jobs and since when, the latency of Workload creation, the latency of gate removal.

Kueue's names are used where they exist; it has none for gated jobs, because it creates a Workload for each. The
controllers of this package report here. The oldest job of each gate is read from a heap, so a scrape costs the gates
and not the jobs. Controllers may be replaced: counts stay, and a new controller reports its gated jobs again.
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
_AHEAD: Final = "headgate_terminating_released_pods"
_CREATION: Final = "kueue_workload_creation_latency_seconds"
_REMOVAL: Final = "kueue_pod_scheduling_gate_removal_seconds"
_REMOVAL_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    _GATED: MetricFamily(
        "gauge",
        "Jobs and pods that have no Workload because of a gate: scheduling-gated-by, or another controller's.",
    ),
    _OLDEST: MetricFamily("gauge", "Age of the oldest of them."),
    _AHEAD: MetricFamily("gauge", "Pods that still terminate although their quota is already released."),
    _CREATION: MetricFamily("histogram", "From when a job was created until its Workload was."),
    _REMOVAL: MetricFamily("histogram", "From the admission of a Workload until the gate was removed from its pod."),
}


class JobMetrics:
    def __init__(self) -> None:
        self._creation: Final = HistogramVec(_CREATION, exponential_buckets(0.01, 2, 11), ("job_kind",))
        self._removal: Final = HistogramVec(_REMOVAL, _REMOVAL_BOUNDS_S, ("name", "cluster_queue", "is_group"))
        self._gated: Final[dict[GateLabels, Heap[Hashable]]] = {}
        self._by_job: Final[dict[Hashable, GateLabels]] = {}
        self._ahead: Final[dict[Hashable, int]] = {}
        self._ahead_total = 0

    def reset(self) -> None:
        """Clears the gauges, when controllers start or end."""
        self._gated.clear()
        self._by_job.clear()
        self._ahead.clear()
        self._ahead_total = 0

    def job_gated(self, job: Hashable, kind: str, gate: str, created_s: float | None) -> None:
        """Records that a job has no Workload because of its gate; an empty gate removes the record. ``job``: the key of
        its controller."""
        if self._by_job.get(job) == (kind, gate):
            return
        self.job_released(job)
        if not gate:
            return
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

    def set_terminating_released(self, job: Hashable, pods: int) -> None:
        """Sets the number of terminating pods of a job whose quota is already released."""
        self._ahead_total += pods - self._ahead.pop(job, 0)
        if pods:
            self._ahead[job] = pods

    @property
    def terminating_released(self) -> int:
        """The number of terminating pods whose quota is already released."""
        return self._ahead_total

    def page(self, now_s: float) -> bytes:
        return exposition_text(FAMILIES, self._samples(now_s))

    def _samples(self, now_s: float) -> Iterator[Sample]:
        for (kind, gate), jobs in sorted(self._gated.items(), key=lambda item: item[0]):
            labels = ("kind", kind), ("gate", gate)
            yield Sample(_GATED, labels, len(jobs))
            first = jobs.first()
            yield Sample(_OLDEST, labels, 0.0 if first is None else max(now_s - first[0], 0.0))
        yield Sample(_AHEAD, (), self._ahead_total)
        yield from self._creation.samples()
        yield from self._removal.samples()
