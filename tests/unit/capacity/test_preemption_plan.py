"""Preemption plans for a full queue: by priority inside a queue, by deserved amounts between queues."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, amounts, stamped
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.api.times import RunTime
from headgate.capacity.conf import DEFAULTS, PluginOption, SchedulerConf
from headgate.capacity.engine import PreemptionPlan, WaitReason
from headgate.capacity.names import DEQUEUE_STRATEGY

RECLAIM = msgspec.structs.replace(DEFAULTS, actions=("allocate", "preempt", "reclaim"))


def running(name: str, queue: str = "q", cpu: str | int | None = "1", **fields: Any) -> TaskInfo:
    return a_task(name, cpu, queue=queue, node_name="n", gates=(), **fields)


def victims_of(queues: Queues, name: str) -> list[str]:
    plan = queues.engine.plan_preemption(f"u-{name}")
    return [] if plan is None else [uid.removeprefix("u-") for uid in plan.victims]


def test_a_gated_pod_of_high_priority_preempts_a_lower_one_in_its_full_queue_u13() -> None:
    queues = Queues(
        a_queue("q", cpu=2), running("low"), running("high", priority=9), a_task("p", queue="q", priority=5)
    )
    assert queues.admit() == []
    assert queues.engine.starving() == ["u-p"]
    plan = queues.engine.plan_preemption("u-p")
    assert plan == PreemptionPlan("q", ("u-p",), ("u-low",), {("q", "cpu"): 1000}, {"u-low": ("q", "root")})


def test_a_victims_share_is_free_at_once_for_its_preemptor_u12_r12() -> None:
    queues = Queues(a_queue("q", cpu=1), running("low"), a_task("p", queue="q", priority=5))
    assert victims_of(queues, "p") == ["low"]
    queues.engine.evicted("u-low")
    assert queues.usage("q") == (0, 0)
    assert queues.admit() == ["p"]
    queues.apply(running("low", is_terminal_or_terminating=True))
    assert queues.usage("q") == (0, 1000)


def test_a_victim_whose_deletion_failed_holds_its_share_again() -> None:
    queues = Queues(a_queue("q", cpu=1), running("low"), a_task("p", queue="q", priority=5))
    queues.engine.evicted("u-low")
    queues.engine.unevicted("u-low")
    assert queues.usage("q") == (1000, 0)
    assert queues.admit() == []


def test_a_pod_does_not_preempt_pods_of_equal_priority() -> None:
    queues = Queues(a_queue("q", cpu=1), running("old"), a_task("p", queue="q"))
    assert victims_of(queues, "p") == []


def test_only_needed_victims_are_chosen_and_the_least_important_first() -> None:
    pods = [running("a", cpu=1, priority=1), running("b", cpu=1, created_s=5), running("c", cpu=1, created_s=9)]
    queues = Queues(a_queue("q", cpu=3), *pods, a_task("p", "1", queue="q", priority=5))
    assert victims_of(queues, "p") == ["c"]
    large = Queues(
        a_queue("q", cpu=5), *pods, running("big", cpu=2, priority=2), a_task("p", "2", queue="q", priority=5)
    )
    assert victims_of(large, "p") == ["c", "b"]


def test_a_victim_that_turns_out_superfluous_is_dropped() -> None:
    queues = Queues(a_queue("q", cpu=4), running("small", cpu=1), running("large", cpu=3, priority=1))
    queues.apply(a_task("p", "3", queue="q", priority=5))
    assert victims_of(queues, "p") == ["large"]


def test_pods_without_the_missing_resource_are_no_victims() -> None:
    queues = Queues(
        a_queue("q", cpu=1), running("memory", cpu=None, requests={"memory": "1Gi"}), running("cpu", priority=1)
    )
    queues.apply(a_task("p", queue="q", priority=5))
    assert victims_of(queues, "p") == ["cpu"]


def test_there_is_no_plan_if_all_victims_together_are_not_enough() -> None:
    queues = Queues(
        a_queue("q", cpu=2), running("low"), running("high", priority=9), a_task("p", "2", queue="q", priority=5)
    )
    assert victims_of(queues, "p") == []


def test_there_is_no_plan_for_a_pod_that_fits_or_whose_queue_is_closed() -> None:
    queues = Queues(a_queue("q", cpu=2), running("low"), a_task("p", queue="q", priority=5))
    assert victims_of(queues, "p") == []
    closed = Queues(a_queue("q", cpu=1, state="Closed"), running("low"), a_task("p", queue="q", priority=5))
    assert victims_of(closed, "p") == []
    assert closed.engine.starving() == []


def test_a_gang_preempts_as_one_unit() -> None:
    queues = Queues(
        a_queue("q", cpu=3), *(running(f"low-{number}") for number in range(3)), a_group("g", "q", minimum=2)
    )
    queues.apply(*(a_task(f"g-{number}", group="g", priority=5) for number in range(3)))
    plan = queues.engine.plan_preemption("u-g-0")
    assert plan is not None
    assert (plan.preemptor_uids, plan.victims) == (("u-g-0", "u-g-1"), ("u-low-0", "u-low-1"))
    assert queues.engine.plan_preemption("u-g-2") is None


def test_starving_pods_are_named_again_only_when_something_changed() -> None:
    queues = Queues(
        a_queue("q", cpu=1), running("old"), a_task("p", queue="q"), a_task("later", queue="q", created_s=5)
    )
    assert queues.engine.starving() == ["u-p"]
    assert queues.engine.starving() == []
    queues.apply(a_task("urgent", queue="q", priority=9))
    assert queues.engine.starving() == ["u-urgent"]


def test_a_pod_that_is_not_preemptable_is_no_victim() -> None:
    queues = Queues(a_queue("q", cpu=1), running("low", preemptable=False), a_task("p", queue="q", priority=5))
    assert victims_of(queues, "p") == []


def test_a_full_ancestor_reclaims_from_a_sibling_above_its_deserved_amount() -> None:
    queues = Queues(
        a_queue("top", cpu=4),
        a_queue("rich", parent="top", deserved=amounts(cpu=2)),
        a_queue("poor", parent="top", deserved=amounts(cpu=2)),
        *(running(f"r{number}", "rich", created_s=number) for number in range(4)),
        a_task("p", queue="poor"),
        conf=RECLAIM,
    )
    assert queues.wait_reason("p") is WaitReason.FULL
    assert len(victims_of(queues, "p")) == 1


def test_a_queue_at_its_own_limit_reclaims_nothing() -> None:
    """case10, #5048: what it would use then is more than it may."""
    queues = Queues(
        a_queue("top", cpu=4),
        a_queue("rich", parent="top", deserved=amounts(cpu=1)),
        a_queue("poor", cpu=1, parent="top", deserved=amounts(cpu=1, memory="4Gi")),
        *(running(f"r{number}", "rich") for number in range(3)),
        running("old", "poor"),
        a_task("p", queue="poor", requests={"memory": "1Gi"}),
        conf=RECLAIM,
    )
    assert victims_of(queues, "p") == []


GPU = "nvidia.com/gpu"


def test_devices_that_are_set_aside_for_a_group_are_no_request_of_its_pods() -> None:
    """If devices are requested, only queues above their deserved devices are reclaimed from."""
    queues = Queues(
        a_queue("top", cpu=2),
        a_queue("rich", parent="top", deserved=amounts(cpu=1)),
        a_queue("poor", parent="top", deserved=amounts(cpu=1)),
        *(running(f"r{number}", "rich") for number in range(2)),
        a_group("g", "poor", phase="Inqueue", minResources=amounts(cpu=1, gpu=1)),
        a_task("p", group="g"),
        conf=RECLAIM,
    )
    assert len(victims_of(queues, "p")) == 1


# Protection of the first in line.


def with_a_group_first(strategy: str, **fields: Any) -> Queues:
    """A full queue, whose first in line is a group that waits for the enqueue action. Pods of priority 0 run."""
    first = a_group("first", "q", minimum=4, minResources=amounts(cpu=4))
    queue = a_queue("q", cpu=4, annotations={DEQUEUE_STRATEGY: strategy}, **fields)
    queues = Queues(queue, *(running(f"run-{number}") for number in range(4)), first)
    queues.apply(*(a_task(f"f{number}", group="first", priority=5) for number in range(4)))
    return queues


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_no_pod_is_preempted_for_a_pod_that_is_held_back_for_the_first_in_line(strategy: str) -> None:
    queues = with_a_group_first(strategy)
    queues.apply(a_task("p", queue="q", priority=5, created_s=9.0))
    queues.apply(a_task("q", queue="q", priority=5, created_s=9.0, run_time=RunTime(1.0)))
    assert queues.admit() == []
    assert queues.engine.starving() == ["u-p"]
    assert victims_of(queues, "p") == victims_of(queues, "q") == []
    queues.engine.evicted("u-run-0")
    assert queues.admit() == []  # so it would have been in vain
    assert queues.wait_reason("p") is WaitReason.BEHIND_FIRST


def test_with_traverse_a_pod_preempts_although_a_group_is_before_it() -> None:
    queues = with_a_group_first("traverse")
    queues.apply(a_task("p", queue="q", priority=5, created_s=9.0))
    assert victims_of(queues, "p") == ["run-0"]


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_pod_before_the_first_in_line_preempts(strategy: str) -> None:
    queues = with_a_group_first(strategy)
    queues.apply(a_task("urgent", queue="q", priority=9, created_s=9.0))
    assert victims_of(queues, "urgent") == ["run-0"]
    queues.engine.evicted("u-run-0")
    assert queues.admit() == ["urgent"]


@pytest.mark.parametrize(("strategy", "victims"), [("fifo", []), ("backfill", ["device"])])
def test_a_pod_preempts_for_resources_that_the_first_in_line_does_not_ask_for(
    strategy: str, victims: list[str]
) -> None:
    queues = with_a_group_first(strategy, capability=amounts(gpu=1))
    queues.apply(running("device", cpu=None, requests=amounts(gpu=1)))
    queues.apply(a_task("p", None, queue="q", priority=5, created_s=9.0, requests=amounts(gpu=1)))
    assert victims_of(queues, "p") == victims
    queues.engine.evicted("u-device")
    assert queues.admit() == (["p"] if victims else [])


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_no_promise_is_revoked_for_a_pod_that_is_held_back_for_the_first_in_line(strategy: str) -> None:
    queues = Queues(a_queue("q", cpu=4, annotations={DEQUEUE_STRATEGY: strategy}), a_task("low", "4", queue="q"))
    assert queues.admit() == ["low"]
    queues.apply(stamped(a_task("low", "4", queue="q"), "q"))
    queues.engine.set_unplaceable("u-low", True)
    queues.apply(a_task("p", queue="q", priority=5, created_s=9.0))
    plan = queues.engine.plan_preemption("u-p")
    assert plan is not None
    assert plan.promises == ("u-low",)
    queues.apply(a_group("first", "q", minResources=amounts(cpu=4)), a_task("f", "4", group="first", priority=5))
    assert queues.engine.plan_preemption("u-p") is None


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_promised_pod_that_asks_for_more_preempts_behind_the_first_in_line(strategy: str) -> None:
    """It is never held back."""
    queues = Queues(a_queue("q", cpu=4, annotations={DEQUEUE_STRATEGY: strategy}), running("low", cpu=3))
    queues.apply(a_task("grows", 1, queue="q", priority=5, created_s=9.0))
    assert queues.admit() == ["grows"]
    queues.apply(a_group("first", "q", minResources=amounts(cpu=4)), a_task("f", "4", group="first", priority=5))
    queues.apply(a_task("grows", 2, queue="q", priority=5, created_s=9.0))
    assert victims_of(queues, "grows") == ["low"]
    queues.engine.evicted("u-low")
    assert queues.admit() == ["grows"]


def a_tree(
    parent: int, reclaimers_parent: int = 4, leaf: int = 1, used: int = 4, grand: int | None = None
) -> list[Any]:
    """Two branches below the root; ``used`` devices run in leaf b, one is requested in leaf a. ``parent``, ``leaf`` and
    ``grand``: what the parent of b, b itself and its grandparent deserve."""
    queues = [
        a_queue("root", capability=amounts(gpu=used)),
        a_queue("group-a", deserved=amounts(gpu=reclaimers_parent)),
        a_queue("parent-a", parent="group-a", deserved=amounts(gpu=reclaimers_parent)),
        a_queue("a", parent="parent-a", deserved=amounts(gpu=1)),
        a_queue("group-b", deserved=amounts(gpu=parent if grand is None else grand)),
        a_queue("parent-b", parent="group-b", deserved=amounts(gpu=parent)),
        a_queue("b", parent="parent-b", deserved=amounts(gpu=leaf)),
    ]
    pods = [running(f"b{number}", "b", None, requests=amounts(gpu=1)) for number in range(used)]
    return [*queues, *pods, a_task("p", None, queue="a", requests=amounts(gpu=1))]


def shared(deserved_a: int | None, deserved_b: int | None) -> list[Any]:
    """Two leaves of one parent that is full."""

    def of(amount: int | None) -> dict[str, Any] | None:
        return None if amount is None else amounts(cpu=amount)

    return [
        a_queue("parent", cpu=2, deserved=amounts(cpu=2)),
        a_queue("a", parent="parent", deserved=of(deserved_a)),
        a_queue("b", parent="parent", deserved=of(deserved_b)),
        running("victim", "b", "2"),
        a_task("p", "2", queue="a"),
    ]


def uneven() -> list[Any]:
    """Leaf b is one level deeper than leaf a: its parent uses no more than it deserves."""
    return [
        a_queue("root", cpu=2),
        a_queue("a", deserved=amounts(cpu=2)),
        a_queue("top-b", deserved=amounts(cpu=1)),
        a_queue("parent-b", parent="top-b", deserved=amounts(cpu=2)),
        a_queue("b", parent="parent-b", deserved=amounts(cpu=1)),
        running("victim", "b", "2"),
        a_task("p", "2", queue="a"),
    ]


@pytest.mark.parametrize(
    ("level", "objects", "goes"),
    [
        pytest.param(1, a_tree(parent=3), True, id="1: leaf and parent have too much"),
        pytest.param(1, a_tree(parent=2, leaf=2), True, id="2: so they have with other shares"),
        pytest.param(0, a_tree(parent=4, leaf=1), True, id="3: without a level the parent is not asked"),
        pytest.param(1, a_tree(parent=3, leaf=4), False, id="4: the leaf has no more than it deserves"),
        pytest.param(1, a_tree(parent=3, grand=4), True, id="5: the grandparent is not asked at level 1"),
        pytest.param(2, a_tree(parent=3, grand=3), True, id="6: all three levels have too much"),
        pytest.param(2, a_tree(parent=3, grand=4), False, id="7: the grandparent has no more than it deserves"),
        pytest.param(1, shared(None, None), False, id="8: neither sibling deserves anything"),
        pytest.param(2, shared(None, None), False, id="9: nor at a higher level"),
        pytest.param(1, shared(None, 1), False, id="10: who deserves nothing takes nothing back"),
        pytest.param(1, uneven(), False, id="11: an uneven tree"),
        pytest.param(1, a_tree(parent=4), False, id="the parent has no more than it deserves"),
        pytest.param(1, shared(2, None), True, id="a sibling that deserves it takes it"),
        pytest.param(0, uneven(), True, id="an uneven tree without a level"),
    ],
)
def test_ancestor_reclaim(level: int, objects: list[Any], goes: bool) -> None:
    capacity = PluginOption("capacity", arguments={"ancestorReclaimLevel": level})
    conf = SchedulerConf(("allocate", "reclaim"), ((capacity, PluginOption("conformance")),))
    queues = Queues(*objects, conf=conf)
    assert queues.wait_reason("p") is WaitReason.FULL
    assert bool(victims_of(queues, "p")) is goes
