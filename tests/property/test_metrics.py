"""Metrics equal a recount after any changes: gates by a scan of all pods, histograms by a scan of all values."""

from __future__ import annotations

from math import isclose
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kube.metrics import Histogram, exponential_buckets
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.framework.plugin_timers import PRE_ENQUEUE, ProfileTimers
from headgate.scheduling.metrics.gate_metrics import GATED_PODS, OLDEST, OTHER, WAITS, GateMetrics
from headgate.scheduling.metrics.scheduler_metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from property.named_steps import named_steps
from unit.scheduling.pods import START_S, APod, Clocked, a_pod

GATES = ["example.com/a", "example.com/b", "c", "d"]
NAMES = ["p", "q", "r", "s", "t"]

lists_of_gates = st.lists(st.sampled_from(GATES), max_size=3, unique=True).map(tuple)
STEPS: dict[str, st.SearchStrategy[Any]] = {
    "put": st.tuples(st.sampled_from(NAMES), lists_of_gates),
    "delete": st.sampled_from(NAMES),
    "pop": st.none(),
    "end": st.tuples(st.integers(0, 3), st.booleans()),
    "later": st.sampled_from([0.3, 1.0, 70.0, 5000.0]),
}
OFTEN = ["put"] * 5 + ["later"] * 2
steps = named_steps(OFTEN + list(STEPS), STEPS)


class Life:
    """A queue, and a plain list of its pods and of the lifted gates for comparison."""

    def __init__(self) -> None:
        self.clocked = Clocked(SchedulingGates())
        self.pods: dict[str, APod] = {}
        self.lives = 0
        self.lifted: list[tuple[str, float]] = []
        self.flights: list[Any] = []

    def put(self, what: tuple[str, tuple[str, ...]]) -> None:
        name, gates = what
        old = self.pods.get(name)
        if old is None:
            self.lives += 1
            new = a_pod(name, gates=gates, created_s=self.clocked.now_s // 1).but(uid=f"{name}-{self.lives}")
        else:
            # The server lets no client add a gate.
            new = old.but(gates=tuple(gate for gate in old.gates if gate in gates), note=str(len(self.lifted)))
            waited_s = self.clocked.now_s - old.created_s
            self.lifted += [(gate, waited_s) for gate in old.gates if gate not in new.gates]
        self.pods[name] = new
        self.clocked.update(new)

    def delete(self, name: str) -> None:
        if name in self.pods:
            self.clocked.delete(self.pods.pop(name))

    def pop(self, _: None) -> None:
        popped = self.clocked.queue.pop(self.clocked.now_s)
        if popped is not None:
            self.flights.append(popped)

    def end(self, how: tuple[int, bool]) -> None:
        if not self.flights:
            return
        queued = self.flights.pop(how[0] % len(self.flights))
        if how[1]:
            self.clocked.queue.done(queued)
            self.pods = {name: pod for name, pod in self.pods.items() if pod.uid != queued.uid}
        else:
            self.clocked.fail(queued, Rejection("Fit", "no room"))

    def later(self, by_s: float) -> None:
        self.clocked.now_s += by_s

    def agrees(self, waits: GateMetrics) -> None:
        now_s = self.clocked.now_s
        found = {(each.name, dict(each.labels)["gate"]): each.value for each in waits.samples(now_s)}
        for gate in GATES:
            held = [pod.created_s for pod in self.pods.values() if gate in pod.gates]
            waited = [waited_s for lifted, waited_s in self.lifted if lifted == gate]
            assert found.get((GATED_PODS, gate), 0) == len(held)
            assert found.get((OLDEST, gate), 0) == (now_s - min(held) if held else 0)
            assert found.get((f"{WAITS}_count", gate), 0) == len(waited)
            assert abs(found.get((f"{WAITS}_sum", gate), 0) - sum(waited)) < 1e-6


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, min_size=15, max_size=50))
def test_gate_metrics_equal_a_recount_of_all_pods(taken: list[tuple[str, Any]]) -> None:
    life = Life()
    for name, how in taken:
        getattr(life, name)(how)
        life.agrees(life.clocked.queue.gate_metrics)


changes = st.lists(st.tuples(st.sampled_from(NAMES), lists_of_gates, st.integers(0, 9)), max_size=40)


@settings(max_examples=150, deadline=None)
@given(changes, st.integers(1, 3))
def test_gates_without_a_line_of_their_own_are_counted_together(
    taken: list[tuple[str, tuple[str, ...], int]], most: int
) -> None:
    """The sum over all series is right, and there are never more series than allowed."""
    waits = GateMetrics(most)
    pods: dict[str, APod] = {}
    for name, gates, second in taken:
        old = pods.pop(name, None)
        if old is not None:
            waits.pod_removed(old)
        else:
            pods[name] = a_pod(name, gates=gates, created_s=START_S + second)
            waits.pod_added(pods[name])
        found = [each for each in waits.samples(START_S + 10) if each.name == GATED_PODS]
        own = [each for each in found if each.labels != (("gate", OTHER),)]
        assert len(own) <= most
        assert sum(each.value for each in found) == sum(len(pod.gates) for pod in pods.values())
        for each in own:
            gate = each.labels[0][1]
            assert each.value in (0, sum(gate in pod.gates for pod in pods.values()))
        oldest = [each.value for each in waits.samples(START_S + 10) if each.name == OLDEST and each.value]
        held = [START_S + 10 - pod.created_s for pod in pods.values() if pod.gates]
        assert max(oldest, default=0) == max(held, default=0)


@given(st.lists(st.floats(0, 20, allow_nan=False)))
def test_a_histogram_counts_what_is_not_above_each_bound(values: list[float]) -> None:
    histogram = Histogram(exponential_buckets(0.01, 3, 6))
    for value in values:
        histogram.observe(value)
    for sample in histogram.samples("h", ()):
        if sample.name == "h_bucket":
            bound = float(sample.labels[0][1])
            assert sample.value == sum(value <= bound for value in values)
    assert histogram.count == len(values)
    assert isclose(histogram.total, sum(values))


attempts = st.tuples(
    st.sampled_from([SCHEDULED, UNSCHEDULABLE, ERROR]), st.sampled_from(["one", "two"]), st.floats(0, 5)
)


@given(st.lists(attempts))
def test_attempts_are_counted_by_result_and_profile(made: list[tuple[str, str, float]]) -> None:
    metrics = SchedulerMetrics()
    for attempt in made:
        metrics.attempted(*attempt)
    found = {
        (dict(each.labels)["result"], dict(each.labels)["profile"]): each.value
        for each in metrics.samples(START_S)
        if each.name == "scheduler_schedule_attempts_total"
    }
    kinds = {attempt[:2] for attempt in made}
    assert found == {kind: sum(attempt[:2] == kind for attempt in made) for kind in kinds}


@given(st.integers(0, 100), st.integers(1, 12), st.booleans())
def test_one_attempt_in_so_many_is_timed_and_the_first_one_is(rounds: int, every: int, is_foreign: bool) -> None:
    told: list[float] = []
    calls: list[float] = []

    class Told:
        def plugin_took(self, plugin: str, point: str, status: str, duration_s: float, /) -> None:
            told.append(duration_s)

        def point_took(self, point: str, status: str, profile: str, duration_s: float, /) -> None:
            pass

        def times_always(self, plugin: str, /) -> bool:
            return is_foreign

        def call_took(self, plugin: str, point: str, duration_s: float, now_s: float, /) -> None:
            calls.append(duration_s)

    watch = ProfileTimers("p", lambda: 0.0, Told(), every)
    meter = watch.timer("Plugin", PRE_ENQUEUE)
    for _ in range(rounds):
        watch.begin()
        began_s = meter.begin()
        if began_s is not None:
            meter.end(began_s, "Success")
        watch.end()
    assert meter.calls == rounds
    assert len(told) == -(-rounds // every)
    assert len(calls) == (rounds if is_foreign else 0)
