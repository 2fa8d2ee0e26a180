"""Pods in flight: what happened while they were tried is looked at again when they fail."""

from __future__ import annotations

from typing import Any

from headgate.scheduling.framework.cluster_events import ClusterEvent, on
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.pod_lifecycle import PodState
from unit.scheduling.pods import HELPED_BY_NODES, NODE_ADD, Allows, AShape, Clocked, Never, a_pod

FIT = Rejection("Fit", "no room", HELPED_BY_NODES)
VOLUME_ADD = ClusterEvent("PersistentVolume", "Add")
PLAIN = a_pod("p")


def events_kept(clocked: Clocked) -> list[str]:
    return [event.label for event in clocked.queue._in_flight.events()]


def test_no_events_are_kept_while_no_pod_is_tried() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    clocked.happens(NODE_ADD)
    assert events_kept(clocked) == []


def test_an_event_during_the_attempt_that_would_have_woken_it_sends_it_to_backoff() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    clocked.happens(NODE_ADD)
    assert clocked.fail(queued, FIT) is PodState.BACKOFF


def test_events_before_the_attempt_do_not_count() -> None:
    clocked = Clocked()
    clocked.add(a_pod("other"), PLAIN)
    clocked.pop()
    clocked.happens(NODE_ADD)
    assert clocked.fail(clocked.pop(), FIT) is PodState.UNSCHEDULABLE


def test_events_that_concern_other_plugins_do_not_count() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    clocked.happens(VOLUME_ADD)
    assert clocked.fail(queued, FIT) is PodState.UNSCHEDULABLE


def test_a_guard_decides_about_events_during_the_attempt_too() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    clocked.happens(NODE_ADD)
    assert clocked.fail(queued, Rejection("Fit", "no room", on("Node", "Add", guard=Never()))) is PodState.UNSCHEDULABLE


def test_a_pending_plugin_that_was_helped_meanwhile_sends_the_pod_to_active() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    clocked.happens(NODE_ADD)
    clocked.happens(VOLUME_ADD)
    pending = Rejection("Volumes", "being bound", on("PersistentVolume", "Add"), pending=True)
    assert clocked.fail(queued, FIT, pending) is PodState.ACTIVE


def test_an_error_needs_no_event_to_be_tried_again() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    assert clocked.fail(clocked.pop()) is PodState.ERROR_BACKOFF


def test_events_are_kept_as_long_as_a_pod_needs_them_and_no_longer() -> None:
    clocked = Clocked()
    clocked.add(a_pod("a"), a_pod("b"), a_pod("c"))
    first = clocked.pop()
    clocked.happens(VOLUME_ADD)
    second = clocked.pop()
    clocked.happens(NODE_ADD)
    third = clocked.pop()
    clocked.happens(ClusterEvent("Node", "Delete"))
    assert events_kept(clocked) == ["PersistentVolumeAdd", "NodeAdd", "NodeDelete"]
    clocked.queue.done(second)
    assert events_kept(clocked) == ["PersistentVolumeAdd", "NodeAdd", "NodeDelete"]
    clocked.queue.done(first)
    assert events_kept(clocked) == ["NodeDelete"]
    assert [flight.queued for flight in clocked.queue.in_flight()] == [third]
    assert clocked.fail(third, Rejection("Odd", "", on("Node", "Delete"))) is PodState.BACKOFF
    assert events_kept(clocked) == []


def test_a_pod_that_is_done_is_known_no_more() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    clocked.queue.done(clocked.pop())
    assert len(clocked.queue) == 0
    assert clocked.pending() == (0, 0, 0, 0)


def test_an_update_of_a_pod_in_flight_puts_it_in_no_queue_and_counts_when_it_fails() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    tried = queued.pod
    clocked.update(PLAIN.but(shape=AShape(tolerations=("all",))))
    assert queued.state is PodState.SCHEDULING
    assert queued.pod is tried
    assert clocked.fail(queued, Rejection("Taints", "no", on("Pod", "UpdatePodToleration"))) is PodState.BACKOFF
    assert queued.pod.shape.tolerations == ("all",)


def test_an_update_of_another_pod_in_flight_does_not_count() -> None:
    clocked = Clocked()
    clocked.add(a_pod("a"), a_pod("b"))
    first, second = clocked.pop(), clocked.pop()
    clocked.update(a_pod("b", shape=AShape(tolerations=("all",))))
    taints = Rejection("Taints", "no", on("Pod", "UpdatePodToleration"))
    assert clocked.fail(first, taints) is PodState.UNSCHEDULABLE
    assert clocked.fail(second, taints) is PodState.BACKOFF


def test_a_pod_that_is_deleted_while_it_is_tried_does_not_come_back() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    clocked.delete(PLAIN)
    assert clocked.fail(queued, FIT) is None
    assert clocked.where(PLAIN) is None
    assert clocked.pending() == (0, 0, 0, 0)
    assert clocked.queue.counters.unschedulable() == {}


def test_a_pod_that_is_created_again_during_an_attempt_is_tried_again() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    clocked.delete(PLAIN)
    again = PLAIN.but(uid="uid-again")
    clocked.add(again)
    assert clocked.fail(queued, FIT) is None
    assert clocked.where(again) is PodState.ACTIVE


def test_a_pod_that_must_not_be_tried_any_more_is_gated_after_its_attempt() -> None:
    clocked = Clocked(Allows("ready"))
    ready = PLAIN.but(labels={"ready": ""})
    clocked.add(ready)
    queued = clocked.pop()
    clocked.update(PLAIN)
    clocked.happens(NODE_ADD)
    assert clocked.fail(queued, FIT) is PodState.GATED
    assert queued.pod.labels == {}


def test_a_broken_guard_does_not_lose_a_pod() -> None:
    class Broken:
        def matches(self, event: Any, /) -> bool:
            raise KeyError("broken")

    clocked = Clocked()
    clocked.add(PLAIN)
    queued = clocked.pop()
    clocked.happens(NODE_ADD)
    assert clocked.fail(queued, Rejection("Fit", "no room", on("Node", "Add", guard=Broken()))) is PodState.BACKOFF
