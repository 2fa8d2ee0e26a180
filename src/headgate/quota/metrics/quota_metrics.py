"""The metrics of quota in one process: receives events and renders the metrics.

Only the replica that leads has a quota engine (``quota/engine.py``); other replicas export no gauges. The counters are
kept when leadership changes. ``counters.py`` counts events, ``gauges.py`` reads the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headgate.kube.metrics import Sample, exposition_text
from headgate.quota import effects, names
from headgate.quota.api.eviction_stats import has_eviction
from headgate.quota.api.workload import Workload
from headgate.quota.engine import QuotaEngine
from headgate.quota.metrics import gauges
from headgate.quota.metrics.counters import AdmissionCounters, UnadmittedWorkloads, WorkloadLabels, queued_s
from headgate.quota.metrics.metric_families import FAMILIES
from headgate.quota.status.workload_counters import QueueRef, WorkloadCounters

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""
Clock = Callable[[], float]


def zero_clock() -> float:
    return 0.0


class QuotaMetrics:
    """``clock`` times decisions; its origin does not matter. ``version``: the version of this program."""

    def __init__(self, clock: Clock = zero_clock, version: str = "") -> None:
        self.clock = clock
        self._version = version
        self._counters = AdmissionCounters()
        self._unadmitted = UnadmittedWorkloads()
        self._view: tuple[QuotaEngine, WorkloadCounters] | None = None

    def attach(self, engine: QuotaEngine, counters: WorkloadCounters) -> None:
        """This replica leads now: gauges are read from this engine and these counters."""
        self._view, self._unadmitted = (engine, counters), UnadmittedWorkloads()

    def detach(self) -> None:
        """This replica does not lead any more."""
        self._view, self._unadmitted = None, UnadmittedWorkloads()

    def page(self) -> bytes:
        found = [Sample("kueue_build_info", (("git_version", self._version), ("compiler", "cpython")), 1)]
        found += self._counters.samples()
        if self._view is not None:
            found += self._unadmitted.samples(self._cluster_queue_of)
            found += gauges.samples(*self._view)
        return exposition_text(FAMILIES, found)

    # Events.

    def attempted(self, decided: Iterable[effects.Effect], took_s: float) -> None:
        self._counters.attempted(any(isinstance(each, effects.Admit) for each in decided), took_s)

    def workload_changed(
        self, obj: JSONObject | None, before: Workload | None, after: Workload | None, now_s: float
    ) -> None:
        """A workload was created, changed or deleted; ``obj``: its last version from the server."""
        known = after or before
        if known is None:
            return
        self._unadmitted.put(known.key, after)
        is_unchanged = before is not None and after is not None and before.conditions == after.conditions
        if before is not None and not is_unchanged and (after is None or after.uid == before.uid):
            workload_labels = self._labels_of(obj or {}, before if before.holds_quota else known)
            self._counters.workload_changed(before, after, workload_labels, now_s)

    def effects_written(
        self, obj: JSONObject, workload: Workload, done: Iterable[effects.Effect], now_s: float
    ) -> None:
        """Effects were written. ``workload``: its state before the write."""
        workload_labels = self._labels_of(obj, workload)
        for effect in done:
            match effect:
                case effects.Admit(_, _, admission, is_admitted, waited_s):
                    reserved_labels = self._with_cluster_queue(workload_labels, admission.cluster_queue)
                    self._counters.reserved(reserved_labels, waited_s)
                    if is_admitted:
                        self._counters.admitted(reserved_labels, waited_s, 0.0)
                case effects.SetCondition(_, _, names.ADMITTED, True):
                    reserved = workload.conditions.get(names.QUOTA_RESERVED)
                    checked_s = 0.0 if reserved is None else now_s - reserved.since_s
                    self._counters.admitted(workload_labels, now_s - queued_s(workload), checked_s)
                case effects.Evict():
                    is_first = not has_eviction(obj, effect.reason, effect.cause)
                    self._counters.evicted(workload_labels, effect.reason, effect.cause, is_first)
                    if effect.preempted:
                        self._counters.preempted(self._queue_of(effect.preemptor), effect.preempted)

    def queue_removed(self, queue_ref: QueueRef) -> None:
        self._counters.forget(queue_ref)

    # Private.

    def _labels_of(self, obj: JSONObject, workload: Workload) -> WorkloadLabels:
        reference = (obj.get("spec") or {}).get("priorityClassRef") or {}
        workload_labels = WorkloadLabels("", workload.queue_key, str(reference.get("name", "")))
        if workload.admission is not None:
            return self._with_cluster_queue(workload_labels, workload.admission.cluster_queue)
        return self._with_cluster_queue(workload_labels, self._cluster_queue_of(workload.queue_key))

    def _with_cluster_queue(self, workload_labels: WorkloadLabels, cluster_queue: str) -> WorkloadLabels:
        node = None if self._view is None else self._view[0].ledger.now.queue(cluster_queue)
        cohorts = tuple(each.name for each in gauges.cohorts_above(node))
        return WorkloadLabels(cluster_queue, workload_labels.local_queue, workload_labels.priority_class, cohorts)

    def _queue_of(self, key: str) -> str:
        workload = None if self._view is None else self._view[0].workloads.get(key)
        return "" if workload is None else self._cluster_queue_of(workload.queue_key)

    def _cluster_queue_of(self, local_queue: str) -> str:
        local = None if self._view is None else self._view[0].cache.local_queues.get(local_queue)
        return "" if local is None else local.cluster_queue
