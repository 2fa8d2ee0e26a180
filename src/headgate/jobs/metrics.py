"""What jobs measure: who is held by a gate and since when, how soon Workloads are made, how soon gates come off pods.

Kueue's names where it has some; gated jobs have none there, for it makes a Workload of each. Told by the controllers of
this room; the oldest of each gate is read off a heap, so a page costs the gates and not the jobs. Controllers come and
go, counts stay; what is held is told anew by those who start.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from headgate.kube.exposition import Family, Histograms, Sample, exponential, page
from headgate.waiting.heap import Heap

Held = tuple[str, str]
"""A kind of job, and a gate."""

_GATED: Final = "headgate_gated_jobs"
_OLDEST: Final = "headgate_gated_jobs_oldest_seconds"
_AHEAD: Final = "headgate_terminating_released_pods"
_CREATION: Final = "kueue_workload_creation_latency_seconds"
_REMOVAL: Final = "kueue_pod_scheduling_gate_removal_seconds"
_REMOVAL_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

FAMILIES: Final[Mapping[str, Family]] = {
    _GATED: Family(
        "gauge", "Jobs and pods that have no Workload because of a gate: scheduling-gated-by, or one of others."
    ),
    _OLDEST: Family("gauge", "Age of the oldest of them."),
    _AHEAD: Family("gauge", "Pods that still end while their quota is given to others already."),
    _CREATION: Family("histogram", "From when a job was made until its Workload was."),
    _REMOVAL: Family("histogram", "From the admission of a Workload until the gate was taken off its pod."),
}


class JobMetrics:
    def __init__(self) -> None:
        self._creation: Final = Histograms(_CREATION, exponential(0.01, 2, 11), ("job_kind",))
        self._removal: Final = Histograms(_REMOVAL, _REMOVAL_BOUNDS_S, ("name", "cluster_queue", "is_group"))
        self._gated: Final[dict[Held, Heap[Hashable]]] = {}
        self._by_job: Final[dict[Hashable, Held]] = {}
        self._ahead: Final[dict[Hashable, int]] = {}
        self._ahead_total = 0

    def begin(self) -> None:
        """Controllers start, or have ended: what is held is not known."""
        self._gated.clear()
        self._by_job.clear()
        self._ahead.clear()
        self._ahead_total = 0

    def held(self, job: Hashable, kind: str, gate: str, created_s: float | None) -> None:
        """A job has no Workload because of its gate; or nothing of the sort holds it, if that is empty. ``job``:
        whatever its controller knows it by."""
        if self._by_job.get(job) == (kind, gate):
            return
        self.let_go(job)
        if not gate:
            return
        self._by_job[job] = kind, gate
        self._gated.setdefault((kind, gate), Heap()).put(job, created_s or 0.0)

    def let_go(self, job: Hashable) -> None:
        """A job has a Workload, or may have one, or is gone."""
        known = self._by_job.pop(job, None)
        if known is not None:
            self._gated[known].discard(job)
            if not self._gated[known]:
                del self._gated[known]

    def created(self, kind: str, since_s: float | None, now_s: float) -> None:
        """A Workload was made, of a job that is there since then."""
        if since_s is not None:
            self._creation.at(kind).observe(max(now_s - since_s, 0.0))

    def ungated(self, gate: str, cluster_queue: str, is_group: bool, since_s: float | None, now_s: float) -> None:
        """A gate was taken off a pod that is admitted since then."""
        if since_s is not None:
            group = "true" if is_group else "false"
            self._removal.at(gate, cluster_queue, group).observe(max(now_s - since_s, 0.0))

    def ahead(self, job: Hashable, pods: int) -> None:
        """So many pods of it still end while their quota is free already."""
        self._ahead_total += pods - self._ahead.pop(job, 0)
        if pods:
            self._ahead[job] = pods

    @property
    def terminating_released(self) -> int:
        """How far accounting is ahead of machines."""
        return self._ahead_total

    def page(self, now_s: float) -> bytes:
        return page(FAMILIES, self._samples(now_s))

    def _samples(self, now_s: float) -> Iterator[Sample]:
        for (kind, gate), held in sorted(self._gated.items(), key=lambda item: item[0]):
            labels = ("kind", kind), ("gate", gate)
            yield Sample(_GATED, labels, len(held))
            first = held.first()
            yield Sample(_OLDEST, labels, 0.0 if first is None else max(now_s - first[0], 0.0))
        yield Sample(_AHEAD, (), self._ahead_total)
        yield from self._creation.samples()
        yield from self._removal.samples()
