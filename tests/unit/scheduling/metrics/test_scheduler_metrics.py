"""The exposition of metrics, parsed by the Prometheus client."""

from __future__ import annotations

from typing import Any

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from clusters import Cluster, a_node
from clusters import a_pod as wire_pod
from headgate.kube.metrics import Sample, exponential_buckets
from headgate.scheduling.framework.interface import CyclePlugins, Rejection
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle
from headgate.scheduling.metrics.scheduler_metrics import ERROR, FAMILIES, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from unit.scheduling.pods import PROFILE, START_S, Allows, APod, Raises, a_pod


class Time:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


class Slow:
    """A PreEnqueue plugin that takes its time."""

    name = "Slow"

    def __init__(self, time: Time, takes_s: float) -> None:
        self._time, self._takes_s = time, takes_s

    def pre_enqueue(self, pod: Any, /) -> Rejection | None:
        self._time.now_s += self._takes_s
        return None


def families(metrics: SchedulerMetrics, samples: tuple[Sample, ...] = ()) -> dict[str, Metric]:
    found = {
        each.name: each for each in text_string_to_metric_families(metrics.exposition(START_S + 5, samples).decode())
    }
    # The parser takes the end off the names of counters.
    return {name if each.type != "counter" else f"{name}_total": each for name, each in found.items()}


def quantile(share: float, family: Metric, **labels: str) -> float:
    """The bound under which that share of the observations lies."""
    buckets = [
        (float(each.labels["le"]), each.value)
        for each in family.samples
        if each.name.endswith("_bucket") and labels.items() <= each.labels.items()
    ]
    wanted = share * max(count for _, count in buckets)
    return min(bound for bound, count in buckets if count >= wanted)


def queue_with(metrics: SchedulerMetrics, *plugins: Any) -> SchedulingQueue[APod]:
    return SchedulingQueue({PROFILE: plugins}, PrioritySort(), metrics=metrics)


# The KEP's roll-back rule


def test_a_pre_enqueue_plugin_above_100_ms_at_the_ninetieth_percentile_is_visible() -> None:
    time = Time()
    metrics = SchedulerMetrics(time)
    queue = queue_with(metrics, Slow(time, 0.15), Allows("fine"))
    for number in range(200):
        queue.add(a_pod(f"p{number}", labels={"fine": ""}), START_S)
    found = families(metrics)
    plugins = found["scheduler_plugin_execution_duration_seconds"]
    assert 0.1 < quantile(0.9, plugins, plugin="Slow", extension_point="PreEnqueue") < 0.3
    assert quantile(0.9, plugins, plugin="Allows", extension_point="PreEnqueue") < 0.1
    points = found["scheduler_framework_extension_point_duration_seconds"]
    assert 0.1 < quantile(0.9, points, extension_point="PreEnqueue", profile=PROFILE) < 0.3


def test_durations_of_a_second_and_of_100_ms_are_in_different_buckets() -> None:
    for name in ("scheduler_plugin_execution_duration_seconds", "scheduler_framework_extension_point_duration_seconds"):
        metrics = SchedulerMetrics()
        metrics.plugin_took("Slow", "Filter", "Success", 0.9)
        metrics.point_took("Filter", "Success", PROFILE, 0.9)
        assert 0.9 <= quantile(0.9, families(metrics)[name]) < float("inf")


def test_a_pre_enqueue_plugin_is_recorded_with_its_status() -> None:
    """kube-scheduler always records success at this extension point."""
    metrics = SchedulerMetrics(Time(), every=1)
    queue = queue_with(metrics, Allows("fine"))
    queue.add(a_pod("fine", labels={"fine": ""}), START_S)
    queue.add(a_pod("held"), START_S)
    queue_with(metrics, Raises()).add(a_pod("broken"), START_S)
    for name in ("scheduler_plugin_execution_duration_seconds", "scheduler_framework_extension_point_duration_seconds"):
        labels = [each.labels for each in families(metrics)[name].samples if each.name.endswith("_count")]
        assert {each["status"] for each in labels} == {"Success", "UnschedulableAndUnresolvable", "Error"}


# Attempts


def test_an_attempt_is_counted_and_timed_by_result_and_profile() -> None:
    metrics = SchedulerMetrics()
    metrics.attempted(SCHEDULED, "one", 0.003)
    metrics.attempted(SCHEDULED, "one", 0.005)
    metrics.attempted(UNSCHEDULABLE, "two", 0.001)
    metrics.attempted(ERROR, "two", 0.001)
    found = families(metrics)
    counted = found["scheduler_schedule_attempts_total"].samples
    assert {(each.labels["result"], each.labels["profile"], each.value) for each in counted} == {
        ("scheduled", "one", 2),
        ("unschedulable", "two", 1),
        ("error", "two", 1),
    }
    timed = found["scheduler_scheduling_attempt_duration_seconds"]
    assert quantile(1.0, timed, result="scheduled", profile="one") == 0.008


def test_many_attempts_are_counted_as_fifteen_and_more() -> None:
    metrics = SchedulerMetrics()
    metrics.placed(1, 0.02)
    metrics.placed(14, 3.0)
    metrics.placed(15, 3.0)
    metrics.placed(400, 3.0)
    found = families(metrics)
    durations = found["scheduler_pod_scheduling_sli_duration_seconds"].samples
    assert {each.labels["attempts"]: each.value for each in durations if each.name.endswith("_count")} == {
        "1": 1,
        "14": 1,
        "15+": 2,
    }
    tries = [each for each in found["scheduler_pod_scheduling_attempts"].samples if each.name.endswith("_bucket")]
    assert [(each.labels["le"], each.value) for each in tries] == [
        ("1", 1),
        ("2", 1),
        ("4", 1),
        ("8", 1),
        ("16", 3),
        ("+Inf", 4),
    ]


def test_preemption_is_counted_when_it_is_tried_and_its_victims_when_it_succeeds() -> None:
    class Preempts:
        name = "DefaultPreemption"

        def post_filter(self, pod: Any, unplaced: Any, cycle: Any, /) -> str:
            return "no victims"

    metrics = SchedulerMetrics()
    cluster = Cluster(a_node("n1"))
    cycle_plugins = msgspec.structs.replace(cluster.cycle.plugins, post_filters=(Preempts(),))
    cycle = SchedulingCycle(cluster.matrix, cycle_plugins, timers=metrics.timers(PROFILE))
    for name, cpu in (("small", "1m"), ("large", "1000"), ("larger", "2000")):
        cycle.place(cluster.pod(wire_pod(name, {"cpu": cpu})))
    metrics.preempted(3)
    found = families(metrics)
    assert [each.value for each in found["scheduler_preemption_attempts_total"].samples] == [2]
    victims = {each.name: each.value for each in found["scheduler_preemption_victims"].samples if not each.labels}
    assert victims == {"scheduler_preemption_victims_count": 1, "scheduler_preemption_victims_sum": 3}


# Plugins that choose nodes


def test_plugins_are_counted_at_every_attempt_and_timed_at_some() -> None:
    time = Time()
    metrics = SchedulerMetrics(time, every=2)
    cluster = Cluster(a_node("n1"), a_node("n2"))
    cycle_plugins = cluster.cycle.plugins
    cycle = SchedulingCycle(cluster.matrix, cycle_plugins, timers=metrics.timers(PROFILE))
    for number in range(4):
        cycle.place(cluster.pod(wire_pod(f"p{number}", {"cpu": "1m"}, schedulerName=PROFILE)))
    found = families(metrics)
    calls = {
        (each.labels["plugin"], each.labels["extension_point"]): each.value
        for each in found["scheduler_plugin_evaluation_total"].samples
    }
    assert calls["NodeResourcesFit", "Filter"] == 4
    assert calls["NodeUnschedulable", "Filter"] == 1, (
        "nodes do not change, so who looks at nodes alone is not asked again"
    )
    timed = [
        each.value
        for each in found["scheduler_plugin_execution_duration_seconds"].samples
        if each.name.endswith("_count")
        and each.labels == {"plugin": "NodeResourcesFit", "extension_point": "Filter", "status": "Success"}
    ]
    assert timed == [2]


def test_a_filter_that_rejects_all_nodes_and_one_that_raises_have_different_statuses() -> None:
    class Breaks:
        name = "Breaks"
        reads = 1

        def filter(self, *what: Any) -> Any:
            raise RuntimeError("no")

        def reasons(self, shape: Any, /) -> tuple[()]:
            return ()

    breaks: Any = Breaks()
    metrics = SchedulerMetrics(Time(), every=1)
    cluster = Cluster(a_node("n1"))
    cycle = SchedulingCycle(cluster.matrix, cluster.cycle.plugins, timers=metrics.timers("one"))
    cycle.place(cluster.pod(wire_pod("large", {"cpu": "1000"})))
    SchedulingCycle(cluster.matrix, CyclePlugins(filters=(breaks,)), timers=metrics.timers("two")).place(
        cluster.pod(wire_pod("p"))
    )
    points = [
        each.labels
        for each in families(metrics)["scheduler_framework_extension_point_duration_seconds"].samples
        if each.name.endswith("_count")
    ]
    assert {"extension_point": "Filter", "status": "Unschedulable", "profile": "one"} in points
    assert {"extension_point": "Filter", "status": "Error", "profile": "two"} in points


# The page


def test_every_family_in_the_exposition_has_help_and_type() -> None:
    metrics = SchedulerMetrics(Time(), every=1)
    queue = queue_with(metrics, Allows("fine"))
    queue.add(a_pod("fine", labels={"fine": ""}, gates=("foo",)), START_S)
    queue.pop(START_S)
    metrics.attempted(SCHEDULED, PROFILE, 0.001)
    found = families(metrics, tuple(queue.samples()))
    for name, family in found.items():
        assert family.type == FAMILIES[name].kind
        assert family.documentation == FAMILIES[name].help
    gated = found["headgate_gated_pods"].samples
    assert [(each.labels, each.value) for each in gated] == [({"gate": "foo"}, 1)]
    assert [each.value for each in found["headgate_oldest_gated_seconds"].samples] == [5]


def test_a_label_with_quotes_and_line_ends_stays_one_line() -> None:
    labels = 'a "quoted"\\\nname'
    page = SchedulerMetrics().exposition(START_S, [Sample("scheduler_pending_pods", (("queue", labels),), 1)])
    found = next(iter(text_string_to_metric_families(page.decode())))
    assert found.samples[0].labels == {"queue": labels}


def test_bucket_bounds_have_the_digits_of_kube_scheduler() -> None:
    assert [str(each) for each in exponential_buckets(0.00001, 1.5, 4)] == [
        "1e-05",
        "1.5000000000000002e-05",
        "2.2500000000000005e-05",
        "3.375000000000001e-05",
    ]
