"""Preemption inside a queue by priority, and between queues by deserved amounts."""

from __future__ import annotations

import msgspec
import pytest

from clusters import a_node
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.names import GATE
from headgate.scheduling.framework.effects import Preempt
from unit.scheduling.queued_world import QueuedWorld, a_gated_pod, a_queue, ungated

RECLAIM = msgspec.structs.replace(DEFAULTS, actions=("allocate", "reclaim"))


def victims(world: QueuedWorld) -> set[str]:
    return {each.name for effect in world.effects if isinstance(effect, Preempt) for each in effect.victims}


def full_of(world: QueuedWorld, *pods: tuple[str, str, int]) -> None:
    for name, queue, priority in pods:
        world.show_bound(ungated(a_gated_pod(name, queue=queue, priority=priority)), "a")


def test_a_pod_preempts_only_in_its_own_queue() -> None:
    world = QueuedWorld(a_queue("mine"), a_queue("theirs"), nodes=[a_node("a", cpu="2")])
    full_of(world, ("low", "mine", 1), ("lower", "theirs", 0))
    world.show(a_gated_pod("p", queue="mine", priority=9))
    world.step()
    assert victims(world) == {"low"}


def test_there_is_no_preemption_if_only_pods_of_other_queues_would_help() -> None:
    world = QueuedWorld(a_queue("mine"), a_queue("theirs"), nodes=[a_node("a", cpu="2")])
    full_of(world, ("l1", "theirs", 0), ("l2", "theirs", 0))
    world.show(a_gated_pod("p", queue="mine", priority=9))
    world.step()
    assert victims(world) == set()


def test_a_queue_takes_back_what_it_deserves_whatever_the_priorities() -> None:
    queues = (a_queue("poor", deserved={"cpu": "1"}), a_queue("rich", deserved={"cpu": "1"}))
    world = QueuedWorld(*queues, nodes=[a_node("a", cpu="2")], settings=RECLAIM)
    full_of(world, ("r1", "rich", 5), ("r2", "rich", 6))
    world.show(a_gated_pod("p", queue="poor"))
    world.step()
    assert victims(world) == {"r1"}


def test_without_reclaim_it_waits() -> None:
    queues = (a_queue("poor", deserved={"cpu": "1"}), a_queue("rich", deserved={"cpu": "1"}))
    world = QueuedWorld(*queues, nodes=[a_node("a", cpu="2")])
    full_of(world, ("r1", "rich", 5), ("r2", "rich", 6))
    world.show(a_gated_pod("p", queue="poor", priority=9))
    world.step()
    assert victims(world) == set()


def test_a_pod_that_is_not_preemptable_is_no_victim() -> None:
    world = QueuedWorld(a_queue("q"), nodes=[a_node("a", cpu="1")])
    pod = ungated(a_gated_pod("keeps", priority=0))
    pod["metadata"]["annotations"]["volcano.sh/preemptable"] = "false"
    world.show_bound(pod, "a")
    world.show(a_gated_pod("p", priority=9))
    world.step()
    assert victims(world) == set()


# -- Queues that are full ------------------------------------------------------------------------------------------


def told_to_go(world: QueuedWorld) -> Preempt:
    (found,) = (effect for effect in world.effects if isinstance(effect, Preempt))
    return found


def test_u13_a_gated_pod_preempts_lower_priorities_of_its_full_queue() -> None:
    world = QueuedWorld(a_queue("q", "2"), nodes=[a_node("a", cpu="2")])
    full_of(world, ("low", "q", 1), ("mid", "q", 5))
    world.show(a_gated_pod("p", priority=9))
    world.step()
    found = told_to_go(world)
    assert ({each.name for each in found.victims}, found.node_name) == ({"low"}, "a")
    assert not world.lifts, "nothing is promised before they are told to go"
    world.effects = world.scheduler.preempted(found, {"uid-low"}, world.now_s, ok=True)
    world.step()
    assert list(world.lifts) == ["p"]
    world.lifted("p")
    assert not world.statuses.get("p", "").startswith("Unschedulable"), "its node is promised to it"
    world.remove("low")
    world.step(60.0)
    assert world.binds == {"p": "a"}


@pytest.mark.parametrize("gates", [("example.com/hold",), (GATE, "example.com/hold")])
def test_a_pod_with_a_gate_of_another_controller_preempts_and_reclaims_nothing(gates: tuple[str, ...]) -> None:
    queues = (a_queue("q", "2", deserved={"cpu": "2"}), a_queue("rich", deserved={"cpu": "1"}))
    both = msgspec.structs.replace(DEFAULTS, actions=("allocate", "preempt", "reclaim"))
    world = QueuedWorld(*queues, nodes=[a_node("a", cpu="4")], settings=both)
    full_of(world, ("l1", "q", 1), ("l2", "q", 1), ("r1", "rich", 1), ("r2", "rich", 1))
    world.show(a_gated_pod("p", gates=gates, priority=9))
    for _ in range(3):
        world.step(60.0)
        assert victims(world) == set()
        assert not world.lifts
    world.show(a_gated_pod("p", gates=(GATE,), priority=9))
    world.step()
    assert victims(world), "without that gate it does"


def test_only_needed_pods_are_preempted_and_none_twice() -> None:
    world = QueuedWorld(a_queue("q", "4"), nodes=[a_node("a", cpu="4")])
    full_of(world, *((f"l{i}", "q", i) for i in range(4)))
    world.show(a_gated_pod("p", "2", priority=9))
    world.step()
    assert victims(world) == {"l0", "l1"}
    for _ in range(3):
        world.step(1.0)
        assert victims(world) == set()


def test_on_a_node_with_capacity_only_quota_is_freed() -> None:
    world = QueuedWorld(a_queue("q", "1"), nodes=[a_node("a", cpu="1"), a_node("b", cpu="4")])
    full_of(world, ("low", "q", 1))
    world.show(a_gated_pod("p", priority=9))
    world.step()
    found = told_to_go(world)
    assert ({each.name for each in found.victims}, found.node_name) == ({"low"}, "b")


def test_a_node_with_capacity_is_used_whatever_event_comes_first() -> None:
    """The watch may show the termination of the victim and the removal of the gate before the response to the
    deletion."""
    world = QueuedWorld(a_queue("q", "1"))
    full_of(world, ("low", "q", 1))
    pod = a_gated_pod("p", priority=9)
    world.show(pod)
    world.step()
    found = told_to_go(world)
    terminating = ungated(a_gated_pod("low", priority=1))
    terminating["metadata"]["deletionTimestamp"] = "1970-01-01T00:17:00Z"
    world.show_bound(terminating, "a")
    world.step()
    stamp = world.lifts["p"]
    world.show(ungated(pod, stamp))
    world.lifted("p")
    world.step()
    assert not world.binds
    world.effects = world.scheduler.preempted(found, {"uid-low"}, world.now_s, ok=True)
    world.step()
    assert world.binds == {"p": "a"}


def test_no_pod_is_preempted_if_that_is_not_enough_or_helps_on_no_node() -> None:
    world = QueuedWorld(a_queue("q", "2"), nodes=[a_node("a", cpu="2")])
    full_of(world, ("low", "q", 1), ("peer", "q", 9))
    world.show(a_gated_pod("p", "2", priority=9))
    world.step()
    assert victims(world) == set()
    elsewhere = a_gated_pod("picky", priority=9, nodeSelector={"kind": "other"})
    world.show(elsewhere)
    world.step()
    assert victims(world) == set()


def test_a_full_ancestor_is_freed_by_reclaiming_what_a_sibling_has_too_much() -> None:
    queues = (
        a_queue("eng", "2"),
        a_queue("poor", parent="eng", deserved={"cpu": "1"}),
        a_queue("rich", parent="eng", deserved={"cpu": "1"}),
    )
    world = QueuedWorld(*queues, nodes=[a_node("a", cpu="8")], settings=RECLAIM)
    full_of(world, ("r1", "rich", 5), ("r2", "rich", 6))
    world.show(a_gated_pod("p", queue="poor"))
    world.step()
    assert victims(world) == {"r1"}


def test_a_pod_that_must_not_preempt_waits() -> None:
    world = QueuedWorld(a_queue("q", "1"), nodes=[a_node("a", cpu="8")])
    full_of(world, ("low", "q", 1))
    world.show(a_gated_pod("p", priority=9, preemptionPolicy="Never"))
    world.step()
    assert victims(world) == set()


@pytest.mark.parametrize("grace_s", [30, 120])
def test_a_preemptor_is_unschedulable_only_when_its_victims_are_overdue(grace_s: int) -> None:
    world = QueuedWorld(a_queue("q"), nodes=[a_node("a", cpu="1")])
    low = a_gated_pod("low", priority=1)
    if grace_s != 30:
        low["spec"]["terminationGracePeriodSeconds"] = grace_s
    world.show_bound(ungated(low), "a")
    world.show(a_gated_pod("p", priority=9))
    world.step()
    found = told_to_go(world)
    events, stamp = dict(world.statuses), world.lifts["p"]
    world.lifted("p")
    events |= world.statuses
    world.show(ungated(a_gated_pod("p", priority=9), stamp))
    world.effects = world.scheduler.preempted(found, {"uid-low"}, world.now_s, ok=True)
    for _ in range(grace_s // 5 - 1):
        world.step(5.0)
        events |= world.statuses
    assert not events, "its node is promised to it"
    world.step(6.0)
    assert world.statuses["p"].startswith("Unschedulable: ")
