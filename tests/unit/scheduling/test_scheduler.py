"""The scheduler: what the API shows goes to the right place, pods are tried, and answers to bindings are understood."""

from __future__ import annotations

import pytest

from headgate.kube.api_resources import NAMESPACES
from headgate.scheduling.framework.effects import WriteResult
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.scheduler import Scheduler
from unit.scheduling.world import World, a_node, a_pod, configured, with_status

CPU = {"cpu": "3"}
GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]


def test_a_pod_is_bound_counted_from_then_on_and_announced_when_that_is_done() -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    assert world.binds == {"p": "a"}
    assert world.taken("a") == 1
    world.answer("p", WriteResult.DONE)
    assert world.said == [("p", "Scheduled")]
    assert len(world.scheduler.queue) == 0
    world.show_bound(a_pod("p", CPU), "a")
    assert world.taken("a") == 1


def test_pods_of_other_schedulers_are_left_alone_and_count_where_they_run() -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    foreign = a_pod("foreign", CPU, schedulerName="other")
    world.show(foreign)
    assert world.step() == []
    world.show_bound(foreign, "a")
    world.show(a_pod("p", CPU))
    world.step()
    assert world.statuses == {"p": "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. " + PREEMPTION}


PREEMPTION = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


def test_capacity_is_not_used_twice_while_a_binding_is_in_progress() -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    world.show(a_pod("p", CPU), a_pod("q", CPU))
    world.step()
    assert world.binds == {"p": "a"}
    assert world.where("q") is PodState.UNSCHEDULABLE


@pytest.mark.parametrize("result", [WriteResult.REFUSED, WriteResult.LATER])
def test_a_binding_that_fails_frees_the_capacity_and_the_pod_waits_for_its_back_off(result: WriteResult) -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    world.answer("p", result, "no")
    assert world.taken("a") == 0
    assert world.where("p") is PodState.ERROR_BACKOFF
    assert world.statuses == {"p": "SchedulerError: binding rejected: no"}
    world.step(after_s=3)
    assert world.binds == {"p": "a"}


def test_a_binding_of_unknown_outcome_is_repeated_on_the_same_node_and_keeps_its_capacity() -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    world.answer("p", WriteResult.UNKNOWN)
    assert world.taken("a") == 1
    assert world.step() == []
    world.scheduler.node_applied(a_node("0-better", cpu="64"), world.now_s)
    world.step(after_s=1.5)
    assert world.binds == {"p": "a"}
    world.answer("p", WriteResult.DONE)
    assert world.said == [("p", "Scheduled")]


def test_the_watch_may_settle_a_binding_of_unknown_outcome() -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    world.answer("p", WriteResult.UNKNOWN)
    world.show_bound(a_pod("p", CPU), "a")
    world.step(after_s=60)
    assert world.binds == {}
    assert world.said == [("p", "Scheduled")]
    assert world.taken("a") == 1
    assert len(world.scheduler.bindings) == len(world.scheduler.queue) == 0


def test_a_pod_that_another_client_bound_leaves_the_queue() -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    world.answer("p", WriteResult.TAKEN)
    assert world.taken("a") == 1  # until it is known that it is not there
    world.show_bound(a_pod("p", CPU), "b")
    assert world.step(after_s=60) == []
    assert (world.taken("a"), world.taken("b")) == (0, 1)


@pytest.mark.parametrize("then", [WriteResult.TAKEN, WriteResult.LATER, WriteResult.REFUSED])
def test_capacity_of_a_binding_with_an_unknown_outcome_stays_assumed_after_a_later_attempt(then: WriteResult) -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    world.show(a_pod("p", CPU), a_pod("q", CPU))
    world.step()
    world.answer("p", WriteResult.UNKNOWN)
    world.step(after_s=2)
    world.answer("p", then)
    assert world.taken("a") == 1
    world.scheduler.queue.activate(["uid-q"], world.now_s)
    world.step(after_s=20)
    assert world.binds == {"p": "a"}
    world.show_bound(a_pod("p", CPU), "a")
    world.answer("p", then)
    assert world.taken("a") == 1
    assert world.said == [("p", "Scheduled")]
    assert len(world.scheduler.bindings) == 0


def test_a_pod_that_another_client_bound_to_another_node_frees_its_assumed_capacity() -> None:
    world = World(nodes=[a_node("a", cpu="4"), a_node("b", cpu="1")])
    world.show(a_pod("p", CPU), a_pod("q", CPU))
    world.step()
    world.show_bound(a_pod("p", CPU), "b")
    world.answer("p", WriteResult.TAKEN)
    world.step(after_s=2)
    assert world.binds == {"q": "a"}


def test_a_node_that_is_added_again_has_the_pods_that_are_being_bound_to_it() -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    world.show(a_pod("p", CPU))
    world.step()
    world.scheduler.node_removed("a", world.now_s)
    world.show(a_pod("p", CPU, labels={"late": "news"}))
    world.scheduler.node_applied(a_node("a", cpu="4"), world.now_s)
    world.show(a_pod("q", CPU))
    world.step()
    assert world.binds == {}
    assert world.taken("a") == 1
    world.answer("p", WriteResult.DONE)
    assert world.step(after_s=60) == []


def test_a_node_that_is_added_again_has_its_capacity_free_if_a_binding_to_it_failed() -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    world.show(a_pod("p", CPU))
    world.step()
    world.scheduler.node_removed("a", world.now_s)
    world.answer("p", WriteResult.LATER)
    world.scheduler.node_applied(a_node("a", cpu="4"), world.now_s)
    assert world.taken("a") == 0
    world.step(after_s=20)
    assert world.binds == {"p": "a"}


def test_a_pod_whose_gates_the_server_minds_waits_for_their_end_and_for_nothing_else() -> None:
    world = World()
    pod = a_pod("p", CPU)
    world.show(pod)
    world.step()
    world.answer("p", WriteResult.GATED, "has gates")
    assert world.effects == []
    assert world.where("p") is PodState.UNSCHEDULABLE
    assert world.step(after_s=1000) == []


def test_a_pod_that_is_gone_is_forgotten_whenever_that_is_heard() -> None:
    world = World()
    world.show(a_pod("p", CPU), a_pod("q", CPU), a_pod("r", CPU))
    world.step(most=2)
    world.answer("p", WriteResult.GONE)
    world.remove("q")
    world.remove("r")
    world.answer("q", WriteResult.DONE)
    assert world.taken("a") == world.taken("b") == 0
    assert len(world.scheduler.queue) == len(world.scheduler.bindings) == 0


def test_a_pod_as_it_was_before_its_binding_does_not_come_back() -> None:
    world = World()
    world.show(a_pod("p", CPU))
    world.step()
    world.answer("p", WriteResult.DONE)
    world.show(a_pod("p", CPU, labels={"late": "news"}))
    assert world.step(after_s=60) == []


def test_a_pod_that_is_being_deleted_is_not_tried() -> None:
    world = World()
    pod = a_pod("p", CPU)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.show(pod)
    assert world.step() == []


def test_a_pod_that_has_ended_frees_its_capacity() -> None:
    world = World(nodes=[a_node("a", cpu="4")])
    done = a_pod("done", CPU)
    world.show_bound(done, "a")
    world.show(a_pod("p", CPU))
    world.step()
    assert world.where("p") is PodState.UNSCHEDULABLE
    world.show({**done, "spec": {**done["spec"], "nodeName": "a"}, "status": {"phase": "Succeeded"}})
    world.step()
    assert world.binds == {"p": "a"}


def test_a_gated_pod_is_tried_when_its_last_gate_goes_and_never_called_unschedulable_before() -> None:
    world = World(nodes=[a_node("a", cpu="1")])
    world.show(a_pod("p", CPU, schedulingGates=GATES))
    assert world.step() == []
    world.show(a_pod("p", CPU, schedulingGates=GATES[1:]))
    assert world.step() == []
    world.show(a_pod("p", CPU))
    world.step()
    assert set(world.statuses) == {"p"}


def test_a_pod_that_is_gated_for_ten_seconds_gets_one_event_with_its_gates() -> None:
    world = World()
    world.show(a_pod("p", schedulingGates=GATES), a_pod("q", schedulingGates=GATES))
    assert world.step(after_s=9.9) == []
    world.show(a_pod("q"))
    world.step()
    assert world.scheduler.next_deadline_s() == pytest.approx(1010.0)
    world.step(after_s=0.2)
    assert world.said == [("p", "SchedulingGated")]
    assert "example.com/a, example.com/b" in repr(world.effects[0])
    assert world.step(after_s=600) == []


def gated_events(world: World) -> int:
    """How many Events come out until there is nothing to wait for any more."""
    count = 0
    while (deadline_s := world.scheduler.next_deadline_s()) is not None:
        world.step(after_s=max(0.0, deadline_s - world.now_s))
        count += len(world.said)
    return count


def test_events_about_gated_pods_are_limited_and_the_others_counted() -> None:
    world = World()
    world.scheduler = Scheduler(*configured(()), gated_events_per_hour=36)
    world.show(*(a_pod(f"p{number}", schedulingGates=GATES) for number in range(100)))
    assert gated_events(world) == 36
    assert b"headgate_gated_pod_events_withheld_total 64\n" in world.scheduler.metrics_exposition(world.now_s)
    world.now_s += 1000.0  # a hundred seconds for each further one
    world.show(*(a_pod(f"q{number}", schedulingGates=GATES) for number in range(100)))
    assert gated_events(world) == 10


def test_events_about_gated_pods_can_be_switched_off() -> None:
    world = World()
    world.scheduler = Scheduler(*configured(()), gated_events_per_hour=0)
    world.show(a_pod("p", schedulingGates=GATES))
    assert gated_events(world) == 0


def test_by_default_no_more_than_a_thousand_events_about_gated_pods_come_out_at_once() -> None:
    world = World()
    world.show(*(a_pod(f"p{number}", schedulingGates=GATES) for number in range(1200)))
    assert 1000 <= gated_events(world) <= 1020  # a few more as time goes by


def test_events_of_many_gated_pods_are_limited() -> None:
    world = World()
    names = [f"p{number}" for number in range(100)]
    world.show(*(a_pod(name, schedulingGates=GATES) for name in names))
    world.step(after_s=10)
    assert world.said == [("p0", "SchedulingGated")]
    told = ["p0"]
    seconds = 0.0
    while (deadline_s := world.scheduler.next_deadline_s()) is not None:
        seconds += deadline_s - world.now_s
        world.step(after_s=deadline_s - world.now_s)
        told += [name for name, _ in world.said]
    assert told == names
    assert seconds == pytest.approx(99 * 0.05)


def test_a_condition_is_written_only_when_it_says_something_new() -> None:
    world = World(nodes=[a_node("a", cpu="1")])
    pod = a_pod("p", CPU)
    world.show(pod)
    world.step()
    reason, _, message = world.statuses["p"].partition(": ")
    world.scheduler.node_applied(a_node("a", cpu="2"), world.now_s)
    world.show(with_status(pod, reason=reason, message=message, observedGeneration=0))
    world.scheduler.node_applied(a_node("a", cpu="1"), world.now_s)
    world.scheduler.queue.activate(["uid-p"], world.now_s)
    world.step(after_s=2)
    assert world.statuses == {}
    assert world.said == [("p", "FailedScheduling")]
    world.scheduler.node_applied(a_node("b", cpu="1"), world.now_s)
    world.scheduler.queue.activate(["uid-p"], world.now_s)
    world.step(after_s=2)
    assert "0/2 nodes" in world.statuses["p"]


def test_without_any_node_pods_are_tried_again_and_again() -> None:
    world = World()
    for name in "ab":
        world.scheduler.node_removed(name, world.now_s)
    world.show(a_pod("p"))
    world.step()
    assert world.statuses == {"p": "Unschedulable: no nodes available to schedule pods"}, "or no autoscaler makes any"
    assert world.where("p") is PodState.ERROR_BACKOFF


def test_objects_that_cannot_be_read_are_reported_and_the_others_are_scheduled() -> None:
    world = World()
    world.show({"metadata": {"name": "odd", "namespace": "default"}}, a_pod("p"))
    world.scheduler.node_applied(a_node("odd", cpu="-1"), world.now_s)
    world.scheduler.object_applied(NAMESPACES, {"metadata": {}}, world.now_s)
    world.step()
    assert world.binds == {"p": "a"}
    assert len(world.problems) == 3
    assert all("odd" in problem for problem in world.problems[:2])


def test_a_pod_that_no_event_can_help_gets_one_condition_and_no_retry_after_that_write() -> None:
    world = World()
    pods = (a_pod("odd", {"cpu": "1E"}), a_pod("devices", CPU, resourceClaims=[{"name": "gpu"}]))
    world.show(*pods)
    world.step()
    assert len(world.said) == 2
    world.show(
        *(with_status(pod, reason="Unschedulable", message=world.statuses[pod["metadata"]["name"]]) for pod in pods)
    )
    assert world.step(after_s=60) == []
    world.show(a_pod("odd", CPU))
    world.step()
    assert world.binds == {"odd": "a"}


def test_an_impossible_amount_is_reported_on_its_pod_only() -> None:
    world = World()
    world.show(a_pod("odd", {"cpu": "1e300"}), a_pod("p"))
    world.step()
    assert world.binds == {"p": "a"}
    assert "odd" in world.statuses
