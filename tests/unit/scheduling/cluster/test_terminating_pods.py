"""A pod with quota whose room is being left is promised the node, and is no shortage until those who leave are overdue.

Pods of the default profile: `a` and `b` have room for one each, and one each that was told to end.
"""

from __future__ import annotations

from typing import Any

import pytest

from clusters import a_node, a_pod
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.kube.timestamps import format_time
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from headgate.scheduling.framework.effects import Preempt, SetStatus
from unit.scheduling.terminating_world import EPOCH_S, TerminatingWorld


def test_a_pod_with_quota_is_promised_the_node_that_is_being_left_and_is_no_shortage() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    assert (world.reasons, world.nominations) == ({"p": WAITING_FOR_TERMINATING_PODS}, {"p": "a"})
    until = format_time(EPOCH_S + world.now_s + 60.0)
    assert world.statuses["p"].endswith(f"Node a will have room when pods that terminate there are gone by {until}.")


def test_it_gets_the_node_when_they_are_gone() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    world.remove("old")
    world.step(30.0)
    assert world.binds == {"p": "a"}


def test_when_they_are_overdue_it_is_a_shortage_and_loses_the_promise_without_anything_happening() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    world.step(10.0)
    assert world.scheduler.next_deadline_s() == world.now_s + 50.0 + OVERDUE_AFTER_S
    assert not world.step(49.0 + OVERDUE_AFTER_S)
    world.step(1.0)
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {"p": ""})


def test_so_is_one_that_may_not_preempt() -> None:
    """Nobody looks for another way out then, and what was promised would stand."""
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p", preemptionPolicy="Never")
    world.step()
    assert world.nominations == {"p": "a"}
    world.step(60.0 + OVERDUE_AFTER_S)
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {"p": ""})


def test_two_are_not_promised_the_same_room() -> None:
    world = TerminatingWorld("a", "b")
    world.add_terminating_pod("old-a", "a", 60.0)
    world.add_terminating_pod("old-b", "b", 30.0)
    for name in ("p", "q", "r"):
        world.create_pod(name)
    world.step()
    assert world.nominations == {"p": "b", "q": "a"}, "where somebody leaves first"
    assert world.reasons == {"p": WAITING_FOR_TERMINATING_PODS, "q": WAITING_FOR_TERMINATING_PODS, "r": "Unschedulable"}


def test_one_that_is_more_important_comes_first_and_the_other_looks_again() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    world.create_pod("urgent", priority=10)
    world.step()
    assert world.nominations == {"urgent": "a", "p": ""}
    assert world.reasons == {"urgent": WAITING_FOR_TERMINATING_PODS, "p": "Unschedulable"}


def test_a_pod_without_quota_is_a_shortage_as_on_any_cluster() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p", labels=())
    world.step()
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {})


def test_room_that_would_not_suffice_is_not_waited_for() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p", "2")
    world.step()
    assert world.reasons == {"p": "Unschedulable"}


def test_nobody_has_to_go_for_a_pod_whose_room_is_being_left() -> None:
    world = TerminatingWorld("a", "b")
    world.add_terminating_pod("old", "a", 60.0)
    world.show_bound(a_pod("lower", {"cpu": "1"}, priority=0), "b")
    world.create_pod("p", priority=10)
    world.step()
    assert world.nominations == {"p": "a"}
    assert not [each for each in world.effects if isinstance(each, Preempt)]


def test_it_looks_again_when_the_first_is_overdue_and_waits_as_long_as_the_others_are_enough() -> None:
    world = TerminatingWorld()
    world.scheduler.node_applied(a_node("big", cpu="3"), world.now_s)
    for name, in_s in (("x", 10.0), ("y", 20.0), ("z", 90.0)):
        world.add_terminating_pod(name, "big", in_s)
    world.create_pod("p", "2")
    world.step()
    assert format_time(EPOCH_S + world.now_s + 20.0) in world.statuses["p"], "z is not needed"
    world.step(9.0)
    assert world.scheduler.next_deadline_s() == world.now_s + 1.0 + OVERDUE_AFTER_S
    world.step(1.0 + OVERDUE_AFTER_S)
    assert world.reasons == {"p": WAITING_FOR_TERMINATING_PODS}, "y and z are enough"
    world.step(10.0)
    assert world.reasons == {"p": "Unschedulable"}


def test_a_scheduler_that_starts_anew_says_the_same() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    pod = world.create_pod("p", preemptionPolicy="Never")
    world.step()
    (update,) = (each for each in world.effects if isinstance(each, SetStatus))
    assert update.condition is not None
    pod["status"] = {"nominatedNodeName": update.nominated_node, "conditions": [dict(update.condition)]}
    terminating = a_pod("old", {"cpu": "1"})
    terminating["metadata"]["deletionTimestamp"] = format_time(EPOCH_S + world.now_s + 60.0)
    world.start_scheduler()
    world.show_bound(terminating, "a")
    world.show(pod)
    world.step()
    assert (world.reasons, world.nominations) == ({}, {}), "it stands as it is"
    world.step(60.0 + OVERDUE_AFTER_S)
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {"p": ""})


def test_a_node_that_will_not_have_the_pod_anyway_is_not_waited_for() -> None:
    world = TerminatingWorld()
    world.scheduler.node_applied(a_node("cordoned", cpu="1", cordoned=True), world.now_s)
    world.add_terminating_pod("old", "cordoned", 60.0)
    world.create_pod("p")
    world.step()
    assert world.reasons == {"p": "Unschedulable"}


def test_of_many_that_wait_each_looks_at_its_own_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that were found full of promises are remembered, so the last pod costs about what the first one does."""
    names = [f"n{number:03}" for number in range(150)]
    world = TerminatingWorld(*names)
    for name in names:
        world.add_terminating_pod(f"old-{name}", name, 60.0)
    for number in range(150):
        world.create_pod(f"p{number:03}")
    dry_runs = 0
    cycle = world.scheduler._attempts._cycles["default-scheduler"]
    original = cycle.dry_run

    def counted(pod: Any, row: int) -> Any:
        nonlocal dry_runs
        dry_runs += 1
        return original(pod, row)

    monkeypatch.setattr(cycle, "dry_run", counted)
    world.step(most=200)
    assert len(set(world.nominations.values())) == 150
    assert dry_runs <= 2 * 150


def test_one_that_loses_its_room_to_a_more_important_pod_is_told_at_once() -> None:
    world = TerminatingWorld()
    world.scheduler.node_applied(a_node("big", cpu="2"), world.now_s)
    world.add_terminating_pod("old", "big", 60.0)
    world.create_pod("p", "2")
    world.step()
    assert world.nominations == {"p": "big"}
    world.create_pod("urgent", priority=10, labels=())
    world.step()
    assert world.binds == {"urgent": "big"}
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {"p": ""})
