"""The scheduling queue against a slow reference that examines every parked pod for every event.

After every step the same pods are in the same states, were tried in the same order and have the same counts; the same
steps always give the same results.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.scheduling.framework.cluster_events import UNSCHEDULABLE_TIMEOUT, ClusterEvent, on, own_update
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from property.named_steps import named_steps
from property.reference_scheduling_queue import SlowPod, SlowQueue
from unit.scheduling.pods import PROFILE, START_S, APod, AShape, a_pod

NAMES = ["a", "b", "c", "d", "e"]
SHAPES = [AShape({"cpu": 2}), AShape({"cpu": 1}), AShape({"cpu": 2}, ("all",))]


class Needs(msgspec.Struct, frozen=True):
    size: int

    def matches(self, event: Any, /) -> bool:
        return bool(event.target is not None or (event.new or 0) >= self.size)


REJECTIONS = [
    Rejection("Fit", "no room", (*on("Node", "Add", guard=Needs(2)), *on("Pod", "Delete", "UpdatePodScaleDown"))),
    Rejection("Fit", "less room", on("Node", "Add", guard=Needs(1))),
    Rejection("Taints", "not tolerated", (*on("Node", "Update"), *on("Pod", "UpdatePodToleration"))),
    Rejection("Volumes", "being bound", on("PersistentVolume", "Add"), pending=True),
    Rejection("Everything", "whatever", on("*", "All", guard=Needs(2))),
    Rejection("Odd", "no idea"),
]
EVENTS = [
    *(ClusterEvent("Node", "Add", new=size) for size in (0, 1, 2)),
    ClusterEvent("Node", "UpdateNodeTaint", new=1),
    ClusterEvent("AssignedPod", "Delete"),
    ClusterEvent("AssignedPod", "UpdatePodScaleDown"),
    ClusterEvent("PersistentVolume", "Add", new=1),
    UNSCHEDULABLE_TIMEOUT,
]


def ours(gate: str) -> bool:
    return gate == "ours"


class Wants:
    """Gates pods by a label, waits for nodes and for changes of the pod, and records the pods that it was called
    for."""

    name = "Wants"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def pre_enqueue(self, pod: Any, /) -> Rejection | None:
        self.asked.append(pod.name)
        wakers = (*on("Node", "Add", guard=Needs(1)), *own_update())
        return Rejection(self.name, "not wanted", wakers) if "held" in pod.labels else None


pods = st.builds(
    a_pod,
    st.sampled_from(NAMES),
    priority=st.integers(0, 1),
    gates=st.sampled_from([(), (), (), (), (), ("x",), ("x", "y"), ("ours",), ("ours", "x")]),
    labels=st.sampled_from([{}, {}, {}, {}, {"held": ""}]),
    nominated_node=st.sampled_from(["", "", "n1", "n2"]),
    shape=st.sampled_from(SHAPES),
)
rejections = st.lists(st.sampled_from(REJECTIONS), max_size=2, unique_by=lambda each: each.plugin).map(tuple)
STEPS: dict[str, st.SearchStrategy[Any]] = {
    "put": pods,
    "delete": st.sampled_from(NAMES),
    "happens": st.sampled_from(EVENTS),
    "pop": st.none(),
    "fail": st.tuples(st.integers(0, 3), rejections),
    "done": st.integers(0, 3),
    "activate": st.sampled_from(NAMES),
    "later": st.sampled_from([0.3, 1.0, 4.0, 150.0, 301.0]),
}
OFTEN = ["put"] * 5 + ["pop"] * 4 + ["fail"] * 5 + ["happens"] * 4 + ["later"] * 2
steps = named_steps(OFTEN + list(STEPS), STEPS)
# Long on average: lists left to themselves are mostly short, and little happens in a short life.
lives = st.lists(steps, min_size=25, max_size=60)


class Both:
    """One queue, and the slow one beside it."""

    def __init__(self) -> None:
        self.now_s = START_S
        self.wants, self.slow_wants = Wants(), Wants()
        self.queue: SchedulingQueue[APod] = SchedulingQueue(
            {PROFILE: [SchedulingGates(ours), self.wants]}, PrioritySort(), owned=ours
        )
        self.slow = SlowQueue((SchedulingGates(ours), self.slow_wants), ours)
        self.flights: list[tuple[QueuedPodInfo[APod], SlowPod]] = []

    def put(self, pod: APod) -> None:
        self.queue.update(pod, self.now_s)
        self.slow.add(pod, "UnschedulablePodUpdate", self.now_s)

    def delete(self, name: str) -> None:
        self.queue.delete(f"uid-{name}", self.now_s)
        self.slow.delete(f"uid-{name}", self.now_s)

    def happens(self, event: ClusterEvent) -> None:
        self.queue.event(event, self.now_s)
        self.slow.event(event, self.now_s)

    def pop(self, _: None) -> None:
        popped, slow = self.queue.pop(self.now_s), self.slow.pop(self.now_s)
        if popped is None or slow is None:
            assert (popped, slow) == (None, None)
            return
        assert popped.pod == slow.pod
        self.flights.append((popped, slow))

    def fail(self, how: tuple[int, tuple[Rejection, ...]]) -> None:
        if self.flights:
            queued, slow = self.flights.pop(how[0] % len(self.flights))
            self.queue.fail(queued, how[1], self.now_s)
            self.slow.fail(slow, how[1], self.now_s)

    def done(self, which: int) -> None:
        if self.flights:
            queued, slow = self.flights.pop(which % len(self.flights))
            self.queue.done(queued)
            self.slow.done(slow)

    def activate(self, name: str) -> None:
        self.queue.activate([f"uid-{name}"], self.now_s)
        self.slow.activate(f"uid-{name}", self.now_s)

    def later(self, by_s: float) -> None:
        self.now_s += by_s
        self.queue.requeue_due(self.now_s)
        self.slow.requeue_due(self.now_s)

    def agree(self) -> None:
        ours = {each.uid: _facts(each) for each in self.queue.pods()}
        assert ours == {each.pod.uid: _slow_facts(each) for each in self.slow.pods}
        assert self.wants.asked == self.slow_wants.asked
        promised = {
            pod.uid: node for node in self.queue.nominator.nodes() for pod in self.queue.nominator.on_node(node)
        }
        assert promised == self.slow.promised

    def counts_are_a_recount(self) -> None:
        counters = self.queue.counters
        where = Counter(str(each.state) for each in self.queue.pods())
        assert counters.pending() == {
            "active": where["active"],
            "backoff": where["backoff"] + where["error-backoff"],
            "unschedulable": where["unschedulable"],
            "gated": where["gated"],
        }
        assert counters.incoming() == dict(self.slow.incoming)
        assert counters.unschedulable() == Counter(
            (plugin, PROFILE) for each in self.queue.pods() for plugin in each.rejectors
        )

    def every_pod_is_in_one_place(self) -> None:
        queue = self.queue
        places = [
            *queue._active._heap,
            *queue._backoff._rejected,
            *queue._backoff._failed,
            *queue._parking_lot.all_units(),
        ]
        flying = [flight.queued.uid for flight in queue.in_flight() if not flight.gone]
        assert sorted(places + flying) == sorted(each.uid for each in queue.pods())


def _facts(each: QueuedPodInfo[APod]) -> tuple[Any, ...]:
    held = (each.rejectors, None if each.gating is None else each.gating.plugin)
    counts = (each.attempts, each.unschedulable_count, each.consecutive_errors)
    return (str(each.state), each.pod, each.since_s, each.initial_attempt_s, counts, held)


def _slow_facts(each: SlowPod) -> tuple[Any, ...]:
    held = (tuple(each.held_by), None if each.gating is None else each.gating.plugin)
    counts = (each.attempts, each.rejected, each.errors)
    return (each.where, each.pod, each.since_s, each.initial_s, counts, held)


@settings(max_examples=200, deadline=None)
@given(lives)
def test_the_queue_equals_a_slow_reference(taken: list[tuple[str, Any]]) -> None:
    both = Both()
    for name, how in taken:
        getattr(both, name)(how)
        both.agree()
        both.counts_are_a_recount()
        both.every_pod_is_in_one_place()
    for queued, slow in both.flights:
        both.queue.done(queued)
        both.slow.done(slow)
    assert list(both.queue._in_flight.events()) == []


@settings(max_examples=50, deadline=None)
@given(lives)
def test_the_same_steps_give_the_same_answers_every_time(taken: list[tuple[str, Any]]) -> None:
    def run() -> tuple[Any, ...]:
        both = Both()
        for name, how in taken:
            getattr(both, name)(how)
        facts = [(each.uid, _facts(each)) for each in both.queue.pods()]
        return facts, list(both.queue.samples()), both.wants.asked, both.queue.next_deadline_s()

    assert run() == run()
