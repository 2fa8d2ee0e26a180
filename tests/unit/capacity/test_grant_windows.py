"""Windows: at most so many pods of a queue have a promise and no node, in the order of the queue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, Wire, a_group, a_queue, a_task, stamped
from headgate.capacity.api.queue import read_queue
from headgate.capacity.api.stamp import Stamp
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import DEQUEUE_STRATEGY, MAX_PODS_WITHOUT_NODE, WITHOUT_NODE_TIMEOUT
from headgate.kube.timestamps import format_micro_time


def a_windowed_queue(name: str, window: int | str, cpu: int | None = None, timeout: str = "", **more: Any) -> Wire:
    annotations = {MAX_PODS_WITHOUT_NODE: str(window)} | ({WITHOUT_NODE_TIMEOUT: timeout} if timeout else {})
    return a_queue(name, cpu, annotations=annotations, **more)


def send_stamps(queues: Queues, *names: str, is_sent: bool = True) -> None:
    """The gates of these pods are removed now."""
    for name in names:
        task = queues.engine.queue_of(f"u-{name}")
        stamp = Stamp(f"u-{name}", task, {"cpu": 1000}, format_micro_time(queues.now_s))
        queues.engine.stamped(f"u-{name}", stamp, is_sent=is_sent)


def pods(queue: str, count: int, first: int = 0) -> list[TaskInfo]:
    return [a_task(f"p{number}", queue=queue, created_s=float(number)) for number in range(first, first + count)]


def test_a_queue_grants_no_more_pods_than_its_window_holds() -> None:
    queues = Queues(a_windowed_queue("q", 2), *pods("q", 5))
    assert queues.admit() == ["p0", "p1"]
    assert queues.engine.usage("q").pods_without_node == 2


def test_the_next_pods_in_order_follow_when_pods_have_nodes() -> None:
    queues = Queues(a_windowed_queue("q", 2), *pods("q", 5))
    queues.admit()
    queues.placed("p1")
    assert queues.admit() == ["p2"]
    queues.engine.task_removed("u-p0")
    assert queues.admit() == ["p3"]


def test_a_pod_that_waits_for_the_window_says_so() -> None:
    queues = Queues(a_windowed_queue("q", 1), *pods("q", 2))
    queues.admit()
    assert queues.wait_reason("p1") is WaitReason.WINDOW_FULL
    assert queues.wait_message("p1") == (
        "queue q has capacity for it; 1 pod of queue q was admitted in the last 10m and has no node; at most 1 may "
        "wait for one (annotation headgate.dev/max-pods-without-node)"
    )


def test_a_gang_that_is_larger_than_the_window_says_that_it_waits_until_no_other_pod_counts() -> None:
    queues = Queues(a_windowed_queue("q", 2), a_group("g", "q", 3, phase="Inqueue"), *pods("q", 2))
    queues.admit()
    queues.apply(*(a_task(f"g{number}", group="g") for number in range(3)))
    assert queues.admit() == []
    assert queues.wait_message("g0") == (
        "queue q has capacity for it; its group of 3 pods is larger than the limit of 2 pods without a node of queue q "
        "(annotation headgate.dev/max-pods-without-node), so it is admitted when no other pod counts there: 2 pods of "
        "queue q were admitted in the last 10m and have no node"
    )


def test_a_gang_that_fits_in_an_emptier_window_says_how_many_pods_it_needs() -> None:
    queues = Queues(a_windowed_queue("q", 3), a_group("g", "q", 2, phase="Inqueue"), *pods("q", 2))
    queues.admit()
    queues.apply(*(a_task(f"g{number}", group="g") for number in range(2)))
    assert queues.admit() == []
    assert queues.wait_message("g0").endswith(
        "2 pods of queue q were admitted in the last 10m and have no node, and its group needs 2 more together; at "
        "most 3 may wait for one (annotation headgate.dev/max-pods-without-node)"
    )


def test_the_window_of_the_root_counts_all_queues() -> None:
    queues = Queues(a_windowed_queue("root", 3), a_queue("a"), a_queue("b"), *pods("a", 2), *pods("b", 3, first=2))
    assert len(queues.admit()) == 3
    assert queues.engine.usage("root").pods_without_node == 3


def test_other_queues_go_on_while_the_window_of_one_is_full() -> None:
    queues = Queues(a_windowed_queue("a", 1), a_queue("b"), *pods("a", 3), *pods("b", 3, first=3))
    assert sorted(queues.admit()) == ["p0", "p3", "p4", "p5"]


def test_a_gang_that_does_not_fit_in_the_window_is_not_overtaken() -> None:
    queues = Queues(a_windowed_queue("q", 3), a_group("g", "q", 3, phase="Inqueue"))
    queues.apply(a_task("first", queue="q", priority=9))
    assert queues.admit() == ["first"]
    queues.apply(*(a_task(f"g{number}", group="g", priority=5) for number in range(3)), a_task("late", queue="q"))
    assert queues.admit() == []
    assert "a group before it" in queues.wait_message("late")
    queues.placed("first")
    assert queues.admit() == ["g0", "g1", "g2"]
    queues.placed("g1")
    assert queues.admit() == ["late"]


@pytest.mark.parametrize("strategy", ["traverse", "fifo", "backfill"])
def test_a_gang_with_min_resources_waits_for_the_window_as_well(strategy: str) -> None:
    annotations = {MAX_PODS_WITHOUT_NODE: "3", DEQUEUE_STRATEGY: strategy}
    queues = Queues(a_queue("q", cpu=9, annotations=annotations), a_task("first", queue="q", priority=9))
    assert queues.admit() == ["first"]
    queues.apply(a_group("g", "q", 3, minResources={"cpu": 3}), *(a_task(f"g{n}", group="g") for n in range(3)))
    assert queues.admit() == []
    assert queues.wait_reason("g0") is WaitReason.WINDOW_FULL
    queues.placed("first")
    assert queues.admit() == ["g0", "g1", "g2"]


@pytest.mark.parametrize("strategy", ["traverse", "fifo", "backfill"])
def test_a_full_window_holds_a_gang_with_min_resources(strategy: str) -> None:
    annotations = {MAX_PODS_WITHOUT_NODE: "1", DEQUEUE_STRATEGY: strategy}
    queues = Queues(a_queue("q", cpu=9, annotations=annotations), a_task("first", queue="q", priority=9))
    queues.admit()
    queues.apply(a_group("g", "q", 1, minResources={"cpu": 1}), a_task("g0", group="g"))
    assert queues.admit() == []


def test_a_pod_before_the_gang_that_waits_for_the_window_is_granted() -> None:
    queues = Queues(a_windowed_queue("q", 3), a_group("g", "q", 3, phase="Inqueue"))
    queues.apply(a_task("first", queue="q", priority=9))
    queues.admit()
    queues.apply(*(a_task(f"g{number}", group="g", priority=5) for number in range(3)))
    assert queues.admit() == []
    queues.apply(a_task("urgent", queue="q", priority=7))
    assert queues.admit() == ["urgent"]


def test_a_gang_that_is_larger_than_the_window_is_granted_alone() -> None:
    queues = Queues(a_windowed_queue("q", 2), a_group("g", "q", 3, phase="Inqueue"))
    queues.apply(*(a_task(f"g{number}", group="g") for number in range(3)))
    assert queues.admit() == ["g0", "g1", "g2"]


def test_a_pod_that_did_not_opt_in_does_not_wait_for_the_window() -> None:
    queues = Queues(a_windowed_queue("q", 1), *pods("q", 2), a_task("plain", queue="q", opted_in=False))
    assert sorted(queues.admit()) == ["p0", "plain"]


def test_a_pod_that_was_resized_leaves_the_window_and_enters_it_again() -> None:
    queues = Queues(a_windowed_queue("q", 1, cpu=4), a_task("p", queue="q"))
    queues.admit()
    task = stamped(a_task("p", queue="q"), "q")
    queues.apply(task)
    queues.apply(msgspec.structs.replace(task, requests={"cpu": 2000}))
    assert queues.engine.usage("q").pods_without_node == 0
    assert queues.admit() == ["p"]
    assert queues.engine.usage("q").pods_without_node == 1


def test_a_wider_window_and_its_removal_take_effect_at_once() -> None:
    queues = Queues(a_windowed_queue("q", 1), *pods("q", 5))
    assert queues.admit() == ["p0"]
    queues.apply(a_windowed_queue("q", 2))
    assert queues.admit() == ["p1"]
    queues.apply(a_queue("q"))
    assert queues.admit() == ["p2", "p3", "p4"]


def test_a_window_that_is_narrowed_revokes_nothing() -> None:
    queues = Queues(a_queue("q"), *pods("q", 3))
    queues.admit()
    queues.apply(a_windowed_queue("q", 1))
    assert queues.admit() == []
    assert queues.engine.usage("q").pods_without_node == 3


def test_no_pod_is_evicted_for_a_pod_that_waits_for_the_window() -> None:
    queues = Queues(a_windowed_queue("q", 1, cpu=2), a_task("low", queue="q"))
    queues.admit()
    queues.apply(stamped(a_task("low", queue="q", node_name="n"), "q"))
    queues.apply(a_task("stuck", queue="q"))
    assert queues.admit() == ["stuck"]
    queues.apply(a_task("high", queue="q", priority=9))
    assert queues.engine.plan_preemption("u-high") is None


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "", "9999999999"])
def test_an_invalid_window_is_a_problem_of_the_queue(value: str) -> None:
    problem = read_queue(a_windowed_queue("q", value)).problem
    assert problem == f"metadata.annotations[{MAX_PODS_WITHOUT_NODE}]: must be a whole number from 1 to 999999999"


def test_pods_that_fit_no_node_hold_the_window_for_its_timeout_only() -> None:
    queues = Queues(a_windowed_queue("root", 2), a_queue("a"), a_queue("b"), *pods("a", 2))
    assert queues.admit() == ["p0", "p1"]
    send_stamps(queues, "p0", "p1")
    queues.apply(a_task("urgent", queue="b", priority=9))
    assert queues.admit() == []
    assert queues.engine.next_deadline_s() == queues.now_s + 599
    queues.now_s += 597
    assert queues.admit() == []
    assert queues.admit() == ["urgent"]
    assert queues.engine.usage("root").pods_without_node == 3


def test_a_window_admits_as_many_pods_in_each_timeout_although_none_gets_a_node() -> None:
    queues = Queues(a_windowed_queue("q", 2, timeout="60s"), *pods("q", 7))
    granted = []
    for _ in range(4):
        found = queues.admit()
        send_stamps(queues, *found)
        granted.append(found)
        queues.now_s += 60
    assert granted == [["p0", "p1"], ["p2", "p3"], ["p4", "p5"], ["p6"]]


def test_a_gang_that_is_larger_than_the_window_is_admitted_when_all_others_are_overdue() -> None:
    queues = Queues(a_windowed_queue("q", 2, timeout="60s"), a_group("g", "q", 3, phase="Inqueue"), *pods("q", 1))
    send_stamps(queues, *queues.admit())
    queues.apply(*(a_task(f"g{number}", group="g") for number in range(3)))
    assert queues.admit() == []
    queues.now_s += 60
    assert queues.admit() == ["g0", "g1", "g2"]


def test_each_window_has_its_own_timeout() -> None:
    root, team = a_windowed_queue("root", 2, timeout="60s"), a_windowed_queue("a", 1, timeout="120s")
    queues = Queues(root, team, a_queue("b"), *pods("a", 2), *pods("b", 2, first=2))
    first = queues.admit()
    assert sorted(first) == ["p0", "p2"]
    send_stamps(queues, *first)
    queues.now_s += 60
    assert queues.admit() == ["p3"]
    queues.now_s += 60
    assert queues.admit() == ["p1"]


def test_a_pod_that_the_autoscaler_has_not_seen_counts_until_its_gate_is_removed() -> None:
    queues = Queues(a_windowed_queue("q", 1), *pods("q", 2))
    queues.admit()
    send_stamps(queues, "p0", is_sent=False)
    queues.now_s += 1_000
    assert queues.admit() == []
    queues.engine.commit("u-p0")
    assert queues.admit() == ["p1"]


def test_a_restarted_process_counts_the_time_from_the_stamp() -> None:
    at = format_micro_time(1_000_000.0)
    tasks = [stamped(each, "q", at) for each in pods("q", 1)]
    queues = Queues(a_windowed_queue("q", 1), *tasks, *pods("q", 2, first=1))
    assert queues.admit() == []
    queues.now_s += 599
    assert queues.admit() == ["p1"]
    late = Queues(a_windowed_queue("q", 1), *tasks, *pods("q", 2, first=1))
    late.now_s += 1_000
    assert late.admit() == ["p1"]


@pytest.mark.parametrize("at", ["9999-01-01T00:00:00.000000Z", "yesterday"])
def test_a_stamp_with_an_impossible_time_does_not_fill_the_window_for_ever(at: str) -> None:
    tasks = [stamped(each, "q", at) for each in pods("q", 1)]
    queues = Queues(a_windowed_queue("q", 1), *tasks, *pods("q", 1, first=1))
    granted = queues.admit()
    queues.now_s += 600
    assert granted + queues.admit() == ["p1"]


def test_another_timeout_and_another_window_take_effect_at_once() -> None:
    queues = Queues(a_windowed_queue("q", 1), *pods("q", 4))
    send_stamps(queues, *queues.admit())
    queues.now_s += 60
    assert queues.admit() == []
    queues.apply(a_windowed_queue("q", 1, timeout="30s"))
    assert queues.admit() == ["p1"]
    send_stamps(queues, "p1")
    queues.apply(a_windowed_queue("q", 1, timeout="1h"))
    queues.now_s += 60
    assert queues.admit() == []
    queues.apply(a_queue("q"), a_windowed_queue("root", 3, timeout="1h"))
    assert queues.admit() == ["p2"]


def test_a_queue_that_moves_counts_in_the_window_of_its_new_parent() -> None:
    queues = Queues(a_windowed_queue("x", 1), a_windowed_queue("y", 1), a_queue("q", parent="x"), *pods("q", 2))
    send_stamps(queues, *queues.admit())
    queues.now_s += 600
    queues.apply(a_queue("q", parent="y"))
    assert queues.admit() == ["p1"]
    queues.engine.queue_removed("q")
    queues.apply(a_queue("q", parent="x"))
    assert queues.engine.usage("x").pods_without_node == 2
    queues.engine.task_removed("u-p0")
    queues.engine.task_removed("u-p1")
    assert queues.engine.next_deadline_s() is None


@pytest.mark.parametrize("value", ["0s", "-1m", "never", "ten minutes", ""])
def test_an_invalid_timeout_is_a_problem_of_the_queue(value: str) -> None:
    wire = a_queue("q", annotations={MAX_PODS_WITHOUT_NODE: "1", WITHOUT_NODE_TIMEOUT: value})
    problem = (
        f"metadata.annotations[{WITHOUT_NODE_TIMEOUT}]: must be a duration above 0 and up to 2562047h, such as 10m"
    )
    assert read_queue(wire).problem == problem


@pytest.mark.parametrize("cpu", ["1", None])
def test_pods_without_nodes_of_one_queue_block_another_queue_for_one_timeout_only(cpu: str | None) -> None:
    queues = Queues(a_windowed_queue("root", 2, timeout="10s"), a_queue("blue", 50), a_queue("red", 50))
    queues.apply(*(a_task(f"nofit{number:02}", cpu, queue="blue", created_s=float(number)) for number in range(14)))
    assert queues.admit() == ["nofit00", "nofit01"]
    send_stamps(queues, "nofit00", "nofit01")
    queues.apply(a_task("fitting", cpu, queue="red", created_s=99.0))
    assert queues.admit() == []
    queues.now_s += 10
    assert queues.admit() == ["fitting", "nofit02"]


def test_an_engine_that_admits_nothing_names_the_window_that_a_group_before_the_pod_waits_for() -> None:
    queues = Queues(a_windowed_queue("root", 4), a_queue("blue"), a_queue("red"), a_group("g", "blue", 3, "Inqueue"))
    for name in ("nofit0", "nofit1"):
        task = a_task(name, queue="blue")
        queues.apply(stamped(task, "blue", format_micro_time(queues.now_s)))
    queues.apply(*(a_task(f"g{number}", group="g", created_s=1.0) for number in range(3)))
    queues.apply(a_task("behind", queue="blue", created_s=2.0), a_task("in-red", queue="red", created_s=3.0))
    queues.apply(a_task("on-node", 9, queue="red", node_name="n1"))
    queues.engine.set_time_of_day(queues.now_s)
    for name in ("behind", "in-red"):
        assert queues.wait_reason(name) is WaitReason.WINDOW_FULL
        assert "a group before it waits until fewer pods of queue root wait for a node" in queues.wait_message(name)
    queues.engine.task_removed("u-nofit0")
    queues.engine.set_time_of_day(queues.now_s)
    assert queues.wait_reason("g0") is WaitReason.WAITING_TURN
    assert queues.wait_reason("in-red") is WaitReason.WAITING_TURN


def test_an_engine_that_admits_nothing_says_that_a_pod_of_a_queue_that_uses_less_is_next() -> None:
    queues = Queues(a_windowed_queue("root", 4), a_queue("blue"), a_queue("red"), a_group("g", "blue", 3, "Inqueue"))
    for name in ("nofit0", "nofit1"):
        queues.apply(stamped(a_task(name, queue="blue"), "blue", format_micro_time(queues.now_s)))
    queues.apply(*(a_task(f"g{number}", group="g", created_s=1.0) for number in range(3)))
    queues.apply(a_task("in-red", queue="red", created_s=3.0))
    queues.engine.set_time_of_day(queues.now_s)
    assert queues.wait_reason("in-red") is WaitReason.WAITING_TURN
    assert queues.wait_reason("g0") is WaitReason.WINDOW_FULL
    assert queues.admit() == ["in-red"]
