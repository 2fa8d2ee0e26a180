"""A pod with quota that fits after termination is nominated, and not unschedulable until terminating pods are overdue.

Pods of the default profile: `a` and `b` have capacity for one pod each, and one terminating pod each.
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


def test_a_pod_with_quota_is_nominated_to_a_node_with_terminating_pods_and_is_not_unschedulable() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    assert (world.reasons, world.nominations) == ({"p": WAITING_FOR_TERMINATING_PODS}, {"p": "a"})
    until = format_time(EPOCH_S + world.now_s + 60.0)
    text = f"Node a will have capacity when pods that terminate there are gone by {until}."
    assert world.statuses["p"].endswith(text)


def test_the_pod_is_bound_when_the_terminating_pods_are_gone() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    world.remove("old")
    world.step(30.0)
    assert world.binds == {"p": "a"}


def test_when_terminating_pods_are_overdue_the_pod_is_unschedulable_and_loses_its_nomination() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    world.step(10.0)
    assert world.scheduler.next_deadline_s() == world.now_s + 50.0 + OVERDUE_AFTER_S
    assert not world.step(49.0 + OVERDUE_AFTER_S)
    world.step(1.0)
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {"p": ""})


def test_a_pod_that_may_not_preempt_also_loses_its_nomination() -> None:
    """PostFilter does not clear the nomination in this case."""
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p", preemptionPolicy="Never")
    world.step()
    assert world.nominations == {"p": "a"}
    world.step(60.0 + OVERDUE_AFTER_S)
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {"p": ""})


def test_two_pods_are_not_nominated_for_the_same_capacity() -> None:
    world = TerminatingWorld("a", "b")
    world.add_terminating_pod("old-a", "a", 60.0)
    world.add_terminating_pod("old-b", "b", 30.0)
    for name in ("p", "q", "r"):
        world.create_pod(name)
    world.step()
    assert world.nominations == {"p": "b", "q": "a"}, "where somebody leaves first"
    assert world.reasons == {"p": WAITING_FOR_TERMINATING_PODS, "q": WAITING_FOR_TERMINATING_PODS, "r": "Unschedulable"}


def test_a_pod_of_higher_priority_gets_the_nomination_and_the_other_pod_is_evaluated_again() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p")
    world.step()
    world.create_pod("urgent", priority=10)
    world.step()
    assert world.nominations == {"urgent": "a", "p": ""}
    assert world.reasons == {"urgent": WAITING_FOR_TERMINATING_PODS, "p": "Unschedulable"}


def test_a_pod_without_quota_is_unschedulable() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p", labels=())
    world.step()
    assert (world.reasons, world.nominations) == ({"p": "Unschedulable"}, {})


def test_capacity_that_is_not_enough_is_not_waited_for() -> None:
    world = TerminatingWorld("a")
    world.add_terminating_pod("old", "a", 60.0)
    world.create_pod("p", "2")
    world.step()
    assert world.reasons == {"p": "Unschedulable"}


def test_a_pod_that_waits_for_terminating_pods_preempts_no_pod() -> None:
    world = TerminatingWorld("a", "b")
    world.add_terminating_pod("old", "a", 60.0)
    world.show_bound(a_pod("lower", {"cpu": "1"}, priority=0), "b")
    world.create_pod("p", priority=10)
    world.step()
    assert world.nominations == {"p": "a"}
    assert not [each for each in world.effects if isinstance(each, Preempt)]


def test_the_pod_is_evaluated_again_when_the_first_terminating_pod_is_overdue() -> None:
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


def test_a_restarted_scheduler_writes_the_same_status() -> None:
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


def test_an_infeasible_node_is_not_waited_for() -> None:
    world = TerminatingWorld()
    world.scheduler.node_applied(a_node("cordoned", cpu="1", cordoned=True), world.now_s)
    world.add_terminating_pod("old", "cordoned", 60.0)
    world.create_pod("p")
    world.step()
    assert world.reasons == {"p": "Unschedulable"}


def test_many_waiting_pods_cost_few_dry_runs(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_pod_that_loses_its_capacity_to_a_higher_priority_is_unschedulable_at_once() -> None:
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
