"""The scheduling queue: order, attempts, backoff and time."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.scheduling.framework.cluster_events import UNSCHEDULABLE_TIMEOUT, ClusterEvent, on
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.queue.scheduling_queue import QueueSettings, SchedulingQueue
from unit.scheduling.pods import (
    HELPED_BY_NODES,
    NODE_ADD,
    START_S,
    Allows,
    APod,
    Clocked,
    Never,
    a_pod,
)

FIT = Rejection("Fit", "no room", HELPED_BY_NODES)
PLAIN = a_pod("p")


# Order


def test_higher_priority_comes_first_then_the_longer_wait_then_the_name() -> None:
    clocked = Clocked()
    clocked.add(a_pod("z"), a_pod("a"), a_pod("low", priority=-1))
    clocked.now_s += 1
    clocked.add(a_pod("0-later"), a_pod("high", priority=5))
    assert clocked.names_popped() == ["high", "a", "z", "0-later", "low"]


def test_pods_that_come_in_together_are_tried_oldest_first() -> None:
    clocked = Clocked()
    clocked.add(a_pod("a", created_s=20.0), a_pod("b", created_s=10.0))
    assert clocked.names_popped() == ["b", "a"]


def test_another_order_can_be_plugged_in() -> None:
    class LowestFirst:
        name = "LowestFirst"

        def order_key(self, pod: Any, since_s: float, /) -> tuple[Any, ...]:
            return (pod.priority, since_s, pod.name)

    queue: SchedulingQueue[APod] = SchedulingQueue({}, LowestFirst())
    for priority in (2, 1, 3):
        queue.add(a_pod(f"p{priority}", priority=priority), START_S)
    popped = [queue.pop(START_S) for _ in range(3)]
    assert [each.pod.name for each in popped if each is not None] == ["p1", "p2", "p3"]


def test_an_empty_queue_gives_nothing() -> None:
    assert Clocked().queue.pop(START_S) is None


def test_a_pod_that_was_tried_goes_behind_those_that_were_not() -> None:
    clocked = Clocked()
    clocked.add(a_pod("a"), a_pod("b"), a_pod("c"))
    tried = clocked.pop()
    clocked.now_s += 1
    clocked.fail(tried, FIT)
    clocked.happens(NODE_ADD)
    clocked.now_s += 10
    assert clocked.names_popped() == ["b", "c", "a"]


def test_a_high_priority_pod_that_keeps_failing_does_not_block_the_others() -> None:
    clocked = Clocked()
    clocked.add(a_pod("high", priority=100), a_pod("low"))
    high = clocked.pop()
    clocked.fail(high, FIT)
    clocked.happens(NODE_ADD)
    assert high.state is PodState.BACKOFF
    assert clocked.pop().pod.name == "low"


# Attempts that fail


def test_a_rejected_pod_waits_until_what_its_plugin_named_happens() -> None:
    clocked = Clocked()
    clocked.park(PLAIN, FIT)
    assert clocked.happens(ClusterEvent("Node", "UpdateNodeLabel")) == 0
    assert clocked.where(PLAIN) is PodState.UNSCHEDULABLE
    assert clocked.happens(NODE_ADD) == 1
    assert clocked.where(PLAIN) is PodState.BACKOFF


def test_a_woken_pod_whose_backoff_is_over_may_be_tried_at_once() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, FIT)
    clocked.now_s += 2
    clocked.happens(NODE_ADD)
    assert queued.state is PodState.ACTIVE


def test_a_guard_that_says_no_keeps_the_pod_where_it_is() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, Rejection("Fit", "no room", on("Node", "Add", guard=Never())))
    clocked.happens(NODE_ADD)
    assert queued.state is PodState.UNSCHEDULABLE


def test_a_pending_plugin_pays_no_backoff() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, Rejection("Volumes", "being bound", HELPED_BY_NODES, pending=True))
    clocked.happens(NODE_ADD)
    assert queued.state is PodState.ACTIVE


def test_a_pod_that_also_waits_for_a_pending_plugin_pays_if_another_one_wakes_it() -> None:
    clocked = Clocked()
    pending = Rejection("Volumes", "being bound", on("PersistentVolume", "Add"), pending=True)
    queued = clocked.park(PLAIN, FIT, pending)
    clocked.happens(NODE_ADD)
    assert queued.state is PodState.BACKOFF


def test_any_of_several_plugins_may_wake_a_pod() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, FIT, Rejection("Affinity", "no peer", on("Pod", "Add")))
    clocked.happens(ClusterEvent("AssignedPod", "Add"))
    assert queued.state is PodState.BACKOFF


def test_a_pod_that_failed_by_error_waits_apart_and_is_not_tried_early() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    assert clocked.fail(queued) is PodState.ERROR_BACKOFF
    assert clocked.queue.pop(clocked.now_s) is None
    clocked.now_s += 2
    assert clocked.pop() is queued


def test_the_backoff_grows_with_rejections_and_starts_over_for_errors() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    waits = []
    for rejections in ([FIT], [FIT], [FIT], [FIT], [FIT], [], [], [FIT]):
        queued = clocked.pop()
        clocked.fail(queued, *rejections)
        clocked.happens(NODE_ADD)
        assert queued.backoff_until_s is not None
        waits.append(queued.backoff_until_s - clocked.now_s)
        clocked.now_s += 20
    assert waits == [1, 2, 4, 8, 10, 1, 2, 10]


def test_an_idle_scheduler_takes_rejected_pods_out_of_backoff_early() -> None:
    clocked = Clocked(settings=QueueSettings(initial_backoff_s=1000, max_backoff_s=1000))
    queued = clocked.park(PLAIN, FIT)
    clocked.happens(NODE_ADD)
    assert queued.state is PodState.BACKOFF
    assert clocked.pop() is queued


def test_active_pods_come_before_those_in_backoff() -> None:
    clocked = Clocked()
    clocked.park(a_pod("a", priority=9), FIT)
    clocked.happens(NODE_ADD)
    clocked.add(a_pod("b"))
    assert clocked.names_popped() == ["b", "a"]


def test_popping_from_backoff_can_be_switched_off() -> None:
    clocked = Clocked(settings=QueueSettings(pop_from_backoff=False))
    clocked.park(PLAIN, FIT)
    clocked.happens(NODE_ADD)
    assert clocked.queue.pop(clocked.now_s) is None
    clocked.now_s += 1.1
    assert clocked.names_popped() == ["p"]


def test_backoffs_end_together_when_their_second_is_over() -> None:
    clocked = Clocked()
    clocked.now_s += 0.25
    first = clocked.park(a_pod("a"), FIT)
    clocked.now_s += 0.5
    second = clocked.park(a_pod("b", priority=1), FIT)
    clocked.happens(NODE_ADD)
    assert clocked.queue.next_deadline_s() == START_S + 2
    assert clocked.requeue_due(after_s=1) == 0
    assert clocked.requeue_due(after_s=0.25) == 2
    assert (first.state, second.state) == (PodState.ACTIVE, PodState.ACTIVE)


def test_a_second_failure_or_one_of_an_unknown_pod_changes_nothing() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, FIT)
    assert clocked.fail(queued, FIT) is None
    assert queued.unschedulable_count == 1
    clocked.queue.done(queued)
    assert queued.state is PodState.UNSCHEDULABLE


def test_a_popped_pod_has_no_rejections() -> None:
    clocked = Clocked(Allows("ready"))
    queued = clocked.park(PLAIN.but(labels={"ready": ""}), FIT)
    clocked.update(PLAIN)
    clocked.happens(NODE_ADD)
    assert queued.rejectors == ("Fit", "Allows")
    clocked.update(PLAIN.but(labels={"ready": ""}))
    popped = clocked.pop()
    assert popped is queued
    assert (len(popped.rejectors), len(popped.rejections), popped.gating) == (0, 0, None)


# Time


def test_an_unschedulable_pod_is_looked_at_again_after_five_minutes_by_priority() -> None:
    clocked = Clocked()
    low, high = clocked.park(a_pod("low"), FIT), clocked.park(a_pod("high", priority=5), FIT)
    assert clocked.requeue_due(after_s=299) == 0
    assert clocked.queue.next_deadline_s() == START_S + 300
    assert clocked.requeue_due(after_s=2) == 2
    assert (low.state, high.state) == (PodState.ACTIVE, PodState.ACTIVE)
    assert clocked.names_popped() == ["high", "low"]


def test_the_longest_wait_can_be_set() -> None:
    clocked = Clocked(settings=QueueSettings(unschedulable_limit_s=30))
    clocked.park(PLAIN, FIT)
    assert clocked.requeue_due(after_s=31) == 1


def test_a_pod_that_waits_for_nothing_that_can_be_named_is_helped_by_time() -> None:
    clocked = Clocked()
    clocked.park(PLAIN, Rejection("Odd", "no idea"))
    assert clocked.requeue_due(after_s=300) == 1


def test_an_event_for_all_pods_wakes_all_pods() -> None:
    clocked = Clocked()
    pods = [clocked.park(a_pod(name), Rejection("Odd", "no idea")) for name in "ab"]
    assert clocked.happens(UNSCHEDULABLE_TIMEOUT) == 2
    assert {pod.state for pod in pods} == {PodState.BACKOFF}


def test_the_first_attempt_is_counted_from_when_the_pod_was_free_to_be_tried() -> None:
    clocked = Clocked(Allows("ready"))
    clocked.add(PLAIN)
    clocked.now_s += 60
    clocked.update(PLAIN.but(labels={"ready": ""}))
    queued = clocked.pop()
    assert (queued.attempts, queued.initial_attempt_s) == (1, START_S + 60)


@pytest.mark.parametrize("updated", [False, True])
def test_further_attempts_do_not_move_the_first(updated: bool) -> None:
    clocked = Clocked()
    clocked.park(PLAIN, FIT)
    clocked.requeue_due(after_s=301)
    if updated:
        clocked.update(PLAIN.but(note="changed"))
    queued = clocked.pop()
    assert (queued.attempts, queued.initial_attempt_s) == (2, START_S)
