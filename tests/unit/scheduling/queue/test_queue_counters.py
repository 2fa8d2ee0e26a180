"""The queue's counters, under kube-scheduler's names: they say what is there, whatever happened before."""

from __future__ import annotations

from headgate.kube.metrics import Sample
from headgate.scheduling.framework.cluster_events import UNSCHEDULABLE_TIMEOUT, on
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from unit.scheduling.pods import HELPED_BY_NODES, NODE_ADD, PROFILE, Allows, APod, Clocked, a_pod

FIT = Rejection("Fit", "no room", HELPED_BY_NODES)


def queueable(first: int, last: int) -> list[APod]:
    return [a_pod(f"x{number}", labels={"queueable": ""}) for number in range(first, last)]


GATED = [a_pod(f"y{number}") for number in range(10)]


def a_queue() -> Clocked:
    return Clocked(Allows("queueable"))


def park(clocked: Clocked, pods: list[APod]) -> None:
    for pod in pods:
        clocked.park(pod, FIT)


# pending_pods: active, backoff, gated, unschedulable. Pods are parked before others are added, since who is parked
# was tried first.


def test_pending_pods_of_active_unschedulable_and_gated() -> None:
    clocked = a_queue()
    park(clocked, queueable(30, 50))
    clocked.add(*GATED, *queueable(0, 30))
    assert clocked.pending() == (30, 0, 10, 20)


def test_pending_pods_of_all_queues() -> None:
    clocked = a_queue()
    park(clocked, queueable(15, 40))
    clocked.happens(NODE_ADD)
    for pod in queueable(40, 50):
        clocked.add(pod)
        clocked.fail(clocked.pop(), FIT)
    clocked.add(*GATED, *queueable(0, 15))
    assert clocked.pending() == (15, 25, 10, 10)


def test_pending_pods_after_all_moved_to_active_keep_the_gated() -> None:
    clocked = a_queue()
    park(clocked, queueable(0, 50))
    clocked.add(*GATED)
    clocked.now_s += 2
    clocked.happens(UNSCHEDULABLE_TIMEOUT)
    assert clocked.pending() == (50, 0, 10, 0)


def test_pending_pods_after_a_move_of_which_some_back_off() -> None:
    clocked = a_queue()
    park(clocked, queueable(20, 50))
    clocked.add(*GATED)
    clocked.now_s += 2
    park(clocked, queueable(100, 120))
    clocked.happens(UNSCHEDULABLE_TIMEOUT)
    assert clocked.pending() == (30, 20, 10, 0)


def test_pending_pods_after_a_move_and_the_end_of_all_backoffs() -> None:
    clocked = a_queue()
    park(clocked, queueable(0, 40))
    clocked.add(*queueable(40, 50))
    clocked.happens(UNSCHEDULABLE_TIMEOUT)
    assert clocked.pending() == (10, 40, 0, 0)
    clocked.requeue_due(after_s=2)
    assert clocked.pending() == (50, 0, 0, 0)


def test_pending_pods_after_deletions_everywhere() -> None:
    clocked = a_queue()
    park(clocked, queueable(30, 50))
    clocked.add(*GATED, *queueable(0, 30))
    clocked.delete(*queueable(0, 2), *queueable(30, 33), *GATED[:4])
    assert clocked.pending() == (28, 0, 6, 17)


def test_pending_pods_after_gated_pods_became_queueable() -> None:
    clocked = a_queue()
    park(clocked, queueable(30, 50))
    clocked.add(*GATED, *queueable(0, 30))
    for pod in GATED[:5]:
        clocked.update(pod.but(labels={"queueable": ""}))
    assert clocked.pending() == (35, 0, 5, 20)


def test_pending_pods_when_an_unschedulable_pod_becomes_gated_and_free_again() -> None:
    clocked = a_queue()
    park(clocked, queueable(0, 1))
    (pod,) = queueable(0, 1)
    clocked.update(pod.but(labels={}))
    assert clocked.pending() == (0, 0, 0, 1)
    clocked.happens(NODE_ADD)
    assert clocked.pending() == (0, 0, 1, 0)
    clocked.update(pod)
    assert clocked.pending() == (0, 1, 0, 0)


# queue_incoming_pods_total


THREE = queueable(1, 4)


def test_incoming_pods_that_are_added() -> None:
    clocked = a_queue()
    clocked.add(*THREE)
    assert clocked.queue.counters.incoming() == {("active", "UnschedulablePodAdd"): 3}


def test_incoming_pods_are_counted_after_failed_attempts() -> None:
    clocked = a_queue()
    park(clocked, THREE)
    assert clocked.queue.counters.incoming() == {
        ("active", "UnschedulablePodAdd"): 3,
        ("unschedulable", "ScheduleAttemptFailure"): 3,
    }


def test_incoming_pods_that_are_moved_to_backoff() -> None:
    clocked = a_queue()
    park(clocked, THREE)
    clocked.happens(UNSCHEDULABLE_TIMEOUT)
    assert clocked.queue.counters.incoming()["backoff", "UnschedulableTimeout"] == 3


def test_incoming_pods_that_are_moved_to_active() -> None:
    clocked = a_queue()
    park(clocked, THREE)
    clocked.requeue_due(after_s=300)
    assert clocked.queue.counters.incoming() == {
        ("active", "UnschedulablePodAdd"): 3,
        ("unschedulable", "ScheduleAttemptFailure"): 3,
        ("active", "UnschedulableTimeout"): 3,
    }


def test_incoming_pods_whose_backoff_ends() -> None:
    clocked = a_queue()
    for pod in THREE:
        clocked.add(pod)
        clocked.fail(clocked.pop())
    clocked.requeue_due(after_s=2)
    assert clocked.queue.counters.incoming() == {
        ("active", "UnschedulablePodAdd"): 3,
        ("backoff", "ScheduleAttemptFailure"): 3,
        ("active", "BackoffComplete"): 3,
    }


def test_incoming_pods_that_are_popped_from_backoff() -> None:
    clocked = a_queue()
    park(clocked, THREE)
    clocked.happens(NODE_ADD)
    clocked.names_popped()
    assert clocked.queue.counters.incoming()["active", "PopFromBackoffQ"] == 3
    assert clocked.queue.counters.incoming()["backoff", "NodeAdd"] == 3


def test_incoming_pods_that_are_gated_and_freed() -> None:
    clocked = Clocked(SchedulingGates())
    pod = a_pod("p", gates=("foo",))
    clocked.add(pod)
    clocked.update(pod.but(gates=()))
    assert clocked.queue.counters.incoming() == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("active", "UnschedulablePodUpdatePodSchedulingGatesEliminated"): 1,
    }


# unschedulable_pods


def test_unschedulable_pods_count_each_plugin_that_turned_the_pod_away_until_it_is_tried_again() -> None:
    clocked = a_queue()
    queued = clocked.park(THREE[0], FIT, Rejection("Taints", "not tolerated", on("Node", "UpdateNodeTaint")))
    assert clocked.queue.counters.unschedulable() == {("Fit", PROFILE): 1, ("Taints", PROFILE): 1}
    clocked.happens(NODE_ADD)
    assert clocked.queue.counters.unschedulable() == {("Fit", PROFILE): 1, ("Taints", PROFILE): 1}
    assert clocked.pop() is queued
    assert clocked.queue.counters.unschedulable() == {}


def test_the_samples_carry_the_names_of_kube_scheduler() -> None:
    clocked = Clocked(SchedulingGates())
    clocked.add(a_pod("gated", gates=("foo",)), a_pod("free"))
    clocked.pop()
    clocked.happens(NODE_ADD)
    assert list(clocked.queue.samples()) == [
        Sample("scheduler_pending_pods", (("queue", "active"),), 0),
        Sample("scheduler_pending_pods", (("queue", "backoff"),), 0),
        Sample("scheduler_pending_pods", (("queue", "unschedulable"),), 0),
        Sample("scheduler_pending_pods", (("queue", "gated"),), 1),
        Sample("scheduler_queue_incoming_pods_total", (("event", "UnschedulablePodAdd"), ("queue", "active")), 1),
        Sample(
            "scheduler_queue_incoming_pods_total", (("event", "UnschedulablePodAdd"), ("queue", "unschedulable")), 1
        ),
        Sample("scheduler_unschedulable_pods", (("plugin", "SchedulingGates"), ("profile", PROFILE)), 1),
        Sample("scheduler_inflight_events", (("event", "NodeAdd"),), 1),
        Sample("scheduler_inflight_events", (("event", "PodPopped"),), 1),
    ]
