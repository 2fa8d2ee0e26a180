"""Nominations: which pod is nominated to which node, and which pods may be tried when a nomination ends."""

from __future__ import annotations

from headgate.scheduling.framework.cluster_events import ClusterEvent, on
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.pod_lifecycle import PodState
from unit.scheduling.pods import Allows, Clocked, a_pod

PROMISED = a_pod("p", nominated_node="node1")
WAITS_FOR_PODS = Rejection("Fit", "no room", on("Pod", "Delete"))


def names(clocked: Clocked, node: str = "node1") -> list[str]:
    return [pod.name for pod in clocked.queue.nominator.on_node(node)]


def test_a_pod_that_names_a_node_is_promised_it_when_it_is_added() -> None:
    clocked = Clocked()
    clocked.add(PROMISED, a_pod("q"))
    assert names(clocked) == ["p"]
    assert clocked.queue.nominator.nodes() == ("node1",)


def test_a_gated_pod_is_promised_nothing() -> None:
    clocked = Clocked(Allows("ready"))
    clocked.add(PROMISED)
    assert names(clocked) == []


def test_an_update_that_names_a_node_is_a_promise() -> None:
    clocked = Clocked()
    clocked.add(a_pod("p"))
    clocked.update(PROMISED)
    assert names(clocked) == ["p"]


def test_a_promise_that_is_not_written_yet_survives_an_update() -> None:
    clocked = Clocked()
    clocked.add(a_pod("p"))
    queued = clocked.pop()
    clocked.fail(queued, WAITS_FOR_PODS)
    clocked.queue.nominate(queued.pod, "node1")
    clocked.update(a_pod("p", note="changed"))
    assert [pod.note for pod in clocked.queue.nominator.on_node("node1")] == ["changed"]


def test_another_node_takes_the_place_of_the_first_and_none_ends_the_promise() -> None:
    clocked = Clocked()
    clocked.add(PROMISED)
    clocked.update(PROMISED.but(nominated_node="node2"))
    assert (names(clocked), names(clocked, "node2")) == ([], ["p"])
    clocked.update(PROMISED.but(nominated_node=""))
    assert len(clocked.queue.nominator) == 0


def test_a_promise_can_be_taken_back() -> None:
    clocked = Clocked()
    clocked.add(PROMISED)
    clocked.queue.nominate(PROMISED, "")
    assert clocked.queue.nominator.node_of(PROMISED.uid) is None


def test_a_pod_that_is_gone_is_promised_nothing() -> None:
    clocked = Clocked()
    clocked.add(PROMISED)
    clocked.delete(PROMISED)
    clocked.queue.nominate(PROMISED, "node1")
    assert names(clocked) == []


def test_a_pod_that_has_its_node_needs_no_promise() -> None:
    clocked = Clocked()
    clocked.add(PROMISED)
    clocked.queue.done(clocked.pop())
    assert names(clocked) == []


def test_when_a_nominated_pod_is_deleted_pods_of_no_higher_priority_are_woken() -> None:
    clocked = Clocked()
    low, equal = clocked.park(a_pod("low"), WAITS_FOR_PODS), clocked.park(a_pod("equal", priority=5), WAITS_FOR_PODS)
    high = clocked.park(a_pod("high", priority=9), WAITS_FOR_PODS)
    promised = PROMISED.but(priority=5)
    clocked.add(promised)
    clocked.delete(promised)
    assert [queued.state for queued in (low, equal, high)] == [
        PodState.BACKOFF,
        PodState.BACKOFF,
        PodState.UNSCHEDULABLE,
    ]


def test_when_a_nomination_moves_to_another_node_others_are_woken() -> None:
    clocked = Clocked()
    waiting = clocked.park(a_pod("low"), WAITS_FOR_PODS)
    clocked.add(PROMISED)
    clocked.update(PROMISED.but(nominated_node="node2"))
    assert waiting.state is PodState.BACKOFF


def test_when_a_nominated_pod_is_bound_no_pod_is_woken() -> None:
    clocked = Clocked()
    waiting = clocked.park(a_pod("low"), WAITS_FOR_PODS)
    clocked.add(PROMISED)
    clocked.delete(PROMISED, bound=True)
    assert waiting.state is PodState.UNSCHEDULABLE


def test_the_deletion_of_an_assigned_pod_wakes_pods_that_wait_for_it() -> None:
    clocked = Clocked()
    waiting = clocked.park(a_pod("low"), WAITS_FOR_PODS)
    clocked.happens(ClusterEvent("AssignedPod", "Delete", old=a_pod("gone", node_name="n")))
    assert waiting.state is PodState.BACKOFF
