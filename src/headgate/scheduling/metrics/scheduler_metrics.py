"""Metrics of the scheduler, under kube-scheduler's names and labels, and some of Headgate's own.

The scheduler and ``runtime/scheduler/`` report what happened (:meth:`SchedulerMetrics.attempted` and others) at the
cost of an addition or two. Values that can be read from a structure are read on each scrape
(:meth:`SchedulerMetrics.exposition`); the counters of the scheduling queue are passed in as samples. Buckets are
kube-scheduler's, with larger ones for plugins and extension points: a roll-back rule of KEP-3521 asks whether
PreEnqueue takes more than 100 ms at the 90th percentile, so values up to a second must be visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.kube.metrics import HistogramVec, MetricFamily, Sample, exponential_buckets, exposition_text
from headgate.scheduling.config.plugin_registry import BUILT_IN, QUEUE_PLUGINS
from headgate.scheduling.framework.plugin_failures import PluginFailures
from headgate.scheduling.framework.plugin_timers import (
    FILTER,
    POST_FILTER,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    ProfileTimers,
    TimerClock,
    no_time,
)
from headgate.scheduling.metrics import capacity_queue_metrics, gate_metrics, slow_plugin_calls
from headgate.scheduling.metrics.gate_metrics import GateMetrics
from headgate.scheduling.metrics.slow_plugin_calls import SlowPluginCalls

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"

GATED_EVENTS_WITHHELD: Final = "headgate_gated_pod_events_withheld_total"
_ATTEMPTS: Final = (*map(str, range(15)), "15+")
_PREEMPTION: Final = "DefaultPreemption"
_HEADGATE_PLUGINS: Final = frozenset({*BUILT_IN, *QUEUE_PLUGINS, "QueueAllocation"})
_EVALUATED_AT: Final = (PRE_FILTER, FILTER, PRE_SCORE, SCORE)
_ATTEMPT_BOUNDS_S: Final = exponential_buckets(0.001, 2, 15)

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    "scheduler_pending_pods": MetricFamily("gauge", "Pods that wait, by the queue that they wait in.", ("queue",)),
    "scheduler_queue_incoming_pods_total": MetricFamily(
        "counter", "Pods that came into a queue, by queue and event.", ("event", "queue")
    ),
    "scheduler_schedule_attempts_total": MetricFamily(
        "counter", "Attempts to schedule a pod, by result and profile.", ("profile", "result")
    ),
    "scheduler_scheduling_attempt_duration_seconds": MetricFamily(
        "histogram",
        "How long attempts took, from the queue to the binding, by result and profile.",
        ("result", "profile"),
    ),
    "scheduler_scheduling_algorithm_duration_seconds": MetricFamily("histogram", "How long it took to choose a node."),
    "scheduler_framework_extension_point_duration_seconds": MetricFamily(
        "histogram",
        "How long all plugins of an extension point took. One attempt in ten is timed.",
        ("extension_point", "status", "profile"),
    ),
    "scheduler_plugin_execution_duration_seconds": MetricFamily(
        "histogram",
        "How long a plugin took at an extension point. One attempt in ten is timed.",
        ("plugin", "extension_point", "status"),
    ),
    "scheduler_plugin_evaluation_total": MetricFamily(
        "counter", "Calls of plugins, by extension point.", ("extension_point", "plugin", "profile")
    ),
    "scheduler_pod_scheduling_attempts": MetricFamily("histogram", "How many attempts it took until a pod was bound."),
    "scheduler_pod_scheduling_sli_duration_seconds": MetricFamily(
        "histogram",
        "Time from when a pod was first ready to be tried until it was bound, by attempts, without gated time.",
        ("attempts",),
    ),
    "scheduler_preemption_victims": MetricFamily("histogram", "How many pods were preempted for one nominated pod."),
    "scheduler_preemption_attempts_total": MetricFamily("counter", "How often preemption was tried."),
    "scheduler_permit_wait_duration_seconds": MetricFamily(
        "histogram", "How long pods waited for a permit, by result.", ("result",)
    ),
    "scheduler_unschedulable_pods": MetricFamily(
        "gauge", "Pods that a plugin rejected and that were not tried since.", ("plugin", "profile")
    ),
    "scheduler_inflight_events": MetricFamily(
        "gauge", "Events that are kept for pods that are being tried.", ("event",)
    ),
    "scheduler_cache_size": MetricFamily(
        "gauge", "Nodes, pods with a node, and pods whose binding is in progress.", ("type",)
    ),
    slow_plugin_calls.NAME: slow_plugin_calls.FAMILY,
    GATED_EVENTS_WITHHELD: MetricFamily(
        "counter", "Events about gated pods that were not emitted because of the limit."
    ),
    gate_metrics.GATED_PODS: MetricFamily("gauge", "Pods that a scheduling gate holds.", ("gate",)),
    gate_metrics.OLDEST: MetricFamily("gauge", "Age of the oldest pod that a scheduling gate holds.", ("gate",)),
    gate_metrics.WAITS: MetricFamily(
        "histogram", "Time from a pod's creation until a scheduling gate was removed.", ("gate",)
    ),
    **capacity_queue_metrics.FAMILIES,
}


class SchedulerMetrics:
    """``clock`` times plugins; its origin does not matter. Without it calls are counted and not timed. ``every``: one
    of this many attempts is timed. ``wall_clock`` returns the time since 1970, if ``now_s`` of other calls is from
    another clock."""

    def __init__(
        self, clock: TimerClock | None = None, *, wall_clock: TimerClock | None = None, every: int = 10
    ) -> None:
        self.gates = GateMetrics(wall_clock=wall_clock)
        self.queues = capacity_queue_metrics.CapacityQueueMetrics()
        self.slow_calls = SlowPluginCalls()
        self.plugin_failures = PluginFailures()
        self.clock: TimerClock = clock or no_time
        self._timer_clock = clock
        self._every = every
        self._profile_timers: list[ProfileTimers] = []
        self._attempts = HistogramVec(
            "scheduler_scheduling_attempt_duration_seconds", _ATTEMPT_BOUNDS_S, ("result", "profile")
        )
        self._algorithm = HistogramVec("scheduler_scheduling_algorithm_duration_seconds", _ATTEMPT_BOUNDS_S)
        self._points = HistogramVec(
            "scheduler_framework_extension_point_duration_seconds",
            exponential_buckets(0.0001, 2, 15),
            ("extension_point", "status", "profile"),
        )
        self._plugins = HistogramVec(
            "scheduler_plugin_execution_duration_seconds",
            exponential_buckets(0.00001, 1.5, 30),
            ("plugin", "extension_point", "status"),
        )
        self._attempt_counts = HistogramVec("scheduler_pod_scheduling_attempts", exponential_buckets(1, 2, 5))
        self._sli_durations = HistogramVec(
            "scheduler_pod_scheduling_sli_duration_seconds", exponential_buckets(0.01, 2, 20), ("attempts",)
        )
        self._victims = HistogramVec("scheduler_preemption_victims", exponential_buckets(1, 2, 7))
        self._permit_waits = HistogramVec("scheduler_permit_wait_duration_seconds", _ATTEMPT_BOUNDS_S, ("result",))
        # Looked up once, because they are used for each pod.
        self._decided = self._algorithm.with_label_values()
        self._tried = self._attempt_counts.with_label_values()
        self._histograms = (
            *(self._attempts, self._algorithm, self._points, self._plugins, self._attempt_counts),
            *(self._sli_durations, self._victims, self._permit_waits),
        )

    # Observations

    def attempted(self, result: str, profile: str, duration_s: float) -> None:
        """An attempt ended: scheduled (the pod is bound), unschedulable, or in error."""
        self._attempts.with_label_values(result, profile).observe(duration_s)

    def decided(self, duration_s: float) -> None:
        """A node was chosen, or none was found."""
        self._decided.observe(duration_s)

    def placed(self, attempts: int, waited_s: float) -> None:
        """A pod was bound: the number of attempts, and the time since it could first be tried."""
        self._tried.observe(attempts)
        self._sli_durations.with_label_values(_ATTEMPTS[min(attempts, 15)]).observe(waited_s)

    def preempted(self, victims: int) -> None:
        """A pod was nominated to a node, with this number of victims. The plugin's timer counts the attempts."""
        self._victims.with_label_values().observe(victims)

    def waited_for_permit(self, result: str, duration_s: float) -> None:
        self._permit_waits.with_label_values(result).observe(duration_s)

    def timers(self, profile: str) -> ProfileTimers:
        """New timers for the plugins of a profile. Each caller needs its own, because each times one in ``every`` of
        its own attempts."""
        timers = ProfileTimers(profile, self._timer_clock, self, self._every, self.plugin_failures)
        self._profile_timers.append(timers)
        return timers

    def plugin_took(self, plugin: str, point: str, status: str, duration_s: float, /) -> None:
        self._plugins.with_label_values(plugin, point, status).observe(duration_s)

    def point_took(self, point: str, status: str, profile: str, duration_s: float, /) -> None:
        self._points.with_label_values(point, status, profile).observe(duration_s)

    def times_always(self, plugin: str, /) -> bool:
        return plugin not in _HEADGATE_PLUGINS

    def call_took(self, plugin: str, point: str, duration_s: float, now_s: float, /) -> None:
        self.slow_calls.took(plugin, point, duration_s, now_s)

    # Reports

    def samples(self, now_s: float) -> Iterator[Sample]:
        for (result, profile), each in self._attempts.items():
            labels = (("profile", profile), ("result", result))
            yield Sample("scheduler_schedule_attempts_total", labels, each.count)
        for histograms in self._histograms:
            yield from histograms.samples()
        yield from self._evaluations()
        yield from self.slow_calls.samples()
        yield from self.gates.samples(now_s)

    def _evaluations(self) -> Iterator[Sample]:
        calls: Counter[tuple[str, str, str]] = Counter()
        preemptions = 0
        for timers in self._profile_timers:
            for timer in timers.timers():
                if timer.point in _EVALUATED_AT:
                    calls[timer.point, timer.plugin, timers.profile] += timer.calls
                elif timer.point == POST_FILTER and timer.plugin == _PREEMPTION:
                    preemptions += timer.calls
        yield Sample("scheduler_preemption_attempts_total", (), preemptions)
        for (point, plugin, profile), number in sorted(calls.items()):
            labels = (("extension_point", point), ("plugin", plugin), ("profile", profile))
            yield Sample("scheduler_plugin_evaluation_total", labels, number)

    def exposition(self, now_s: float, samples: Iterable[Sample] = ()) -> bytes:
        """The Prometheus text format of all metrics, with samples from other components."""
        return exposition_text(FAMILIES, (*samples, *self.samples(now_s)))
