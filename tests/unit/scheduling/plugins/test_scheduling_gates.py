"""SchedulingGates: which gates count, its messages, and the events that wake gated pods."""

from __future__ import annotations

import pytest

from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.pod_lifecycle import PodState
from unit.scheduling.pods import NODE_ADD, Allows, Clocked, a_pod


def ours(gate: str) -> bool:
    return gate.startswith("ours/")


def test_a_pod_without_gates_passes() -> None:
    assert SchedulingGates().pre_enqueue(a_pod("p")) is None


def test_the_rejection_names_the_gates() -> None:
    rejection = SchedulingGates().pre_enqueue(a_pod("p", gates=("foo", "bar")))
    assert rejection is not None
    assert rejection.plugin == "SchedulingGates"
    assert rejection.reason == "waiting for scheduling gates: [foo bar]"


def test_a_pod_that_loses_its_gates_may_be_tried_at_once() -> None:
    clocked = Clocked(SchedulingGates())
    pod = a_pod("p", gates=("foo", "bar"))
    clocked.add(pod)
    assert clocked.where(pod) is PodState.GATED
    clocked.update(pod.but(gates=()))
    assert clocked.where(pod) is PodState.ACTIVE


def test_lifting_the_gates_of_one_pod_moves_no_other() -> None:
    clocked = Clocked(SchedulingGates())
    first, second = a_pod("a", gates=("foo",)), a_pod("b", gates=("foo",))
    clocked.add(first, second)
    clocked.update(second.but(gates=()))
    assert clocked.names_popped() == ["b"]
    assert clocked.where(first) is PodState.GATED


def test_a_pod_that_loses_one_of_two_gates_stays_parked() -> None:
    gate_keeper = Allows("never-asked", name="Second")
    clocked = Clocked(SchedulingGates(), gate_keeper)
    pod = a_pod("p", gates=("foo", "bar"))
    clocked.add(pod)
    clocked.update(pod.but(gates=("bar",)))
    assert clocked.where(pod) is PodState.GATED
    assert gate_keeper.asked == 0
    assert clocked.queue.counters.incoming() == {("unschedulable", "UnschedulablePodAdd"): 1}


def test_the_reason_names_the_remaining_gates() -> None:
    clocked = Clocked(SchedulingGates())
    pod = a_pod("p", gates=("foo", "bar"))
    clocked.add(pod)
    clocked.update(pod.but(gates=("bar",)))
    why = clocked.queue.why(pod.uid)
    assert why is not None
    assert [each.reason for each in why.reason] == ["waiting for scheduling gates: [bar]"]


@pytest.mark.parametrize("change", [{"labels": {"a": "b"}}, {"note": "annotated"}, {"nominated_node": "n"}])
def test_other_changes_of_a_gated_pod_leave_it_gated(change: dict[str, object]) -> None:
    clocked = Clocked(SchedulingGates())
    pod = a_pod("p", gates=("foo",))
    clocked.add(pod)
    clocked.update(pod.but(**change))
    assert clocked.where(pod) is PodState.GATED


def test_gates_of_our_own_do_not_count() -> None:
    assert SchedulingGates(ours).pre_enqueue(a_pod("p", gates=("ours/queue",))) is None
    rejection = SchedulingGates(ours).pre_enqueue(a_pod("p", gates=("ours/queue", "foo")))
    assert rejection is not None
    assert rejection.reason == "waiting for scheduling gates: [foo]"


def test_losing_the_last_foreign_gate_wakes_a_pod_that_still_has_ours() -> None:
    clocked = Clocked(SchedulingGates(ours), owned=ours)
    pod = a_pod("p", gates=("ours/queue", "foo", "bar"))
    clocked.add(pod)
    clocked.update(pod.but(gates=("ours/queue", "bar")))
    assert clocked.where(pod) is PodState.GATED
    clocked.update(pod.but(gates=("ours/queue",)))
    assert clocked.where(pod) is PodState.ACTIVE
    assert clocked.queue.counters.incoming() == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("active", "UnschedulablePodUpdatePodSchedulingGatesEliminated"): 1,
    }


def test_removing_the_queue_gate_does_not_wake_a_pod_with_a_foreign_gate() -> None:
    clocked = Clocked(SchedulingGates(ours), owned=ours)
    pod = a_pod("p", gates=("ours/queue", "foo"))
    clocked.add(pod)
    clocked.update(pod.but(gates=("foo",)))
    assert clocked.where(pod) is PodState.GATED


def test_without_the_feature_gates_are_ignored_and_other_plugins_are_not() -> None:
    other = Allows("ready")
    clocked = Clocked(SchedulingGates(enabled=False), other)
    free, held = a_pod("free", gates=("foo",), labels={"ready": ""}), a_pod("held", gates=("foo",))
    clocked.add(free, held)
    assert clocked.where(free) is PodState.ACTIVE
    assert clocked.where(held) is PodState.GATED
    why = clocked.queue.why(held.uid)
    assert why is not None
    assert [each.plugin for each in why.reason] == ["Allows"]


def test_a_gated_pod_sleeps_through_everything_that_is_not_about_its_gates() -> None:
    clocked = Clocked(SchedulingGates())
    pod = a_pod("p", gates=("foo",))
    clocked.add(pod)
    assert clocked.happens(NODE_ADD) == 0
    assert clocked.requeue_due(after_s=3600) == 0
    assert clocked.queue.next_deadline_s() is None
    assert clocked.where(pod) is PodState.GATED


def test_a_deleted_pod_leaves_no_count() -> None:
    clocked = Clocked(SchedulingGates())
    pods = [a_pod(name, gates=("foo",)) for name in "abc"]
    clocked.add(*pods)
    assert clocked.queue.counters.unschedulable() == {("SchedulingGates", "default-scheduler"): 3}
    clocked.delete(pods[0])
    clocked.update(pods[1].but(gates=()))
    clocked.pop()
    clocked.delete(pods[2])
    assert clocked.queue.counters.unschedulable() == {}
    assert clocked.pending() == (0, 0, 0, 0)
