"""PreEnqueue in the queue: when plugins are asked, which first, and what a pod that they held pays."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.scheduling.framework.cluster_events import UNSCHEDULABLE_TIMEOUT, ClusterEvent, on
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.queue.scheduling_queue import MIN_WAIT_S, QueueSettings
from unit.scheduling.pods import HELPED_BY_NODES, NODE_ADD, Allows, Clocked, Never, Raises, a_pod

FIT = Rejection("Fit", "no room", HELPED_BY_NODES)
BARE = a_pod("p")
READY = BARE.but(labels={"ready": ""})


def test_without_plugins_a_pod_may_be_tried() -> None:
    clocked = Clocked()
    clocked.add(BARE)
    assert clocked.where(BARE) is PodState.ACTIVE


def test_a_pod_that_no_plugin_allows_is_gated() -> None:
    clocked = Clocked(Allows("ready"), Allows("set", name="Second"))
    clocked.add(BARE)
    assert clocked.where(BARE) is PodState.GATED


def test_a_pod_that_one_plugin_does_not_allow_is_gated_by_that_one() -> None:
    clocked = Clocked(Allows("ready"), Allows("set", name="Second"))
    clocked.add(READY)
    queued = clocked.queue.get(READY.uid)
    assert queued is not None
    assert queued.gating is not None
    assert queued.gating.plugin == "Second"


def test_a_pod_that_all_plugins_allow_may_be_tried() -> None:
    clocked = Clocked(Allows("ready"), Allows("ready", name="Second"))
    clocked.add(READY)
    assert clocked.where(READY) is PodState.ACTIVE


def test_the_plugin_that_holds_a_pod_is_asked_first_and_alone_while_it_does() -> None:
    first, second = Allows("ready"), Allows("set", name="Second")
    clocked = Clocked(first, second)
    clocked.add(READY)
    assert (first.asked, second.asked) == (1, 1)
    clocked.update(READY.but(note="changed"))
    assert (first.asked, second.asked) == (1, 2)
    clocked.update(READY.but(labels={"set": ""}))
    assert (first.asked, second.asked) == (2, 3)
    assert clocked.where(READY) is PodState.GATED
    assert clocked.queue.counters.unschedulable() == {
        ("Allows", "default-scheduler"): 1,
        ("Second", "default-scheduler"): 1,
    }


def test_a_plugin_that_raises_has_turned_the_pod_away_under_its_own_name() -> None:
    clocked = Clocked(Raises())
    clocked.add(BARE, a_pod("q"))
    why = clocked.queue.why(BARE.uid)
    assert why is not None
    assert [(each.plugin, each.reason) for each in why.reason] == [("Raises", "RuntimeError: cannot read p")]
    assert clocked.pending() == (0, 0, 2, 0)


def test_a_pod_gated_by_a_plugin_that_does_not_wait_for_the_event_is_not_looked_at() -> None:
    plugin = Allows("ready", on("Pod", "Update"))
    clocked = Clocked(plugin)
    clocked.add(BARE)
    assert clocked.happens(NODE_ADD) == 0
    assert plugin.asked == 1


def test_a_pod_gated_by_a_plugin_that_waits_for_the_event_is_looked_at() -> None:
    plugin = Allows("ready", on("Node", "Add"))
    clocked = Clocked(plugin)
    clocked.add(BARE)
    plugin.label = "nothing-needed"
    clocked.update(BARE.but(labels={"nothing-needed": ""}))
    assert clocked.where(BARE) is PodState.GATED
    assert clocked.happens(NODE_ADD) == 1
    assert clocked.where(BARE) is PodState.ACTIVE


def test_a_guard_of_the_gating_plugin_can_keep_it_gated() -> None:
    plugin = Allows("ready", on("Node", "Add", guard=Never()))
    clocked = Clocked(plugin)
    clocked.add(BARE)
    clocked.happens(NODE_ADD)
    assert plugin.asked == 1


def test_an_event_for_all_pods_releases_a_pod_that_is_not_gated_any_more() -> None:
    plugin = Allows("ready", ())
    clocked = Clocked(plugin)
    clocked.add(BARE)
    clocked.update(READY)
    assert clocked.where(BARE) is PodState.GATED
    assert clocked.happens(UNSCHEDULABLE_TIMEOUT) == 1
    assert clocked.where(BARE) is PodState.ACTIVE


def test_an_event_for_all_pods_does_not_release_a_pod_that_is_still_gated() -> None:
    clocked = Clocked(Allows("ready", ()))
    clocked.add(BARE)
    assert clocked.happens(UNSCHEDULABLE_TIMEOUT) == 0
    assert clocked.where(BARE) is PodState.GATED


def test_a_pod_that_is_gated_after_an_attempt_pays_its_backoff_when_it_is_free() -> None:
    clocked = Clocked(SchedulingGates(), Allows("ready"))
    clocked.park(READY, FIT)
    clocked.update(BARE)
    assert clocked.where(READY) is PodState.UNSCHEDULABLE
    clocked.happens(NODE_ADD)
    assert clocked.where(READY) is PodState.GATED
    clocked.update(READY)
    assert clocked.where(READY) is PodState.BACKOFF


def test_a_pod_that_was_never_tried_pays_nothing() -> None:
    clocked = Clocked(Allows("ready"))
    clocked.add(BARE)
    clocked.update(READY)
    assert clocked.where(BARE) is PodState.ACTIVE


def test_plugins_are_asked_on_the_way_into_backoff_and_not_on_the_way_out() -> None:
    plugin = Allows("ready")
    clocked = Clocked(plugin)
    queued = clocked.park(READY, FIT)
    clocked.happens(NODE_ADD)
    assert (queued.state, plugin.asked) == (PodState.BACKOFF, 2)
    clocked.update(BARE)
    assert clocked.requeue_due(after_s=2) == 1
    assert (queued.state, plugin.asked) == (PodState.ACTIVE, 2)


def test_without_popping_from_backoff_plugins_are_asked_on_the_way_out() -> None:
    plugin = Allows("ready")
    clocked = Clocked(plugin, settings=QueueSettings(pop_from_backoff=False))
    queued = clocked.park(READY, FIT)
    clocked.happens(NODE_ADD)
    assert (queued.state, plugin.asked) == (PodState.BACKOFF, 1)
    clocked.update(BARE)
    assert clocked.requeue_due(after_s=2) == 0
    assert (queued.state, plugin.asked) == (PodState.GATED, 2)


def test_a_pod_that_may_not_enter_backoff_is_gated_instead() -> None:
    clocked = Clocked(Allows("ready"))
    clocked.add(READY)
    queued = clocked.pop()
    clocked.update(BARE)
    assert clocked.fail(queued) is PodState.GATED


def test_activation_asks_the_plugins_of_a_parked_pod() -> None:
    clocked = Clocked(Allows("ready"))
    clocked.add(BARE)
    assert clocked.queue.activate([BARE.uid], clocked.now_s) == 0
    assert clocked.where(BARE) is PodState.GATED


@pytest.mark.parametrize(("pop_from_backoff", "place"), [(True, PodState.ACTIVE), (False, PodState.GATED)])
def test_activation_out_of_backoff_runs_pre_enqueue_at_most_once(pop_from_backoff: bool, place: PodState) -> None:
    clocked = Clocked(Allows("ready"), settings=QueueSettings(pop_from_backoff=pop_from_backoff))
    queued = clocked.park(READY, FIT)
    clocked.happens(NODE_ADD)
    clocked.update(BARE)
    clocked.queue.activate([queued.uid], clocked.now_s)
    assert queued.state is place


def test_a_gated_pod_whose_time_is_up_is_looked_at_once_per_limit_and_counts_nothing() -> None:
    plugin = Allows("ready", on("Node", "Add"))
    clocked = Clocked(plugin)
    clocked.add(BARE)
    before = clocked.queue.counters.incoming()
    for _ in range(20):
        clocked.requeue_due(after_s=30)
    assert plugin.asked == 3
    assert clocked.queue.counters.incoming() == before
    assert clocked.queue.counters.unschedulable() == {("Allows", "default-scheduler"): 1}
    assert clocked.pending() == (0, 0, 1, 0)


def test_a_gated_pod_that_became_free_unnoticed_is_found_when_its_time_is_up() -> None:
    plugin = Allows("ready", ())
    clocked = Clocked(plugin)
    clocked.add(BARE)
    clocked.update(READY)
    assert clocked.requeue_due(after_s=300) == 1
    assert clocked.where(BARE) is PodState.ACTIVE


def test_looking_again_does_not_cost_a_gated_pod_its_turn() -> None:
    clocked = Clocked(Allows("ready"))
    first, second = a_pod("z"), a_pod("a")
    clocked.add(first)
    clocked.now_s += 200
    clocked.add(second)
    clocked.requeue_due(after_s=200)
    for pod in (second, first):
        clocked.update(pod.but(labels={"ready": ""}))
    assert clocked.names_popped() == ["z", "a"]


def test_pods_are_woken_by_the_priority_they_have_not_by_the_one_they_had() -> None:
    class Keeps(Allows):
        seen: list[str]

        def pre_enqueue(self, pod: Any, /) -> Rejection | None:
            self.seen.append(pod.name)
            return super().pre_enqueue(pod)

    plugin = Keeps("ready", HELPED_BY_NODES)
    plugin.seen = []
    clocked = Clocked(plugin)
    clocked.add(a_pod("a", priority=2), a_pod("b", priority=1))
    clocked.update(a_pod("b", priority=3))
    plugin.seen.clear()
    clocked.happens(NODE_ADD)
    assert plugin.seen == ["b", "a"]


def test_a_pending_plugin_that_is_helped_spares_a_gated_pod_its_backoff_too() -> None:
    clocked = Clocked(Allows("ready", HELPED_BY_NODES))
    clocked.park(READY, Rejection("Volumes", "being bound", HELPED_BY_NODES, pending=True))
    clocked.update(BARE)
    clocked.happens(NODE_ADD)
    assert clocked.where(READY) is PodState.GATED
    clocked.update(READY)
    clocked.happens(NODE_ADD)
    assert clocked.where(READY) is PodState.ACTIVE


def test_events_of_many_pods_wake_only_the_pod_that_waits_for_them() -> None:
    clocked = Clocked(SchedulingGates())
    pods = [a_pod(f"p{number}", gates=("foo",)) for number in range(50)]
    clocked.add(*pods)
    for number in range(50):
        clocked.happens(ClusterEvent("AssignedPod", "Add", new=a_pod(f"other{number}", node_name="n")))
        clocked.happens(ClusterEvent("AssignedPod", "Delete", old=a_pod(f"other{number}", node_name="n")))
    assert clocked.pending() == (0, 0, 50, 0)


class Waits:
    """Holds pods for so many seconds at a time."""

    name = "Waits"

    def __init__(self, *waits_s: float, expires: bool = False) -> None:
        self._waits_s, self._expires = list(waits_s), expires

    def pre_enqueue(self, pod: object, /) -> Rejection | None:
        if not self._waits_s:
            return None
        return Rejection(self.name, "not yet", expires=self._expires, look_again_s=self._waits_s.pop(0))


def test_a_plugin_that_waits_for_a_moment_is_asked_again_then_and_not_before() -> None:
    clocked = Clocked(Waits(40.0, 1000.0))
    clocked.add(BARE)
    assert clocked.queue.next_deadline_s() == clocked.now_s + 40.0
    assert clocked.requeue_due(39.9) == 0
    assert clocked.requeue_due(0.2) == 0
    assert clocked.queue.next_deadline_s() == clocked.now_s + 1000.0
    assert clocked.requeue_due(1000.0) == 1
    assert clocked.where(BARE) is PodState.ACTIVE


def test_a_moment_beyond_the_longest_wait_does_not_lengthen_it() -> None:
    clocked = Clocked(Waits(1000.0, expires=True), settings=QueueSettings(unschedulable_limit_s=300.0))
    clocked.add(BARE)
    assert clocked.queue.next_deadline_s() == clocked.now_s + 300.0


class Always:
    """Holds every pod, and asks to be called again after the same time, without end."""

    name = "Always"

    def __init__(self, again_s: Any) -> None:
        self._again_s = again_s
        self.asked = 0

    def pre_enqueue(self, pod: object, /) -> Rejection | None:
        self.asked += 1
        if self.asked > 100:
            raise AssertionError("asked without end")  # as a failure it would end the loop that is looked for
        return Rejection(self.name, "not yet", look_again_s=self._again_s)


@pytest.mark.parametrize("again_s", [0, 0.0, -1.0, float("-inf"), float("inf"), float("nan"), True, "5", 10**400])
def test_a_moment_that_is_not_ahead_is_a_wrong_answer_and_the_pod_waits_its_longest_wait(again_s: Any) -> None:
    plugin = Always(again_s)
    clocked = Clocked(plugin, settings=QueueSettings(unschedulable_limit_s=300.0))
    clocked.add(BARE)
    queued = clocked.queue.get(BARE.uid)
    assert queued is not None
    assert queued.gating is not None
    assert "look_again_s" in queued.gating.reason or "OverflowError" in queued.gating.reason
    assert clocked.queue.next_deadline_s() == clocked.now_s + 300.0
    assert clocked.requeue_due(299.0) == 0
    assert plugin.asked == 1
    clocked.requeue_due(1.0)
    assert plugin.asked == 2


@pytest.mark.parametrize("again_s", [5e-324, 1e-12, 0.01])
def test_a_moment_just_ahead_is_waited_for_a_little_longer_and_asked_about_once_per_flush(again_s: float) -> None:
    plugin = Always(again_s)
    clocked = Clocked(plugin)
    clocked.add(BARE)
    assert clocked.queue.next_deadline_s() == clocked.now_s + MIN_WAIT_S
    for number in range(2, 10):
        clocked.requeue_due(MIN_WAIT_S * 1.01)
        assert plugin.asked == number


def test_a_moment_that_is_over_for_the_engine_itself_is_waited_for_a_little_longer() -> None:
    clocked = Clocked()
    clocked.add(BARE)
    clocked.fail(clocked.pop(), Rejection("Fit", "room is being left", look_again_s=-3.0))
    assert clocked.queue.next_deadline_s() == clocked.now_s + MIN_WAIT_S
