"""Head-of-line protection: which units may pass the first in the line of their queue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, Wire, a_group, a_queue, a_task
from headgate.capacity.api.queue import read_queue
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.api.times import RunTime
from headgate.capacity.cache.run_times import RUN_TIME
from headgate.capacity.conf import DEFAULT_ACTIONS, DEFAULT_TIERS, SLA, SLA_WAITING_TIME, PluginOption, SchedulerConf
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import DEQUEUE_STRATEGY
from headgate.capacity.ordering.grant_windows import WINDOW
from headgate.capacity.ordering.held_units import RESIZED
from headgate.capacity.ordering.queue_views import ENQUEUE_CHECK

NOW_S = 1_000_000.0
_SLA_CONF = SchedulerConf(DEFAULT_ACTIONS, (*DEFAULT_TIERS, (PluginOption(SLA),)))


def with_strategy(strategy: str, name: str = "q", cpu: int | None = 10, **fields: Any) -> Wire:
    return a_queue(name, cpu, annotations={DEQUEUE_STRATEGY: strategy}, **fields)


def runs(task: TaskInfo, limit_s: float, started_s: float | None = None, grace_s: float = 0.0) -> TaskInfo:
    """The pod with a run-time limit; with ``started_s`` it is on a node."""
    found = msgspec.structs.replace(task, run_time=RunTime(limit_s, grace_s, started_s))
    return found if started_s is None else msgspec.structs.replace(found, node_name="n", gates=())


def on_node(name: str, cpu: int, queue: str = "q") -> TaskInfo:
    return a_task(name, cpu, queue=queue, opted_in=False, node_name="n", created_s=-9.0)


def waits(name: str, cpu: int | None = 1, number: int = 1, queue: str = "q", **fields: Any) -> TaskInfo:
    return a_task(name, cpu, queue=queue, created_s=float(number), **fields)


# The strategies.


def test_without_a_strategy_a_later_unit_that_fits_goes_first() -> None:
    queues = Queues(a_queue("q", 10), on_node("old", 6), waits("large", 8), waits("small", 1, 2))
    assert queues.admit() == ["small"]


def test_with_fifo_nothing_passes_the_first() -> None:
    queues = Queues(with_strategy("fifo"), on_node("old", 6), waits("large", 8), waits("small", 1, 2))
    assert queues.admit() == []
    assert queues.wait_reason("small") is WaitReason.BEHIND_FIRST
    assert queues.wait_message("small") == (
        "queue q has capacity for it; pod ns/large is first in line, and nothing passes it (dequeue strategy fifo)"
    )
    queues.engine.task_removed("u-old")
    assert queues.admit() == ["large", "small"]


def test_volcanos_field_sets_fifo_and_the_annotation_takes_precedence() -> None:
    queues = Queues(a_queue("q", 10, dequeueStrategy="fifo"), on_node("old", 6), waits("large", 8), waits("s", 1, 2))
    assert queues.admit() == []
    queues.apply(with_strategy("traverse", dequeueStrategy="fifo"))
    assert queues.admit() == ["s"]


def test_a_queue_without_a_strategy_has_that_of_its_nearest_ancestor() -> None:
    queues = Queues(
        with_strategy("fifo", "root", None),
        a_queue("q", 10, dequeueStrategy="traverse"),
        on_node("old", 6),
        waits("large", 8),
        waits("small", 1, 2),
    )
    assert queues.admit() == []
    queues.apply(a_queue("root"))
    assert queues.admit() == ["small"]


def test_a_unit_before_the_first_goes_first() -> None:
    queues = Queues(with_strategy("fifo"), on_node("old", 6), waits("large", 8), waits("urgent", 1, 2, priority=5))
    assert queues.admit() == ["urgent"]


def test_other_queues_go_on() -> None:
    queues = Queues(with_strategy("fifo"), a_queue("r"), on_node("old", 6), waits("large", 8), waits("p", 1, 2, "r"))
    assert queues.admit() == ["p"]


def test_a_unit_that_never_fits_is_not_in_the_line() -> None:
    queues = Queues(with_strategy("fifo"), waits("huge", 11), waits("small", 1, 2))
    assert queues.admit() == ["small"]


def test_a_resized_pod_that_never_fits_is_not_in_the_line() -> None:
    queues = Queues(with_strategy("fifo"), waits("grows", 6))
    assert queues.admit() == ["grows"]
    queues.apply(waits("grows", 12), waits("small", 1, 2))
    assert queues.admit() == ["small"]


# Pods that have a promise and request more.


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_promised_pod_that_asks_for_more_passes_the_first(strategy: str) -> None:
    """It keeps its promise until it starts, and the first lacks what it holds."""
    queues = Queues(with_strategy(strategy, cpu=6), waits("grows", 2, 2))
    assert queues.admit() == ["grows"]
    queues.apply(waits("first", 5, 1), waits("grows", 3, 2), waits("late", 1, 3))
    assert queues.admit() == ["grows"]
    queues.engine.task_removed("u-grows")
    assert queues.admit() == ["first", "late"]


def test_a_promised_pod_that_asks_for_more_passes_an_overdue_unit() -> None:
    queues = Queues(a_queue("q", 6), waits("grows", 2, 2), conf=_SLA_CONF)
    assert queues.admit() == ["grows"]
    queues.apply(waits("first", 5, 1, sla_s=1.0), waits("grows", 3, 2))
    assert queues.admit() == ["grows"]


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_promised_member_that_asks_for_more_passes_the_first(strategy: str) -> None:
    queues = Queues(with_strategy(strategy, cpu=6), a_group("g", "q", 2, "Inqueue"))
    queues.apply(a_task("g0", 1, group="g"), a_task("g1", 1, group="g"))
    assert queues.admit() == ["g0", "g1"]
    queues.apply(waits("first", 5, 1, priority=5), a_task("g1", 2, group="g"))
    assert queues.admit() == ["g1"]


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_promised_pod_is_not_held_back_with_a_gang_of_the_same_ask(strategy: str) -> None:
    """The member ``h0`` waits for as much as ``grows``, and is before it."""
    queues = Queues(with_strategy(strategy, cpu=6), waits("grows", 2, 2), a_group("h", "q", 1, "Inqueue"))
    assert queues.admit() == ["grows"]
    queues.apply(waits("first", 5, 1, priority=5), waits("grows", 3, 2), a_task("h0", 1, group="h", priority=1))
    assert queues.admit() == ["grows"]


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_of_two_promised_pods_that_ask_for_more_the_first_in_line_does_not_hold_the_other(strategy: str) -> None:
    """``a`` has the older promise, and ``b`` is before it in the line."""
    queues = Queues(with_strategy(strategy, cpu=6), waits("a", 3, 2))
    assert queues.admit() == ["a"]
    queues.apply(waits("b", 3, 1, priority=5))
    assert queues.admit() == ["b"]
    queues.apply(waits("a", 4, 2), waits("b", 4, 1, priority=5))
    assert queues.admit() == ["a"]
    queues.engine.task_removed("u-a")
    assert queues.admit() == ["b"]


@pytest.mark.parametrize("value", ["", "lifo", "FIFO"])
def test_an_invalid_strategy_is_a_problem_of_the_queue(value: str) -> None:
    problem = read_queue(with_strategy(value)).problem
    assert problem == f"metadata.annotations[{DEQUEUE_STRATEGY}]: must be one of fifo, backfill, traverse"


# Backfill.


def test_a_unit_that_asks_for_other_resources_passes_the_first() -> None:
    queue = with_strategy("backfill", capability={"nvidia.com/gpu": 4})
    queues = Queues(queue, on_node("old", 6), waits("large", 8), waits("gpus", None, 2, requests={"nvidia.com/gpu": 4}))
    assert queues.admit() == ["gpus"]


def test_a_unit_passes_on_what_the_first_leaves() -> None:
    queue = with_strategy("backfill", capability={"nvidia.com/gpu": 4})
    queues = Queues(queue, a_task("old", 1, queue="q", opted_in=False, node_name="n", requests={"nvidia.com/gpu": 4}))
    queues.apply(waits("first", 7, 1, requests={"nvidia.com/gpu": 1}))
    queues.apply(waits("a", 1, 2), waits("b", 2, 3), waits("c", 1, 4))
    assert queues.admit() == ["a", "c"]
    assert queues.wait_reason("b") is WaitReason.BEHIND_FIRST
    assert queues.wait_message("b") == (
        "queue q has capacity for it; it would delay pod ns/first, the first in line, which is protected, may start at "
        "any time, and leaves 0 cpu in queue q"
    )


def test_without_run_time_limits_nothing_passes_on_what_the_first_lacks() -> None:
    queues = Queues(with_strategy("backfill"), on_node("old", 6), waits("large", 8), waits("small", 1, 2))
    queues.apply(runs(waits("short", 1, 3), 1.0))
    assert queues.admit() == []


def test_a_unit_that_has_left_when_the_first_can_start_passes_it() -> None:
    queues = Queues(with_strategy("backfill"), waits("large", 8, 1))
    queues.apply(runs(on_node("old", 6), 100.0, started_s=NOW_S))
    queues.apply(runs(waits("long", 2, 2), 101.0), runs(waits("graceful", 2, 3), 80.0, grace_s=30.0))
    queues.apply(runs(waits("short", 2, 4), 80.0, grace_s=10.0), waits("endless", 3, 5))
    assert queues.admit() == ["long", "short"]  # 2 remain beside the first at its start


def test_what_the_first_leaves_at_its_start_is_spare() -> None:
    queues = Queues(with_strategy("backfill"), runs(on_node("old", 8), 100.0, started_s=NOW_S), waits("large", 9))
    queues.apply(waits("a", 1, 2), waits("b", 1, 3))
    assert queues.admit() == ["a"]
    assert queues.wait_message("b").endswith(
        "which is protected, cannot start before 1970-01-12T13:48:20Z, and leaves 0 cpu in queue q"
    )


def test_a_pod_that_has_not_started_ends_its_limit_from_now_on() -> None:
    queues = Queues(with_strategy("backfill"), runs(waits("old", 6, 0), 100.0))
    assert queues.admit() == ["old"]
    queues.apply(waits("large", 8, 1), runs(waits("short", 4, 2), 100.0), runs(waits("long", 4, 3), 101.0))
    assert queues.admit() == ["short"]


def test_time_alone_may_let_a_unit_pass() -> None:
    """A pod that does not start ends later and later, so the first starts when another pod ends, and leaves more."""
    queues = Queues(with_strategy("backfill"), runs(on_node("old", 4), 100.0, started_s=NOW_S), waits("new", 4, 0))
    queues.apply(runs(waits("new", 4, 0), 50.0))
    assert queues.admit() == ["new"]
    queues.apply(waits("first", 5, 1), waits("small", 1, 2))
    assert queues.admit() == []
    assert queues.wait_reason("small") is WaitReason.BEHIND_FIRST
    queues.now_s += 60
    assert queues.admit() == ["small"]


def test_a_pod_beyond_its_limit_may_end_at_any_time_or_not() -> None:
    queues = Queues(with_strategy("backfill"), runs(on_node("old", 6), 100.0, started_s=NOW_S - 500), waits("large", 8))
    queues.apply(runs(waits("short", 3, 2), 5.0), waits("small", 2, 3))
    assert queues.admit() == []


def test_a_pod_without_a_limit_may_end_at_any_time() -> None:
    """The first starts when one of two pods ends; only one of them has a limit."""
    queues = Queues(with_strategy("backfill"), runs(on_node("known", 4), 100.0, started_s=NOW_S), on_node("other", 4))
    queues.apply(waits("first", 6), runs(waits("short", 2, 2), 50.0), waits("small", 2, 3))
    assert queues.admit() == []
    queues.apply(runs(on_node("other", 4), 80.0, started_s=NOW_S))
    assert queues.admit() == ["short"]


def test_a_pod_in_its_grace_period_is_not_released_yet() -> None:
    queues = Queues(with_strategy("backfill"), runs(on_node("a", 4), 50.0, started_s=NOW_S), waits("first", 9))
    queues.apply(runs(on_node("b", 4), 100.0, started_s=NOW_S, grace_s=30.0), waits("small", 1, 2))
    assert queues.admit() == []
    queues.apply(runs(on_node("b", 4), 100.0, started_s=NOW_S))
    assert queues.admit() == ["small"]


def test_ends_in_other_queues_count_where_the_first_is_limited() -> None:
    queues = Queues(a_queue("p", 10), with_strategy("backfill", "q", None, parent="p"), a_queue("r", parent="p"))
    queues.apply(runs(on_node("old", 6, "r"), 100.0, started_s=NOW_S), waits("large", 8), runs(waits("s", 4, 2), 90.0))
    assert queues.admit() == ["s"]


def test_ends_count_in_the_parent_that_a_queue_has_now() -> None:
    queues = Queues(a_queue("p", 10), with_strategy("backfill", "q", None, parent="p"), a_queue("r"), a_queue("s"))
    queues.apply(runs(on_node("known", 6, "r"), 100.0, started_s=NOW_S), on_node("unknown", 6, "s"))
    queues.apply(a_queue("s", parent="p"), waits("large", 8), runs(waits("short", 1, 2), 90.0))
    assert queues.admit() == []  # the pod without a limit may end at any time
    queues.apply(a_queue("r", parent="p"), a_queue("s"))
    assert queues.admit() == ["short"]
    queues.apply(a_queue("r"), a_queue("s", parent="p"), runs(waits("next", 1, 3), 80.0))
    assert queues.admit() == []


def test_a_change_of_an_ancestor_releases_units_that_are_held_back() -> None:
    queues = Queues(
        a_queue("p", capability={"cpu": 10, "nvidia.com/gpu": 1}),
        with_strategy("backfill", "q", None, parent="p"),
        a_queue("r", parent="p"),
        a_task("gpu", None, queue="r", opted_in=False, node_name="n", requests={"nvidia.com/gpu": 1}),
        on_node("old", 3, "r"),
        waits("first", 6, 1, requests={"nvidia.com/gpu": 1}),
        waits("small", 2, 2),
    )
    assert queues.admit() == []
    queues.apply(waits("late", 2, 3))
    assert queues.wait_reason("small") is WaitReason.BEHIND_FIRST
    queues.engine.task_removed("u-old")
    assert queues.wait_reason("small") is WaitReason.WAITING_TURN
    assert queues.admit() == ["small", "late"]


def test_the_strategy_may_change_while_units_are_held_back() -> None:
    queues = Queues(with_strategy("fifo"), on_node("old", 6), waits("large", 8), waits("small", 1, 2))
    for strategy, granted in (("backfill", []), ("fifo", []), ("traverse", ["small"])):
        queues.apply(with_strategy(strategy))
        assert queues.admit() == granted, strategy


# Groups.


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_gang_that_waits_to_be_enqueued_is_protected(strategy: str) -> None:
    queues = Queues(with_strategy(strategy), on_node("old", 6), a_group("g", "q", 2, minResources={"cpu": 8}))
    queues.apply(*(a_task(f"g{n}", 4, group="g", priority=5) for n in range(2)), waits("small", 1))
    assert queues.admit() == []
    assert queues.wait_reason("g0") is WaitReason.NOT_INQUEUE
    assert queues.wait_reason("small") is WaitReason.BEHIND_FIRST
    assert "PodGroup ns/g" in queues.wait_message("small")
    queues.engine.task_removed("u-old")
    assert queues.admit() == ["g0", "g1", "small"]


def test_units_follow_when_a_group_without_pods_leaves_the_line() -> None:
    queues = Queues(with_strategy("fifo"), on_node("old", 6), a_group("g", "q", 2, minResources={"cpu": 8}))
    queues.apply(waits("small", 1))
    assert queues.admit() == []
    queues.engine.group_removed("ns", "g")
    assert queues.admit() == ["small"]


def test_a_later_group_is_not_enqueued_before_the_first() -> None:
    queues = Queues(with_strategy("fifo"), on_node("old", 6))
    queues.apply(a_group("first", "q", 1, minResources={"cpu": 8}), a_task("f", 8, group="first", priority=5))
    queues.apply(a_group("late", "q", 1, minResources={"cpu": 2}), a_task("l", 2, group="late"))
    assert queues.admit() == []
    assert not queues.engine.is_inqueue("ns", "late")
    assert queues.wait_reason("l") is WaitReason.BEHIND_FIRST


def test_a_group_is_enqueued_in_the_step_in_which_the_first_in_line_gets_its_grant() -> None:
    """Also if only an ancestor changed."""
    queues = Queues(a_queue("p", 10), with_strategy("fifo", cpu=None, parent="p"), a_queue("r", parent="p"))
    queues.apply(on_node("old", 6, "r"), waits("first", 8, 1, priority=5))
    queues.apply(a_group("g", "q", 1, minResources={"cpu": 2}))
    assert queues.admit() == []
    assert not queues.engine.is_inqueue("ns", "g")
    queues.engine.task_removed("u-old")
    assert queues.admit() == ["first"]
    assert queues.engine.is_inqueue("ns", "g")


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_group_takes_what_is_set_aside_for_it_before_a_pod_of_higher_priority(strategy: str) -> None:
    queues = Queues(with_strategy(strategy), a_group("g", "q", 2, minResources={"cpu": 10}))
    queues.admit()
    assert queues.engine.is_inqueue("ns", "g")
    queues.apply(waits("urgent", 1, 1, priority=9), *(a_task(f"g{n}", 5, group="g") for n in range(2)))
    assert queues.admit() == ["g0", "g1"]
    assert queues.wait_reason("urgent") is WaitReason.FULL


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_group_takes_what_is_set_aside_for_it_when_an_ancestor_changes(strategy: str) -> None:
    """Before that, the first in line also lacks what a pod of another queue holds."""
    queues = Queues(a_queue("p", 10), with_strategy(strategy, cpu=None, parent="p"), a_queue("r", parent="p"))
    queues.apply(a_group("g", "q", 1, minResources={"cpu": 4}))
    queues.admit()
    assert queues.engine.is_inqueue("ns", "g")
    queues.apply(on_node("old", 3, "r"), waits("first", 8, 1, priority=5), a_task("g0", 4, group="g"))
    assert queues.admit() == []
    assert queues.wait_reason("g0") is WaitReason.BEHIND_FIRST
    queues.engine.task_removed("u-old")
    assert queues.admit() == ["g0"]


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_member_for_which_nothing_is_set_aside_does_not_pass_the_first(strategy: str) -> None:
    """Also if the first lacks only what is set aside for another group, and the unit of that group asks for as much."""
    queues = Queues(with_strategy(strategy), a_group("g", "q", 1, minResources={"cpu": 4}))
    queues.admit()
    assert queues.engine.is_inqueue("ns", "g")
    queues.apply(waits("first", 8, 1, priority=5), a_group("h", "q", 1, "Inqueue"))
    queues.apply(a_task("h0", 4, group="h", priority=1))
    assert queues.admit() == []
    assert queues.wait_reason("h0") is WaitReason.BEHIND_FIRST
    queues.apply(a_task("g0", 4, group="g"))
    assert queues.admit() == ["g0"]
    queues.engine.task_removed("u-g0")
    queues.engine.group_removed("ns", "g")
    assert queues.admit() == ["first"]


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_member_passes_a_group_that_waits_to_be_enqueued_only_with_what_is_set_aside_for_it(strategy: str) -> None:
    queues = Queues(with_strategy(strategy), on_node("old", 4), a_group("g", "q", 1, minResources={"cpu": 8}))
    queues.apply(a_task("g0", 8, group="g", priority=5), a_group("h", "q", 1, "Inqueue"), a_task("h0", 4, group="h"))
    assert queues.admit() == []
    assert queues.wait_reason("h0") is WaitReason.BEHIND_FIRST
    queues.apply(a_group("h", "q", 1, "Inqueue", minResources={"cpu": 4}))
    assert queues.admit() == ([] if strategy == "fifo" else ["h0"])
    queues.engine.task_removed("u-old")
    assert queues.admit() == (["h0"] if strategy == "fifo" else [])


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
def test_a_group_whose_pods_ask_for_more_than_its_minimum_does_not_wait_for_the_first(strategy: str) -> None:
    """The first waits for what is set aside for the group."""
    queues = Queues(with_strategy(strategy), a_group("g", "q", 1, minResources={"cpu": 4}))
    queues.admit()
    queues.apply(waits("first", 8, 1, priority=5), a_task("g0", 5, group="g"), a_task("g1", 1, group="g"))
    assert queues.admit() == ["g0"]
    assert queues.wait_reason("g1") is WaitReason.BEHIND_FIRST


@pytest.mark.parametrize("strategy", ["fifo", "backfill"])
@pytest.mark.parametrize(
    "name",
    [
        *(text for each in (RESIZED[0], RUN_TIME, WINDOW, ENQUEUE_CHECK[0]) for text in (str(each), f" {each}")),
        "set-aside cpu",
        "set-aside example.com/device",
    ],
)
def test_no_name_in_min_resources_lets_a_group_pass_the_first(strategy: str, name: str) -> None:
    queue = with_strategy(strategy, capability={"example.com/device": 4})
    device = {"example.com/device": 1}
    queues = Queues(queue, on_node("old", 6), waits("first", 8, 1, priority=5, requests=device))
    queues.apply(a_group("late", "q", 1, minResources={"cpu": 2, name: 1}), a_task("l", 2, group="late"))
    queues.apply(a_group("other", "q", 1, "Inqueue", minResources={name: 1}), a_task("o", 2, group="other"))
    assert queues.admit() == []
    assert not queues.engine.is_inqueue("ns", "late")
    assert queues.wait_reason("l") is WaitReason.BEHIND_FIRST
    assert queues.wait_reason("o") is WaitReason.BEHIND_FIRST


def test_the_longest_limit_of_a_gang_counts() -> None:
    queues = Queues(with_strategy("backfill"), runs(on_node("old", 6), 100.0, started_s=NOW_S), waits("large", 10, 0))
    for name, limit_s in (("g", 120.0), ("h", 60.0)):
        queues.apply(a_group(name, "q", 2, phase="Inqueue"), runs(a_task(f"{name}0", group=name), 50.0))
        queues.apply(runs(a_task(f"{name}1", group=name), limit_s))
    queues.apply(msgspec.structs.replace(waits("large", 10, 0), priority=1))
    assert queues.admit() == ["h0", "h1"]


# The plugin sla.


def test_a_unit_that_has_waited_for_its_time_is_protected() -> None:
    queues = Queues(a_queue("q", 10), on_node("old", 6), conf=_SLA_CONF)
    queues.apply(waits("large", 8, 0, sla_s=NOW_S + 2), waits("a", 1, 1))
    assert queues.admit() == ["a"]
    queues.apply(waits("b", 1, 2))
    assert queues.admit() == []
    assert "it would delay pod ns/large" in queues.wait_message("b")


def test_units_before_an_overdue_unit_go_first() -> None:
    queues = Queues(a_queue("q", 10), on_node("old", 6), conf=_SLA_CONF)
    queues.apply(waits("large", 8, 0, sla_s=1.0), waits("urgent", 1, 1, priority=5), waits("late", 1, 1))
    assert queues.admit() == ["urgent"]


def test_a_waiting_time_of_the_plugin_holds_for_all_and_orders_them() -> None:
    tiers = ((PluginOption(SLA, arguments={SLA_WAITING_TIME: 2_000_000.0}),), *DEFAULT_TIERS)
    queues = Queues(a_queue("q", 10), conf=SchedulerConf(DEFAULT_ACTIONS, tiers))
    queues.apply(waits("a", 1, 1), waits("b", 1, 2), waits("c", 1, 3, sla_s=1.0))
    assert queues.admit() == ["c", "a", "b"]


def test_the_annotations_of_a_group_are_read() -> None:
    group = a_group("g", "q", 1, minResources={"cpu": 8})
    group["metadata"]["annotations"] = {"sla-waiting-time": "1h"}
    queues = Queues(a_queue("q", 10), on_node("old", 6), group, a_task("g0", 8, group="g"), conf=_SLA_CONF)
    queues.apply(waits("small", 1))
    assert queues.admit() == []
    assert "PodGroup ns/g" in queues.wait_message("small")


def test_without_the_plugin_a_waiting_time_has_no_effect() -> None:
    queues = Queues(a_queue("q", 10), on_node("old", 6), waits("large", 8, 0, sla_s=1.0), waits("small", 1))
    assert queues.admit() == ["small"]
