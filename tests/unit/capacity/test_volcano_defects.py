"""Defects of Volcano's queues that these do not have: one test each, by their ids in docs/volcano-defects.md."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_stamp, a_task, amounts, stamped
from headgate.capacity.cache.ledger import Ledger, QueueAccount
from headgate.capacity.conf import DEFAULTS, PluginOption
from headgate.capacity.engine import QueueEngine, WaitReason


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000Z"


def test_promises_in_one_leaf_count_for_its_ancestors_u1_r8() -> None:
    queues = Queues(a_queue("p", cpu=100), a_queue("l1", parent="p"), a_queue("l2", parent="p"))
    queues.apply(stamped(a_task("held", "80", queue="l1"), "l1"), a_task("too-much", "30", queue="l2"))
    assert queues.admit() == []
    wait = queues.engine.peek_wait_reason("u-too-much")
    assert wait is not None
    assert (wait.blocker, wait.resource, wait.asked, wait.used, wait.limit) == ("p", "cpu", 30_000, 80_000, 100_000)
    queues.apply(a_task("fits", "20", queue="l2"))
    assert queues.admit() == ["fits"]


def test_a_limit_lowered_below_the_promises_keeps_the_oldest_promises_valid_u2_r9() -> None:
    queues = Queues(a_queue("q", cpu=3))
    for number in (3, 1, 2):
        queues.apply(stamped(a_task(f"p{number}", queue="q"), "q", at(number)))
    queues.engine.pods_to_retry()
    queues.apply(a_task("new", queue="q", created_s=1), a_queue("q", cpu=2))
    assert [queues.wait_reason(f"p{number}") for number in (1, 2, 3)] == [None, None, WaitReason.LOST_TURN]
    assert queues.engine.pods_to_retry() == ["u-p3"]
    assert queues.admit() == []
    queues.placed("p1", "p2")
    assert queues.wait_reason("p3") is WaitReason.LOST_TURN
    queues.engine.task_removed("u-p1")
    assert queues.admit() == ["p3"]
    assert queues.engine.pods_to_retry() == ["u-p3"]


def test_promises_that_no_longer_fit_do_not_block_smaller_younger_ones_u2() -> None:
    """Otherwise a promise that can never be kept would block all others."""
    queues = Queues(a_queue("q", cpu=4))
    queues.apply(stamped(a_task("large", "3", queue="q"), "q", at(1)), stamped(a_task("small", queue="q"), "q", at(2)))
    queues.apply(a_queue("q", cpu=1))
    assert [queues.wait_reason("large"), queues.wait_reason("small")] == [WaitReason.LOST_TURN, None]
    assert "before the limit of queue q was lowered" in queues.wait_message("large")


def test_a_gang_keeps_or_loses_its_promise_as_a_whole_u2() -> None:
    """Two gangs whose promises have the same moment do not block each other by half."""
    queues = Queues(a_queue("q", cpu=4), a_group("g", "q", minimum=2), a_group("h", "q", minimum=2))
    for number, group in enumerate("ghgh"):
        queues.apply(stamped(a_task(f"{number}-{group}", group=group), "q", at(1)))
    queues.apply(a_queue("q", cpu=3))
    assert [queues.wait_reason(f"{number}-{group}") for number, group in enumerate("ghgh")] == [
        None,
        WaitReason.LOST_TURN,
        None,
        WaitReason.LOST_TURN,
    ]


def test_a_limit_lowered_at_an_ancestor_counts_for_promises_of_all_its_leaves_u2() -> None:
    queues = Queues(a_queue("p", cpu=2), a_queue("l1", parent="p"), a_queue("l2", parent="p"))
    queues.apply(stamped(a_task("old", queue="l2"), "l2", at(1)), stamped(a_task("young", queue="l1"), "l1", at(2)))
    queues.apply(a_queue("p", cpu=1))
    assert [queues.wait_reason("old"), queues.wait_reason("young")] == [None, WaitReason.LOST_TURN]
    wait = queues.engine.peek_wait_reason("u-young")
    assert wait is not None
    assert wait.blocker == "p"


def test_nothing_is_granted_on_the_resource_that_was_lowered_and_others_are() -> None:
    queues = Queues(a_queue("q", capability=amounts(cpu=2, gpu=2)), stamped(a_task("old", "2", queue="q"), "q"))
    queues.apply(a_queue("q", capability=amounts(cpu=1, gpu=2)))
    queues.apply(a_task("cpu", queue="q"), a_task("gpu", None, queue="q", requests=amounts(gpu=1)))
    queues.apply(a_task("old", "2", queue="q", node_name="n1", gates=()))
    assert queues.admit() == ["gpu"]


def test_a_late_watch_does_not_cause_a_second_admission_u3_r10() -> None:
    gated = a_task("a", queue="q", created_s=5)
    queues = Queues(a_queue("q", cpu=1), gated)
    assert queues.admit() == ["a"]
    queues.engine.stamped("u-a", a_stamp(gated, "q"))
    queues.apply(msgspec.structs.replace(gated, created_s=6), a_task("b", queue="q"))
    assert queues.admit() == []
    queues.apply(stamped(gated, "q"))
    queues.apply(gated)
    assert queues.admit() == []
    assert queues.usage("q") == (0, 1000)


def test_the_annotation_alone_is_no_proof_of_admission_u4_r11() -> None:
    """Pods that opted in and were never gated wait like the others; only the stamp is a promise."""
    queues = Queues(a_queue("q", cpu=1))
    queues.apply(*(a_task(f"never-gated-{number}", queue="q", gates=(), created_s=number) for number in range(3)))
    assert queues.usage("q") == (0, 0)
    assert queues.admit() == ["never-gated-0"]
    assert queues.wait_reason("never-gated-1") is WaitReason.FULL


def test_a_stamp_on_a_pod_that_still_has_its_gate_is_no_promise_u4() -> None:
    """Headgate's patch removes the gate and writes the stamp together, so another client wrote this stamp."""
    task = a_task("p", queue="q")
    queues = Queues(a_queue("q", cpu=0), msgspec.structs.replace(task, stamp=a_stamp(task, "q")))
    assert queues.usage("q") == (0, 0)
    assert queues.wait_reason("p") is WaitReason.FULL


@pytest.mark.parametrize("parent", ["", "top"])
def test_quota_does_not_depend_on_the_size_of_the_cluster_u5_u6_a10(parent: str) -> None:
    """There are no nodes and no such devices; without and with a parent queue."""
    queues = Queues(a_queue("top"), a_queue("q", parent=parent, capability=amounts(cpu=1000, gpu=8)))
    queues.apply(a_task("p", "900", queue="q", requests=amounts(gpu=8)))
    assert queues.admit() == ["p"]


def test_a_check_costs_the_depth_of_its_queue_u17() -> None:
    """Counted in calls: a thousand promises in the queue, and one more is checked, granted and placed."""
    calls = {few: _calls_of_one_admission(few) for few in (10, 1000)}
    assert calls[1000] <= calls[10] * 1.1


def _calls_of_one_admission(promised: int) -> int:
    queues = Queues(
        a_queue("q", cpu=5000), *(stamped(a_task(f"p{number}", queue="q"), "q") for number in range(promised))
    )
    queues.admit()
    queues.apply(a_task("one", queue="q"))
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(trace)
    try:
        assert queues.admit() == ["one"]
        queues.placed("one")
    finally:
        sys.setprofile(None)
    return count


def test_a_member_without_a_node_does_not_block_later_members_u15() -> None:
    queues = Queues(a_queue("q", cpu=3), a_group("g", "q"), a_task("g-0", group="g", opted_in=False))
    assert queues.admit() == ["g-0"]
    queues.engine.unplaced("u-g-0")
    queues.apply(a_task("g-1", group="g"), a_task("g-2", group="g"))
    assert queues.admit() == ["g-1", "g-2"]


def test_proportion_reserves_too_u18() -> None:
    by_weight = msgspec.structs.replace(
        DEFAULTS, tiers=((PluginOption("priority"), PluginOption("gang"), PluginOption("proportion")),)
    )
    queues = Queues(a_queue("q", cpu=1), a_task("p1", queue="q"), a_task("p2", queue="q"), conf=by_weight)
    assert queues.admit() == ["p1"]
    assert queues.usage("q") == (0, 1000)
    assert queues.wait_reason("p2") is WaitReason.FULL


def test_a_pod_whose_promise_does_not_count_after_the_gate_removal_waits_with_a_reason_u19() -> None:
    """No gate can be added again: it is the scheduler that hides it, for this reason."""
    queues = Queues(a_queue("q", cpu=2), stamped(a_task("p", "2", queue="q"), "q"))
    queues.apply(a_queue("q", cpu=1))
    wait = queues.engine.wait_reason("u-p")
    assert wait is not None
    assert (wait.why, wait.blocker, wait.resource) == (WaitReason.LOST_TURN, "q", "cpu")


def test_promises_count_for_enqueueing_shares_and_usage_u20() -> None:
    queues = Queues(a_queue("q", cpu=3, deserved=amounts(cpu=2)), stamped(a_task("p", "2", queue="q"), "q"))
    queues.apply(a_group("g", "q", minResources=amounts(cpu=2)), a_task("g-0", "2", group="g"))
    assert queues.admit() == []
    assert queues.wait_reason("g-0") is WaitReason.NOT_INQUEUE
    usage = queues.engine.usage("q")
    assert (usage.reserved, usage.share) == ({"cpu": 2000}, 1.0)


# Requirements of #5405 for reservations.


def test_a_candidate_is_not_counted_twice_at_leaf_or_parent_r2() -> None:
    queues = Queues(a_queue("p", cpu=100), a_queue("l", parent="p", cpu=100))
    task = a_task("p1", "80", queue="l")
    queues.apply(stamped(task, "l"))
    assert queues.wait_reason("p1") is None
    assert queues.engine.usage("p").reserved == {"cpu": 80_000}


def test_a_flat_queue_counts_its_promises() -> None:
    queues = Queues(a_queue("q", cpu=100), stamped(a_task("p1", "80", queue="q"), "q"), a_task("p2", "30", queue="q"))
    assert queues.admit() == []


def test_a_promise_seen_three_times_counts_once() -> None:
    queues = Queues(a_queue("q", cpu=10))
    for second in (1, 2, 3):
        queues.apply(stamped(a_task("p1", "4", queue="q"), "q", at(second)))
    assert queues.usage("q") == (0, 4000)


def test_a_promise_of_a_deleted_pod_leaves_no_entries() -> None:
    queues = Queues(a_queue("p"), a_queue("l", parent="p"), stamped(a_task("p1", "4", queue="l"), "l"))
    queues.engine.task_removed("u-p1")
    queues.engine.task_removed("u-p1")
    assert queues.engine.usage("root") == QueueEngine().usage("root")


def test_releasing_an_unknown_share_changes_nothing() -> None:
    queues = Queues(a_queue("q", cpu=1), a_task("p1", queue="q"))
    for uid in ("u-p1", "nobody"):
        queues.engine.unplaced(uid)
        queues.engine.evicted(uid)
        queues.engine.unevicted(uid)
    queues.engine.refused("nobody", 0.0, "no")
    assert queues.usage("q") == (0, 0)
    assert queues.admit() == ["p1"]


def test_usage_that_was_never_recorded_is_empty_and_stays_empty() -> None:
    ledger = Ledger()
    assert isinstance(ledger.account("q"), QueueAccount)
    assert ledger.account("q").allocated_plus_reserved("cpu") == 0


def test_promises_are_rebuilt_from_stamps_alone_r1_r5_r6() -> None:
    queues = Queues(a_queue("q", cpu=4), *(a_task(f"p{number}", queue="q") for number in range(6)))
    granted = queues.admit()
    shown = [stamped(a_task(name, queue="q"), "q") for name in granted[:2]]
    shown += [msgspec.structs.replace(stamped(a_task(name, queue="q"), "q"), node_name="n") for name in granted[2:]]
    queues.apply(*shown)
    again = Queues(a_queue("q", cpu=4), *reversed(shown), *(a_task(f"p{number}", queue="q") for number in (4, 5)))
    assert again.engine.usage("q") == queues.engine.usage("q")
    assert again.admit() == []
    again.engine.task_removed("u-p0")
    assert again.admit() == ["p4"]


def test_the_reason_of_a_lost_turn_names_a_requested_resource() -> None:
    """Not of another resource of the queue, whose limit was lowered, too."""
    queues = Queues(
        a_queue("q", capability=amounts(cpu=2, gpu=2)), a_task("r", "2", queue="q", node_name="n", gates=())
    )
    for number in (1, 2):
        asked = a_task(f"gpu-{number}", None, queue="q", requests=amounts(gpu=1))
        queues.apply(stamped(asked, "q", at(number)))
    queues.apply(a_queue("q", capability=amounts(cpu=1, gpu=1)))
    wait = queues.engine.peek_wait_reason("u-gpu-2")
    assert wait is not None
    assert wait.why is WaitReason.LOST_TURN
    assert wait.resource == "nvidia.com/gpu"
