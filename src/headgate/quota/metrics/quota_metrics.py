"""The metrics of quota in one process: receives events and renders the page. Engines are replaced; counts stay.

A replica that does not lead has no engine and exports no gauges. ``counters.py`` counts events, ``gauges.py`` reads the
engine.
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

Wire = Mapping[str, Any]
Clock = Callable[[], float]


def zero_clock() -> float:
    return 0.0


class QuotaMetrics:
    """``clock`` times decisions and may start anywhere; ``version``: of this program."""

    def __init__(self, clock: Clock = zero_clock, version: str = "") -> None:
        self.clock = clock
        self._version = version
        self._tallies = AdmissionCounters()
        self._roll = UnadmittedWorkloads()
        self._view: tuple[QuotaEngine, WorkloadCounters] | None = None

    def attach(self, engine: QuotaEngine, census: WorkloadCounters) -> None:
        self._view, self._roll = (engine, census), UnadmittedWorkloads()

    def detach(self) -> None:
        self._view, self._roll = None, UnadmittedWorkloads()

    def page(self) -> bytes:
        found = [Sample("kueue_build_info", (("git_version", self._version), ("compiler", "cpython")), 1)]
        found += self._tallies.samples()
        if self._view is not None:
            found += self._roll.samples(self._led)
            found += gauges.samples(*self._view)
        return exposition_text(FAMILIES, found)

    # What happens.

    def attempted(self, decided: Iterable[effects.Effect], took_s: float) -> None:
        self._tallies.attempted(any(isinstance(each, effects.Admit) for each in decided), took_s)

    def workload_changed(
        self, wire: Wire | None, before: Workload | None, after: Workload | None, now_s: float
    ) -> None:
        """A workload is there, is another one, or is gone; ``wire``: as the server showed it last."""
        known = after or before
        if known is None:
            return
        self._roll.put(known.key, after)
        is_told = before is not None and after is not None and before.conditions == after.conditions
        if before is not None and not is_told and (after is None or after.uid == before.uid):
            about = self._about(wire or {}, before if before.holds_quota else known)
            self._tallies.workload_changed(before, after, about, now_s)

    def effects_written(self, wire: Wire, workload: Workload, done: Iterable[effects.Effect], now_s: float) -> None:
        """The server has what was decided for a workload, which was this before."""
        about = self._about(wire, workload)
        for effect in done:
            match effect:
                case effects.Admit(_, _, admission, is_admitted, waited_s):
                    given = self._given(about, admission.cluster_queue)
                    self._tallies.reserved(given, waited_s)
                    if is_admitted:
                        self._tallies.admitted(given, waited_s, 0.0)
                case effects.SetCondition(_, _, names.ADMITTED, True):
                    reserved = workload.conditions.get(names.QUOTA_RESERVED)
                    checked_s = 0.0 if reserved is None else now_s - reserved.since_s
                    self._tallies.admitted(about, now_s - queued_s(workload), checked_s)
                case effects.Evict():
                    is_first = not has_eviction(wire, effect.reason, effect.cause)
                    self._tallies.evicted(about, effect.reason, effect.cause, is_first)
                    if effect.preempted:
                        self._tallies.preempted(self._queue_of(effect.preemptor), effect.preempted)

    def queue_removed(self, place: QueueRef) -> None:
        self._tallies.forget(place)

    # Inside.

    def _about(self, wire: Wire, workload: Workload) -> WorkloadLabels:
        reference = (wire.get("spec") or {}).get("priorityClassRef") or {}
        about = WorkloadLabels("", workload.queue_key, str(reference.get("name", "")))
        if workload.admission is not None:
            return self._given(about, workload.admission.cluster_queue)
        return self._given(about, self._led(workload.queue_key))

    def _given(self, about: WorkloadLabels, cluster_queue: str) -> WorkloadLabels:
        node = None if self._view is None else self._view[0].ledger.now.queue(cluster_queue)
        cohorts = tuple(each.name for each in gauges.cohorts_above(node))
        return WorkloadLabels(cluster_queue, about.local_queue, about.priority_class, cohorts)

    def _queue_of(self, key: str) -> str:
        workload = None if self._view is None else self._view[0].workloads.get(key)
        return "" if workload is None else self._led(workload.queue_key)

    def _led(self, local_queue: str) -> str:
        local = None if self._view is None else self._view[0].cache.local_queues.get(local_queue)
        return "" if local is None else local.cluster_queue
