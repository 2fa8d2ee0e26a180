"""The scheduling queue when pods change, are deleted or activated."""

from __future__ import annotations

import pytest

from headgate.scheduling.framework.cluster_events import on, own_update
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.pod_lifecycle import PodState
from headgate.waiting.queueing_hints import ClusterEventWithHint
from unit.scheduling.pods import (
    HELPED_BY_NODES,
    NODE_ADD,
    PROFILE,
    Allows,
    AShape,
    Clocked,
    Never,
    a_pod,
)

FIT = Rejection("Fit", "no room", HELPED_BY_NODES)
PLAIN = a_pod("p")


# Updates


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    clocked = Clocked()
    clocked.update(PLAIN)
    assert clocked.where(PLAIN) is PodState.ACTIVE
    assert clocked.queue.counters.incoming() == {("active", "UnschedulablePodUpdate"): 1}


def test_a_pod_that_is_added_twice_is_there_once() -> None:
    clocked = Clocked()
    clocked.add(PLAIN, PLAIN, PLAIN.but(note="relisted"))
    assert clocked.names_popped() == ["p"]


def test_an_active_pod_is_updated_where_it_is_and_not_gated_any_more() -> None:
    plugin = Allows("ready")
    clocked = Clocked(plugin)
    clocked.add(PLAIN.but(labels={"ready": ""}), a_pod("q", priority=1, labels={"ready": ""}))
    clocked.update(PLAIN.but(priority=2))
    assert clocked.where(PLAIN) is PodState.ACTIVE
    assert plugin.asked == 2
    assert clocked.names_popped() == ["p", "q"]


def test_a_pod_in_backoff_is_updated_where_it_is() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, FIT)
    clocked.happens(NODE_ADD)
    clocked.update(PLAIN.but(note="changed"))
    assert queued.state is PodState.BACKOFF
    assert clocked.pop().pod.note == "changed"


def test_an_unschedulable_pod_that_changes_as_its_plugin_wished_pays_its_backoff() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, Rejection("Taints", "not tolerated", on("Pod", "UpdatePodToleration")))
    clocked.update(PLAIN.but(shape=AShape(tolerations=("all",))))
    assert queued.state is PodState.BACKOFF


def test_an_unschedulable_pod_that_changes_after_its_backoff_may_be_tried_at_once() -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, Rejection("Taints", "not tolerated", on("Pod", "UpdatePodToleration")))
    clocked.now_s += 10
    clocked.update(PLAIN.but(shape=AShape(tolerations=("all",))))
    assert queued.state is PodState.ACTIVE


@pytest.mark.parametrize("wakers", [on("Pod", "UpdatePodToleration"), own_update(Never())])
def test_an_unschedulable_pod_that_changes_otherwise_stays(wakers: tuple[ClusterEventWithHint, ...]) -> None:
    clocked = Clocked()
    queued = clocked.park(PLAIN, Rejection("Taints", "not tolerated", wakers))
    clocked.update(PLAIN.but(note="changed"))
    assert queued.state is PodState.UNSCHEDULABLE
    assert queued.pod.note == "changed"


def test_a_change_of_one_pod_wakes_no_other() -> None:
    clocked = Clocked()
    other = clocked.park(a_pod("other"), Rejection("Taints", "not tolerated", on("Pod", "Update")))
    clocked.park(PLAIN, FIT)
    clocked.update(PLAIN.but(labels={"a": "b"}))
    assert other.state is PodState.UNSCHEDULABLE


# Deletion


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_a_deleted_pod_is_gone_from_wherever_it_was(place: str) -> None:
    clocked = Clocked(Allows("ready"))
    ready = PLAIN.but(labels={"ready": ""})
    if place == "active":
        clocked.add(ready)
    elif place == "gated":
        clocked.add(PLAIN)
    else:
        clocked.park(ready, FIT)
        if place == "backoff":
            clocked.happens(NODE_ADD)
    assert clocked.where(PLAIN) == place
    clocked.delete(PLAIN)
    assert clocked.where(PLAIN) is None
    assert clocked.pending() == (0, 0, 0, 0)
    assert clocked.requeue_due(after_s=1000) == 0
    assert clocked.queue.pop(clocked.now_s) is None
    assert clocked.queue.counters.unschedulable() == {}


def test_deleting_an_unknown_pod_has_no_effect() -> None:
    clocked = Clocked()
    clocked.delete(PLAIN)
    assert len(clocked.queue) == 0


# Activation


def test_activation_moves_parked_pods_and_those_in_backoff() -> None:
    clocked = Clocked()
    parked = clocked.park(a_pod("a"), Rejection("Odd", "no idea"))
    waiting = clocked.park(a_pod("b"), FIT)
    clocked.happens(NODE_ADD)
    assert clocked.queue.activate([parked.uid, waiting.uid], clocked.now_s) == 2
    assert (parked.state, waiting.state) == (PodState.ACTIVE, PodState.ACTIVE)
    assert clocked.queue.counters.incoming()["active", "ForceActivate"] == 2


def test_activation_of_active_and_unknown_pods_has_no_effect() -> None:
    clocked = Clocked()
    clocked.add(PLAIN)
    assert clocked.queue.activate([PLAIN.uid, "stranger"], clocked.now_s) == 0
    assert clocked.queue.counters.incoming() == {("active", "UnschedulablePodAdd"): 1}


def test_a_pod_that_is_activated_during_a_failed_attempt_is_retried_after_its_back_off() -> None:
    clocked = Clocked()
    clocked.add(a_pod("a"), a_pod("b"))
    first, second = clocked.pop(), clocked.pop()
    clocked.queue.activate([first.uid], clocked.now_s)
    assert clocked.fail(first, FIT) is PodState.BACKOFF
    assert clocked.fail(second, FIT) is PodState.UNSCHEDULABLE


def test_profiles_have_their_own_plugins_and_counts() -> None:
    clocked = Clocked(Allows("ready"))
    other = PLAIN.but(scheduler_name="other")
    clocked.add(other, a_pod("q"))
    assert clocked.where(other) is PodState.ACTIVE
    assert clocked.queue.counters.unschedulable() == {("Allows", PROFILE): 1}
