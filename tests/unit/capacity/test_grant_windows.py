"""Windows: at most so many pods of a queue have a promise and no node, in the order of the queue."""

from __future__ import annotations

import msgspec
import pytest

from capacity_builders import Queues, Wire, a_group, a_queue, a_task, stamped
from headgate.capacity.api.queue import read_queue
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import MAX_PODS_WITHOUT_NODE


def a_windowed_queue(name: str, window: int | str, cpu: int | None = None) -> Wire:
    return a_queue(name, cpu, annotations={MAX_PODS_WITHOUT_NODE: str(window)})


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
        "queue q has capacity for it; 1 pods of queue q wait for a node, and at most 1 may "
        "(annotation headgate.dev/max-pods-without-node)"
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
    assert problem == f"metadata.annotations[{MAX_PODS_WITHOUT_NODE}]: must be a whole number, 1 or more"
