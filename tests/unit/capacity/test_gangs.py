"""Groups: the minimum is granted as one unit, other members one by one, and partially granted groups first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, amounts, stamped
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.engine import Grant, WaitReason
from headgate.capacity.names import GATE

ONE_BY_ONE = msgspec.structs.replace(DEFAULTS, gang_atomic=False)


def a_gang(name: str, count: int, cpu: str = "1", **fields: Any) -> list[TaskInfo]:
    return [a_task(f"{name}-{number}", cpu, group=name, **fields) for number in range(count)]


def test_a_gang_is_granted_whole_u14() -> None:
    queues = Queues(a_queue("q", cpu=4), a_group("g", "q", minimum=3), *a_gang("g", 3))
    assert queues.engine.admit(1.0, 1) == [Grant("q", ("u-g-0", "u-g-1", "u-g-2"))]
    assert queues.usage("q") == (0, 3000)


def test_a_gang_that_does_not_fit_whole_gets_nothing_u14() -> None:
    queues = Queues(a_queue("q", cpu=2), a_group("g", "q", minimum=3), *a_gang("g", 3))
    assert queues.admit() == []
    assert queues.usage("q") == (0, 0)
    assert queues.wait_reason("g-0") is WaitReason.FULL
    assert queues.wait_message("g-0") == "queue q has no capacity for 3 cpu: 0 of 2 are in use or promised to others"


def test_without_the_gate_members_are_granted_one_by_one() -> None:
    queues = Queues(a_queue("q", cpu=2), a_group("g", "q", minimum=3), *a_gang("g", 3), conf=ONE_BY_ONE)
    assert queues.admit() == ["g-0", "g-1"]


def test_a_gang_that_does_not_fit_does_not_block_other_pods() -> None:
    queues = Queues(a_queue("q", cpu=2), a_group("g", "q", minimum=3), *a_gang("g", 3), a_task("p", queue="q"))
    assert queues.admit() == ["p"]


def test_members_beyond_the_minimum_are_granted_one_by_one() -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", minimum=2), *a_gang("g", 5))
    assert queues.engine.admit(1.0, 10) == [Grant("q", ("u-g-0", "u-g-1")), Grant("q", ("u-g-2",))]


def test_a_gang_with_too_few_members_waits_for_them() -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", minimum=3), *a_gang("g", 2))
    assert queues.admit() == []
    assert queues.wait_reason("g-1") is WaitReason.NOT_ENOUGH_PODS
    assert queues.wait_message("g-1") == "its PodGroup g has 2 pods and needs 3"
    queues.apply(a_task("g-2", group="g"))
    assert queues.admit() == ["g-0", "g-1", "g-2"]


def test_a_member_with_a_foreign_gate_exists_but_is_not_granted() -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", minimum=3), *a_gang("g", 2))
    queues.apply(a_task("g-2", group="g", gates=("example.com/hold", GATE)))
    assert queues.admit() == []
    assert queues.wait_reason("g-0") is WaitReason.NOT_ENOUGH_PODS
    assert queues.wait_message("g-0") == "its PodGroup g needs 3 more pods, and only 2 of the waiting pods can start"
    queues.apply(a_task("g-2", group="g"))
    assert queues.admit() == ["g-0", "g-1", "g-2"]


def test_a_pod_whose_group_is_missing_waits_for_the_object() -> None:
    queues = Queues(a_queue("q", cpu=3), *a_gang("g", 1))
    assert queues.admit() == []
    assert queues.wait_reason("g-0") is WaitReason.NO_GROUP
    queues.apply(a_group("g", "q"))
    assert queues.admit() == ["g-0"]
    assert queues.engine.queue_of("u-g-0") == "q"


def test_a_bound_pod_seen_before_its_group_counts_in_the_queue_of_the_group() -> None:
    queues = Queues(a_queue("q", cpu=3), *a_gang("g", 1, node_name="n1"))
    assert queues.usage("default") == (1000, 0)
    queues.apply(a_group("g", "q"))
    assert queues.usage("default") == (0, 0)
    assert queues.usage("q") == (1000, 0)


def test_members_that_are_on_nodes_count_towards_the_minimum() -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", minimum=3), *a_gang("g", 3))
    queues.apply(a_task("g-0", group="g", node_name="n1"))
    assert queues.engine.admit(1.0, 10) == [Grant("q", ("u-g-1", "u-g-2"))]


def test_members_that_succeeded_count_towards_the_minimum_and_hold_nothing() -> None:
    queues = Queues(a_queue("q", cpu=1), a_group("g", "q", minimum=2))
    queues.apply(
        a_task("g-0", group="g", node_name="n1", is_terminal_or_terminating=True, succeeded=True),
        a_task("g-1", group="g"),
    )
    assert queues.admit() == ["g-1"]


def test_a_partially_admitted_group_comes_before_all_others() -> None:
    """After a restart between the patches of one gang."""
    half = stamped(a_task("late-0", group="late"), "q")
    queues = Queues(a_queue("q", cpu=3), a_group("early", "q", minimum=2), a_group("late", "q", minimum=3))
    queues.apply(*a_gang("early", 2, priority=100), half, *a_gang("late", 3)[1:])
    assert queues.admit() == ["late-1", "late-2"]


def test_roles_have_their_own_minima() -> None:
    group = a_group("g", "q", minimum=3, minTaskMember={"master": 1, "worker": 2})
    workers = [a_task(f"g-a{number}", group="g", role="worker") for number in range(4)]
    queues = Queues(a_queue("q", cpu=3), group, *workers)
    assert queues.admit() == []
    assert queues.wait_reason("g-a0") is WaitReason.NOT_ENOUGH_PODS
    queues.apply(a_task("g-z", group="g", role="master"))
    assert queues.admit() == ["g-a0", "g-a1", "g-z"]


def test_role_minima_above_the_group_minimum_are_ignored() -> None:
    group = a_group("g", "q", minimum=1, minTaskMember={"master": 1, "worker": 2})
    queues = Queues(a_queue("q", cpu=3), group, a_task("g-0", group="g", role="worker"))
    assert queues.admit() == ["g-0"]


def test_a_refused_member_is_retried_and_completes_its_gang_first() -> None:
    queues = Queues(a_queue("q", cpu=2), a_group("g", "q", minimum=2), *a_gang("g", 2), a_task("p", queue="q"))
    assert queues.admit() == ["g-0", "g-1"]
    queues.engine.refused("u-g-0", queues.now_s + 5, "no")
    queues.now_s += 10
    assert queues.admit() == ["g-0"]


@pytest.mark.parametrize("minimum", ["3", -1, None, 1.5, True])
def test_a_group_with_an_invalid_minimum_is_ignored(minimum: Any) -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q", minimum=minimum), *a_gang("g", 1), a_task("p", queue="q"))
    assert queues.admit() == ["p"]
    assert queues.wait_reason("g-0") is WaitReason.INVALID
    assert queues.engine.problems() == {"podgroup/ns/g": "spec.minMember: must be a whole number, 0 or more"}


def test_a_group_in_another_namespace_does_not_count() -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q"), a_task("p", group="g", namespace="elsewhere"))
    assert queues.admit() == []
    assert queues.wait_reason("p") is WaitReason.NO_GROUP


def test_a_group_waits_until_its_min_resources_fit() -> None:
    queues = Queues(a_queue("q", cpu=4), a_task("old", "3", queue="q", node_name="n1"))
    queues.apply(a_group("g", "q", minResources=amounts(cpu=2)), *a_gang("g", 1))
    assert queues.admit() == []
    assert not queues.engine.is_inqueue("ns", "g")
    assert queues.wait_reason("g-0") is WaitReason.NOT_INQUEUE
    assert "queue q has no capacity for 2 cpu: 3 of 4" in queues.wait_message("g-0")
    queues.engine.task_removed("u-old")
    assert queues.admit() == ["g-0"]
    assert queues.engine.is_inqueue("ns", "g")
    assert queues.engine.usage("q").inqueue == {"cpu": 1000}


def test_only_resources_that_containers_request_count_in_min_resources() -> None:
    named = {"cpu": 1, "pods": 9, "requests.cpu": 9, "limits.memory": "1Gi", "": 1, " window": 1}
    queues = Queues(a_queue("q", cpu=4), a_group("g", "q", phase="Inqueue", minResources=named))
    assert queues.engine.usage("q").inqueue == {"cpu": 1000}


def test_a_group_that_names_very_many_resources_is_invalid() -> None:
    named = {f"example.com/{number}": 1 for number in range(101)}
    queues = Queues(a_queue("q", cpu=4), a_group("g", "q", minResources=named), *a_gang("g", 1))
    assert queues.admit() == []
    assert queues.engine.problems() == {"podgroup/ns/g": "spec.minResources: must not name more than 100 resources"}
    named.popitem()
    queues.apply(a_group("g", "q", minResources=named))
    assert queues.admit() == ["g-0"]


def test_pods_with_only_the_queue_gate_stay_in_inqueue_e1() -> None:
    queues = Queues(a_queue("q", cpu=4), a_group("g", "q", phase="Inqueue", minResources=amounts(cpu=3)))
    queues.apply(*a_gang("g", 3, gates=(GATE,)))
    assert queues.engine.usage("q").inqueue == {"cpu": 3000}


@pytest.mark.parametrize("gates", [("example.com/hold",), ("example.com/hold", GATE)])
def test_pods_with_a_foreign_gate_are_deducted_e2_and_never_below_zero_e3(gates: tuple[str, ...]) -> None:
    group = a_group("g", "q", phase="Inqueue", minResources=amounts(cpu=2))
    queues = Queues(a_queue("q", cpu=4), group, *a_gang("g", 1, gates=gates))
    assert queues.engine.usage("q").inqueue == {"cpu": 1000}
    queues.apply(*a_gang("g", 3, gates=gates, requests=amounts(gpu=1)))
    assert queues.engine.usage("q").inqueue == {}


def test_what_a_group_holds_already_is_not_counted_twice() -> None:
    """NoDoubleCountingForInqueueJobWithBindingTasks: 4 CPU, 3 of them bound by a group of 3; one more is granted."""
    group = a_group("g", "q", minimum=3, phase="Inqueue", minResources=amounts(cpu=3))
    queues = Queues(a_queue("q", cpu=4), group, *a_gang("g", 3, node_name="n1"))
    queues.apply(a_group("h", "q", minResources=amounts(cpu=1)), *a_gang("h", 1))
    assert queues.admit() == ["h-0"]


def test_minimum_returns_the_members_that_form_the_minimum() -> None:
    queues = Queues(a_queue("q", cpu=9), a_group("g", "q", minimum=2), *a_gang("g", 4), a_task("p", queue="q"))
    queues.admit()
    assert queues.engine.minimum("u-g-0") == ("u-g-0", "u-g-1")
    assert queues.engine.minimum("u-g-3") == ("u-g-0", "u-g-1")
    assert queues.engine.minimum("u-p") == ("u-p",)


def test_a_gang_that_did_not_opt_in_returns_its_grants_and_is_granted_again_as_one() -> None:
    queues = Queues(a_queue("q", cpu=2), a_group("g", "q", minimum=2), *a_gang("g", 2, opted_in=False))
    assert queues.admit() == ["g-0", "g-1"]
    for uid in ("u-g-0", "u-g-1"):
        queues.engine.unplaced(uid)
    assert queues.usage("q") == (0, 0)
    queues.engine.wait_reason("u-g-1")
    assert queues.admit() == ["g-0", "g-1"]


def test_a_deleted_group_keeps_the_shares_of_its_pods() -> None:
    queues = Queues(a_queue("q", cpu=2), a_group("g", "q"), *a_gang("g", 2))
    queues.engine.admit(1.0, 1)
    queues.engine.group_removed("ns", "g")
    assert queues.usage("q") == (0, 1000)
    assert queues.wait_reason("g-1") is WaitReason.NO_GROUP
    queues.engine.task_removed("u-g-0")
    queues.engine.task_removed("u-g-1")
    assert queues.usage("q") == (0, 0)
