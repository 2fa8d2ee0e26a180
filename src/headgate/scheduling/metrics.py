"""What the scheduler measures, under the names and labels of kube-scheduler's metrics, and a few of our own.

Engine and shell say what happened (:meth:`Metrics.attempted` and its neighbours); that is an addition or two each.
What can be read off a structure is read when somebody asks for the page (:meth:`Metrics.page`): the queue's counters
come in as samples. Buckets are kube-scheduler's, with more on top for plugins and extension points: a roll-back rule of
KEP-3521 asks whether PreEnqueue takes more than 100 ms at the 90th percentile, so a second must be in sight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.kube.exposition import Family, Histograms, Sample, exponential, page
from headgate.scheduling import gate_waits, queue_metrics, slow_calls
from headgate.scheduling.configuration.registry import BUILT_IN, QUEUE_PLUGINS
from headgate.scheduling.gate_waits import GateWaits
from headgate.scheduling.meters import FILTER, POST_FILTER, PRE_FILTER, PRE_SCORE, SCORE, Clock, Watch, no_time
from headgate.scheduling.plugin_failures import PluginFailures
from headgate.scheduling.slow_calls import SlowCalls

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"

GATED_EVENTS_WITHHELD: Final = "headgate_gated_pod_events_withheld_total"
_ATTEMPTS: Final = (*map(str, range(15)), "15+")
_PREEMPTION: Final = "DefaultPreemption"
_OWN: Final = frozenset({*BUILT_IN, *QUEUE_PLUGINS, "QueueAllocation"})
_EVALUATED_AT: Final = (PRE_FILTER, FILTER, PRE_SCORE, SCORE)
_ATTEMPT_BOUNDS_S: Final = exponential(0.001, 2, 15)

FAMILIES: Final[Mapping[str, Family]] = {
    "scheduler_pending_pods": Family("gauge", "Pods that wait, by the queue that they wait in."),
    "scheduler_queue_incoming_pods_total": Family("counter", "Pods that came into a queue, by queue and event."),
    "scheduler_schedule_attempts_total": Family("counter", "Attempts to schedule a pod, by result and profile."),
    "scheduler_scheduling_attempt_duration_seconds": Family(
        "histogram", "How long attempts took, from the queue to the binding, by result and profile."
    ),
    "scheduler_scheduling_algorithm_duration_seconds": Family("histogram", "How long it took to choose a node."),
    "scheduler_framework_extension_point_duration_seconds": Family(
        "histogram", "How long all plugins of an extension point took. One attempt in ten is timed."
    ),
    "scheduler_plugin_execution_duration_seconds": Family(
        "histogram", "How long a plugin took at an extension point. One attempt in ten is timed."
    ),
    "scheduler_plugin_evaluation_total": Family("counter", "How often plugins were asked, by extension point."),
    "scheduler_pod_scheduling_attempts": Family("histogram", "How many attempts it took until a pod was bound."),
    "scheduler_pod_scheduling_sli_duration_seconds": Family(
        "histogram", "From when a pod was first free to be tried until it was bound, by attempts. Gated time is out."
    ),
    "scheduler_preemption_victims": Family("histogram", "How many pods had to go for one that was promised a node."),
    "scheduler_preemption_attempts_total": Family("counter", "How often preemption was tried."),
    "scheduler_permit_wait_duration_seconds": Family("histogram", "How long pods waited for a permit, by result."),
    "scheduler_unschedulable_pods": Family("gauge", "Pods that a plugin turned away and that were not tried since."),
    "scheduler_inflight_events": Family("gauge", "Events that are kept for pods that are being tried."),
    "scheduler_cache_size": Family("gauge", "Nodes, pods with a node, and pods whose binding is under way."),
    slow_calls.NAME: slow_calls.FAMILY,
    GATED_EVENTS_WITHHELD: Family("counter", "Events about gated pods that were not emitted, since there is a limit."),
    gate_waits.GATED_PODS: Family("gauge", "Pods that a scheduling gate holds."),
    gate_waits.OLDEST: Family("gauge", "Age of the oldest pod that a scheduling gate holds."),
    gate_waits.WAITS: Family("histogram", "From a pod's creation until it lost a scheduling gate."),
    **queue_metrics.FAMILIES,
}


class Metrics:
    """``clock`` times plugins and may start anywhere; without one they are counted and not timed. ``day`` tells the
    time of day, if the time that the engines are told is another.
    """

    def __init__(self, clock: Clock | None = None, *, day: Clock | None = None, every: int = 10) -> None:
        self.gates = GateWaits(day=day)
        self.queues = queue_metrics.QueueMetrics()
        self.slow_calls = SlowCalls()
        self.plugin_failures = PluginFailures()
        self.clock: Clock = clock or no_time
        self._timer = clock
        self._every = every
        self._watches: list[Watch] = []
        self._attempts = Histograms(
            "scheduler_scheduling_attempt_duration_seconds", _ATTEMPT_BOUNDS_S, ("result", "profile")
        )
        self._algorithm = Histograms("scheduler_scheduling_algorithm_duration_seconds", _ATTEMPT_BOUNDS_S)
        self._points = Histograms(
            "scheduler_framework_extension_point_duration_seconds",
            exponential(0.0001, 2, 15),
            ("extension_point", "status", "profile"),
        )
        self._plugins = Histograms(
            "scheduler_plugin_execution_duration_seconds",
            exponential(0.00001, 1.5, 30),
            ("plugin", "extension_point", "status"),
        )
        self._tries = Histograms("scheduler_pod_scheduling_attempts", exponential(1, 2, 5))
        self._waits = Histograms(
            "scheduler_pod_scheduling_sli_duration_seconds", exponential(0.01, 2, 20), ("attempts",)
        )
        self._victims = Histograms("scheduler_preemption_victims", exponential(1, 2, 7))
        self._permits = Histograms("scheduler_permit_wait_duration_seconds", _ATTEMPT_BOUNDS_S, ("result",))
        self._decided, self._tried = self._algorithm.at(), self._tries.at()  # at hand: each pod is told to them
        self._histograms = (
            *(self._attempts, self._algorithm, self._points, self._plugins, self._tries),
            *(self._waits, self._victims, self._permits),
        )

    # What happened

    def attempted(self, result: str, profile: str, duration_s: float) -> None:
        """An attempt ended: scheduled (the pod is bound), unschedulable, or in error."""
        self._attempts.at(result, profile).observe(duration_s)

    def decided(self, duration_s: float) -> None:
        """A node was chosen, or none was found."""
        self._decided.observe(duration_s)

    def placed(self, attempts: int, waited_s: float) -> None:
        """A pod is bound, after so many attempts, so long after it was first free to be tried."""
        self._tried.observe(attempts)
        self._waits.at(_ATTEMPTS[min(attempts, 15)]).observe(waited_s)

    def preempted(self, victims: int) -> None:
        """A pod was promised a node that so many have to leave. That it was tried, the plugin's meter tells."""
        self._victims.at().observe(victims)

    def waited_for_permit(self, result: str, duration_s: float) -> None:
        self._permits.at(result).observe(duration_s)

    def watch(self, profile: str) -> Watch:
        """New meters for plugins of a profile: one watch per loop, since each times one round in so many of its own."""
        made = Watch(profile, self._timer, self, self._every, self.plugin_failures)
        self._watches.append(made)
        return made

    def plugin_took(self, plugin: str, point: str, status: str, duration_s: float, /) -> None:
        self._plugins.at(plugin, point, status).observe(duration_s)

    def point_took(self, point: str, status: str, profile: str, duration_s: float, /) -> None:
        self._points.at(point, status, profile).observe(duration_s)

    def times_always(self, plugin: str, /) -> bool:
        return plugin not in _OWN

    def call_took(self, plugin: str, point: str, duration_s: float, now_s: float, /) -> None:
        self.slow_calls.took(plugin, point, duration_s, now_s)

    # What is told

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
        asked: Counter[tuple[str, str, str]] = Counter()
        preemptions = 0
        for watch in self._watches:
            for meter in watch.meters():
                if meter.point in _EVALUATED_AT:
                    asked[meter.point, meter.plugin, watch.profile] += meter.asked
                elif meter.point == POST_FILTER and meter.plugin == _PREEMPTION:
                    preemptions += meter.asked
        yield Sample("scheduler_preemption_attempts_total", (), preemptions)
        for (point, plugin, profile), number in sorted(asked.items()):
            labels = (("extension_point", point), ("plugin", plugin), ("profile", profile))
            yield Sample("scheduler_plugin_evaluation_total", labels, number)

    def page(self, now_s: float, samples: Iterable[Sample] = ()) -> bytes:
        """In Prometheus' text format, with samples that were read off elsewhere."""
        return page(FAMILIES, (*samples, *self.samples(now_s)))
