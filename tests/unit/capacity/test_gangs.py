"""Groups: the minimum is granted whole or not at all, surplus members one by one, and half-granted groups go first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.engine import Grant, WaitReason
from headgate.capacity.names import GATE
from queueing import House, a_group, a_queue, a_task, amounts, stamped

ONE_BY_ONE = msgspec.structs.replace(DEFAULTS, gang_atomic=False)


def a_gang(name: str, count: int, cpu: str = "1", **fields: Any) -> list[TaskInfo]:
    return [a_task(f"{name}-{number}", cpu, group=name, **fields) for number in range(count)]


def test_a_gang_is_granted_whole_u14() -> None:
    house = House(a_queue("q", cpu=4), a_group("g", "q", minimum=3), *a_gang("g", 3))
    assert house.queues.admit(1.0, 1) == [Grant("q", ("u-g-0", "u-g-1", "u-g-2"))]
    assert house.use("q") == (0, 3000)


def test_a_gang_that_does_not_fit_whole_gets_nothing_u14() -> None:
    house = House(a_queue("q", cpu=2), a_group("g", "q", minimum=3), *a_gang("g", 3))
    assert house.admit() == []
    assert house.use("q") == (0, 0)
    assert house.why("g-0") is WaitReason.FULL
    assert house.message("g-0") == "queue q has no room for 3 cpu: 0 of 2 are in use or promised to others"


def test_without_the_gate_members_are_granted_one_by_one() -> None:
    house = House(a_queue("q", cpu=2), a_group("g", "q", minimum=3), *a_gang("g", 3), settings=ONE_BY_ONE)
    assert house.admit() == ["g-0", "g-1"]


def test_a_gang_that_does_not_fit_holds_nobody_up() -> None:
    house = House(a_queue("q", cpu=2), a_group("g", "q", minimum=3), *a_gang("g", 3), a_task("p", queue="q"))
    assert house.admit() == ["p"]


def test_surplus_members_come_one_by_one() -> None:
    house = House(a_queue("q", cpu=3), a_group("g", "q", minimum=2), *a_gang("g", 5))
    assert house.queues.admit(1.0, 10) == [Grant("q", ("u-g-0", "u-g-1")), Grant("q", ("u-g-2",))]


def test_a_gang_with_too_few_members_waits_for_them() -> None:
    house = House(a_queue("q", cpu=3), a_group("g", "q", minimum=3), *a_gang("g", 2))
    assert house.admit() == []
    assert house.why("g-1") is WaitReason.GANG_SHORT
    assert house.message("g-1") == "its PodGroup g has 2 pods and needs 3"
    house.show(a_task("g-2", group="g"))
    assert house.admit() == ["g-0", "g-1", "g-2"]


def test_a_member_with_a_foreign_gate_is_there_but_cannot_go_on() -> None:
    house = House(a_queue("q", cpu=3), a_group("g", "q", minimum=3), *a_gang("g", 2))
    house.show(a_task("g-2", group="g", gates=("example.com/hold", GATE)))
    assert house.admit() == []
    assert house.why("g-0") is WaitReason.GANG_SHORT
    assert house.message("g-0") == "its PodGroup g lacks 3 pods, and only 2 of those that wait can go on"
    house.show(a_task("g-2", group="g"))
    assert house.admit() == ["g-0", "g-1", "g-2"]


def test_a_pod_whose_group_is_missing_waits_for_the_object() -> None:
    house = House(a_queue("q", cpu=3), *a_gang("g", 1))
    assert house.admit() == []
    assert house.why("g-0") is WaitReason.NO_GROUP
    house.show(a_group("g", "q"))
    assert house.admit() == ["g-0"]
    assert house.queues.queue_of("u-g-0") == "q"


def test_a_bound_pod_seen_before_its_group_counts_in_the_groups_queue_in_the_end() -> None:
    house = House(a_queue("q", cpu=3), *a_gang("g", 1, node_name="n1"))
    assert house.use("default") == (1000, 0)
    house.show(a_group("g", "q"))
    assert house.use("default") == (0, 0)
    assert house.use("q") == (1000, 0)


def test_members_that_are_on_nodes_count_towards_the_minimum() -> None:
    house = House(a_queue("q", cpu=3), a_group("g", "q", minimum=3), *a_gang("g", 3))
    house.show(a_task("g-0", group="g", node_name="n1"))
    assert house.queues.admit(1.0, 10) == [Grant("q", ("u-g-1", "u-g-2"))]


def test_members_that_succeeded_count_towards_the_minimum_and_hold_nothing() -> None:
    house = House(a_queue("q", cpu=1), a_group("g", "q", minimum=2))
    house.show(a_task("g-0", group="g", node_name="n1", leaving=True, succeeded=True), a_task("g-1", group="g"))
    assert house.admit() == ["g-1"]


def test_a_group_that_was_let_in_by_half_comes_before_all_others() -> None:
    """After a restart between the patches of one gang."""
    half = stamped(a_task("late-0", group="late"), "q")
    house = House(a_queue("q", cpu=3), a_group("early", "q", minimum=2), a_group("late", "q", minimum=3))
    house.show(*a_gang("early", 2, priority=100), half, *a_gang("late", 3)[1:])
    assert house.admit() == ["late-1", "late-2"]


def test_roles_have_their_own_minima() -> None:
    group = a_group("g", "q", minimum=3, minTaskMember={"master": 1, "worker": 2})
    workers = [a_task(f"g-a{number}", group="g", role="worker") for number in range(4)]
    house = House(a_queue("q", cpu=3), group, *workers)
    assert house.admit() == []
    assert house.why("g-a0") is WaitReason.GANG_SHORT
    house.show(a_task("g-z", group="g", role="master"))
    assert house.admit() == ["g-a0", "g-a1", "g-z"]


def test_roles_that_ask_for_more_than_the_group_are_not_looked_at() -> None:
    group = a_group("g", "q", minimum=1, minTaskMember={"master": 1, "worker": 2})
    house = House(a_queue("q", cpu=3), group, a_task("g-0", group="g", role="worker"))
    assert house.admit() == ["g-0"]


def test_a_refused_member_is_waited_for_and_its_gang_then_completed_first() -> None:
    house = House(a_queue("q", cpu=2), a_group("g", "q", minimum=2), *a_gang("g", 2), a_task("p", queue="q"))
    assert house.admit() == ["g-0", "g-1"]
    house.queues.refused("u-g-0", house.now_s + 5, "no")
    house.now_s += 10
    assert house.admit() == ["g-0"]


@pytest.mark.parametrize("minimum", ["3", -1, None, 1.5, True])
def test_a_group_whose_minimum_makes_no_sense_is_set_aside(minimum: Any) -> None:
    house = House(a_queue("q", cpu=3), a_group("g", "q", minimum=minimum), *a_gang("g", 1), a_task("p", queue="q"))
    assert house.admit() == ["p"]
    assert house.why("g-0") is WaitReason.INVALID
    assert house.queues.problems() == {"podgroup/ns/g": "spec.minMember: must be a whole number, 0 or more"}


def test_a_group_in_another_namespace_is_not_meant() -> None:
    house = House(a_queue("q", cpu=3), a_group("g", "q"), a_task("p", group="g", namespace="elsewhere"))
    assert house.admit() == []
    assert house.why("p") is WaitReason.NO_GROUP


def test_a_group_waits_until_its_least_resources_fit() -> None:
    house = House(a_queue("q", cpu=4), a_task("old", "3", queue="q", node_name="n1"))
    house.show(a_group("g", "q", minResources=amounts(cpu=2)), *a_gang("g", 1))
    assert house.admit() == []
    assert not house.queues.is_inqueue("ns", "g")
    assert house.why("g-0") is WaitReason.NOT_INQUEUE
    assert "queue q has no room for 2 cpu: 3 of 4" in house.message("g-0")
    house.queues.task_removed("u-old")
    assert house.admit() == ["g-0"]
    assert house.queues.is_inqueue("ns", "g")
    assert house.queues.usage("q").inqueue == {"cpu": 1000}


def test_pods_gated_only_by_us_stay_in_what_a_group_was_let_in_for_e1() -> None:
    house = House(a_queue("q", cpu=4), a_group("g", "q", phase="Inqueue", minResources=amounts(cpu=3)))
    house.show(*a_gang("g", 3, gates=(GATE,)))
    assert house.queues.usage("q").inqueue == {"cpu": 3000}


@pytest.mark.parametrize("gates", [("example.com/hold",), ("example.com/hold", GATE)])
def test_pods_with_a_foreign_gate_are_deducted_e2_and_never_below_nothing_e3(gates: tuple[str, ...]) -> None:
    group = a_group("g", "q", phase="Inqueue", minResources=amounts(cpu=2))
    house = House(a_queue("q", cpu=4), group, *a_gang("g", 1, gates=gates))
    assert house.queues.usage("q").inqueue == {"cpu": 1000}
    house.show(*a_gang("g", 3, gates=gates, requests=amounts(gpu=1)))
    assert house.queues.usage("q").inqueue == {}


def test_what_a_group_holds_already_is_not_counted_twice() -> None:
    """NoDoubleCountingForInqueueJobWithBindingTasks: 4 CPU, 3 of them bound by a group of 3; one more is let in."""
    group = a_group("g", "q", minimum=3, phase="Inqueue", minResources=amounts(cpu=3))
    house = House(a_queue("q", cpu=4), group, *a_gang("g", 3, node_name="n1"))
    house.show(a_group("h", "q", minResources=amounts(cpu=1)), *a_gang("h", 1))
    assert house.admit() == ["h-0"]


def test_the_minimum_is_whom_a_gang_cannot_do_without() -> None:
    house = House(a_queue("q", cpu=9), a_group("g", "q", minimum=2), *a_gang("g", 4), a_task("p", queue="q"))
    house.admit()
    assert house.queues.minimum("u-g-0") == ("u-g-0", "u-g-1")
    assert house.queues.minimum("u-g-3") == ("u-g-0", "u-g-1")
    assert house.queues.minimum("u-p") == ("u-p",)


def test_a_gang_that_did_not_opt_in_gives_all_back_and_comes_again_as_one() -> None:
    house = House(a_queue("q", cpu=2), a_group("g", "q", minimum=2), *a_gang("g", 2, opted_in=False))
    assert house.admit() == ["g-0", "g-1"]
    for uid in ("u-g-0", "u-g-1"):
        house.queues.unplaced(uid)
    assert house.use("q") == (0, 0)
    house.queues.wait_reason("u-g-1")
    assert house.admit() == ["g-0", "g-1"]


def test_a_group_that_is_deleted_keeps_what_its_pods_hold() -> None:
    house = House(a_queue("q", cpu=2), a_group("g", "q"), *a_gang("g", 2))
    house.queues.admit(1.0, 1)
    house.queues.group_removed("ns", "g")
    assert house.use("q") == (0, 1000)
    assert house.why("g-1") is WaitReason.NO_GROUP
    house.queues.task_removed("u-g-0")
    house.queues.task_removed("u-g-1")
    assert house.use("q") == (0, 0)
