"""Order: queues by priority and share, jobs by priority, completeness and share, pods by priority and age."""

from __future__ import annotations

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, amounts, in_units
from headgate.capacity.cache.ledger import LedgerColumn, QueueAccount
from headgate.capacity.conf import DEFAULTS, PluginOption
from headgate.capacity.engine import QueueEngine
from headgate.capacity.ordering.order_keys import dominant_share, share_of


def an_account(allocated: dict[str, str | int], reserved: dict[str, str | int] | None = None) -> QueueAccount:
    account = QueueAccount()
    account.total[LedgerColumn.ALLOCATED].update(in_units(allocated))
    account.total[LedgerColumn.RESERVED].update(in_units(reserved or {}))
    return account


@pytest.mark.parametrize(
    ("deserved", "allocated", "share"),
    [
        ({}, {}, 1.0),
        ({}, {"cpu": 4, "memory": "8Gi"}, 1.0),
        ({"cpu": 0, "memory": 0}, {}, 1.0),
        ({"cpu": 0, "memory": 0}, {"cpu": 1}, 1.0),
        ({"cpu": 4}, {}, 0.0),
        ({"cpu": 4}, {"cpu": 2}, 0.5),
        ({"cpu": 4}, {"cpu": 4}, 1.0),
        ({"cpu": 4}, {"cpu": 6}, 1.5),
        ({"cpu": 4}, {"memory": "64Gi"}, 0.0),
        ({"cpu": 4, "memory": "8Gi"}, {"cpu": 2, "memory": "2Gi"}, 0.5),
        ({"cpu": 4, "memory": "8Gi"}, {"cpu": 1, "memory": "6Gi"}, 0.75),
        ({"cpu": 4, "memory": "8Gi"}, {"cpu": 8, "memory": "4Gi"}, 2.0),
        (amounts(gpu=4), amounts(gpu=1), 0.25),
        (amounts(cpu=4, gpu=4), amounts(cpu=1, gpu=4), 1.0),
        (amounts(cpu=4, gpu=0), amounts(cpu=1), 0.25),
        (amounts(cpu=4, gpu=0), amounts(cpu=1, gpu=1), 1.0),
        ({"cpu": "500m"}, {"cpu": "250m"}, 0.5),
    ],
)
def test_the_share_of_a_queue_is_the_largest_of_its_dimensions(
    deserved: dict[str, str | int], allocated: dict[str, str | int], share: float
) -> None:
    """updateQueueAttrShare, 17 cases."""
    assert share_of(in_units(deserved), an_account(allocated).allocated_plus_reserved) == share


def test_promised_amounts_count_in_the_share() -> None:
    assert share_of({"cpu": 4000}, an_account({"cpu": 1}, {"cpu": 1}).allocated_plus_reserved) == 0.5


def test_the_share_of_a_job_uses_the_limits_of_its_queue_or_reference_amounts() -> None:
    assert dominant_share({"cpu": 1000, "memory": 1 << 30}, {"cpu": 4000}) == 0.25
    assert dominant_share({"cpu": 1000, "memory": 8 << 30}, {}) == 2.0
    assert dominant_share({}, {"cpu": 0}) == 0.0


def test_queues_alternate_by_share() -> None:
    pods = [a_task(f"{queue}{number}", queue=queue) for queue in "ab" for number in range(3)]
    queues = Queues(a_queue("a", deserved=amounts(cpu=1)), a_queue("b", deserved=amounts(cpu=2)), *pods)
    assert queues.admit() == ["a0", "b0", "b1", "a1", "b2", "a2"]


def test_a_queue_of_higher_priority_is_first_and_its_too_large_pod_blocks_no_other() -> None:
    """case4, and allocate_test's too-large pod."""
    queues = Queues(a_queue("high", cpu=2, priority=10), a_queue("mid", priority=5), a_queue("low", priority=1))
    queues.apply(a_queue("root", cpu=3))
    queues.apply(a_task("too-large", "3", queue="high"), a_task("h", queue="high", created_s=9))
    queues.apply(*(a_task(name, queue=queue) for name, queue in (("l", "low"), ("m", "mid"), ("m2", "mid"))))
    assert queues.admit() == ["h", "m", "m2"]


def test_a_queue_with_deserved_amounts_comes_before_one_without() -> None:
    queues = Queues(a_queue("a"), a_queue("b", deserved=amounts(cpu=1)))
    queues.apply(a_task("in-a", queue="a"), a_task("full-b", queue="b", node_name="n1"), a_task("in-b", queue="b"))
    assert queues.engine.usage("b").share == 1.0
    assert queues.admit() == ["in-b", "in-a"]


def test_branches_are_compared_below_their_common_ancestor() -> None:
    """a1 has the least share of all leaves, but its branch uses a larger share of its deserved amount than the
    other."""
    queues = Queues(
        a_queue("a", deserved=amounts(cpu=4)),
        a_queue("a1", parent="a", deserved=amounts(cpu=2)),
        a_queue("a2", parent="a", deserved=amounts(cpu=2)),
        a_queue("b", deserved=amounts(cpu=4)),
        a_queue("b1", parent="b", deserved=amounts(cpu=2)),
    )
    queues.apply(a_task("old-a2", "3", queue="a2", node_name="n1"), a_task("old-b1", "1", queue="b1", node_name="n1"))
    queues.apply(a_task("in-a1", queue="a1"), a_task("in-b1", "2", queue="b1"))
    assert queues.admit() == ["in-b1", "in-a1"]


def test_queues_that_use_nothing_are_ordered_by_age_then_by_name() -> None:
    queues = Queues(a_queue("c", created_s=5), a_queue("b", created_s=9), a_queue("a", created_s=9))
    queues.apply(*(a_task(f"in-{name}", queue=name) for name in "abc"))
    assert queues.admit() == ["in-c", "in-a", "in-b"]


@pytest.mark.parametrize("limit", [None, 8])
def test_queues_without_deserved_amounts_take_turns_by_what_they_use(limit: int | None) -> None:
    pods = [a_task(f"{queue}{number}", queue=queue) for queue in "ab" for number in range(3)]
    pods.append(a_task("a-large", "2", queue="a", priority=1))
    queues = Queues(a_queue("root", limit), a_queue("a"), a_queue("b", created_s=9), *pods)
    assert queues.admit() == ["a-large", "b0", "b1", "a0", "b2", "a1", "a2"]


def test_the_oldest_queue_does_not_get_all_capacity_that_becomes_free() -> None:
    queues = Queues(a_queue("root", 2), a_queue("blue"), a_queue("red"))
    queues.apply(*(a_task(f"blue{number:02}", queue="blue") for number in range(16)))
    assert queues.admit() == ["blue00", "blue01"]
    queues.apply(a_task("in-red", queue="red"))
    queues.engine.task_removed("u-blue00")
    assert queues.admit() == ["in-red"]


def test_queues_with_equal_shares_take_turns_when_pods_ask_for_no_deserved_resource() -> None:
    pods = [a_task(f"{queue}{number}", None, queue=queue, requests=amounts(gpu=1)) for queue in "ab" for number in "01"]
    queues = Queues(a_queue("a", deserved=amounts(cpu=1)), a_queue("b", deserved=amounts(cpu=1)), *pods)
    assert queues.admit() == ["a0", "b0", "a1", "b1"]


def test_queues_with_an_equal_use_per_weight_take_turns_by_use() -> None:
    conf = msgspec.structs.replace(DEFAULTS, tiers=((PluginOption("proportion"),),))
    queues = Queues(a_queue("a", weight=2), a_queue("b", weight=1), conf=conf)
    queues.apply(a_task("old-a", "2", queue="a", node_name="n1"), a_task("old-b", queue="b", node_name="n1"))
    queues.apply(a_task("in-a", queue="a"), a_task("in-b", queue="b"))
    assert queues.admit() == ["in-b", "in-a"]


def test_granted_pods_of_queues_without_deserved_amounts_are_tried_in_turns() -> None:
    queues = Queues(a_queue("a"), a_queue("b"))
    granted_pods = queues.engine.new_granted_pod_queue()
    queues.apply(*(a_task(f"{queue}{number}", queue=queue) for queue in "ab" for number in range(2)))
    for name in queues.admit():
        granted_pods.put(f"u-{name}")
    tried = []
    while (uid := granted_pods.pop()) is not None:
        tried.append(uid)
        queues.engine.placed(uid)
    assert tried == ["u-a0", "u-b0", "u-a1", "u-b1"]


def test_jobs_are_ordered_by_priority_then_age_then_name() -> None:
    queues = Queues(a_queue("default"))
    queues.apply(a_task("c", created_s=1), a_task("b", created_s=2), a_task("a", created_s=2), a_task("z", priority=1))
    assert queues.admit() == ["z", "c", "a", "b"]


def test_an_incomplete_gang_comes_before_a_complete_one_and_a_smaller_share_before_a_larger() -> None:
    queues = Queues(a_queue("q"), *(a_group(name, "q") for name in "abc"))
    queues.apply(a_task("a0", group="a", node_name="n1"), a_task("b0", "2", group="b", node_name="n1"))
    queues.apply(*(a_task(f"{name}1", group=name) for name in "abc"))
    assert queues.admit() == ["c1", "a1", "b1"]


def test_the_share_of_a_job_is_updated_after_each_grant() -> None:
    """FairShare: two jobs of many pods take turns."""
    queues = Queues(a_queue("q"), a_group("a", "q"), a_group("b", "q"))
    queues.apply(*(a_task(f"{name}{number}", group=name) for name in "ab" for number in range(3)))
    assert queues.admit() == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_job_without_waiting_pods_blocks_no_other() -> None:
    queues = Queues(a_queue("q"), a_group("a", "q", minimum=3), a_group("b", "q"), a_task("b0", group="b"))
    assert queues.admit() == ["b0"]


def test_plugins_that_are_not_configured_have_no_effect() -> None:
    plain = msgspec.structs.replace(DEFAULTS, tiers=((PluginOption("capacity"),),))
    queues = Queues(a_queue("default", cpu=9), a_task("a", created_s=1, priority=9), a_task("b"), conf=plain)
    assert queues.admit() == ["b", "a"]
    without = msgspec.structs.replace(DEFAULTS, tiers=((PluginOption("priority"),),))
    queues = Queues(a_queue("default", cpu=1), a_task("a"), a_task("b", priority=1), conf=without)
    assert queues.admit() == ["b", "a"]


def pop_all(queues: Queues, *pods: str) -> list[str]:
    granted_pods = queues.engine.new_granted_pod_queue()
    for name in pods:
        granted_pods.put(f"u-{name}")
    found = []
    while (uid := granted_pods.pop()) is not None:
        queues.engine.placed(uid)
        found.append(uid.removeprefix("u-"))
    return found


def test_granted_pods_are_popped_in_the_current_order() -> None:
    """What is placed moves its queue back at once."""
    queues = Queues(a_queue("a", deserved=amounts(cpu=4)), a_queue("b", deserved=amounts(cpu=4)))
    pods = [a_task(f"{queue}{number}", queue=queue) for queue in "ab" for number in range(3)]
    queues.apply(*pods, a_task("late", queue="b", priority=5))
    queues.admit()
    assert pop_all(queues, *(task.name for task in pods), "late") == ["a0", "late", "a1", "b0", "a2", "b1", "b2"]


def test_granted_pods_of_two_jobs_alternate() -> None:
    queues = Queues(a_queue("q"), a_group("a", "q"), a_group("b", "q"))
    pods = [a_task(f"{name}{number}", group=name) for name in "ab" for number in range(3)]
    queues.apply(*pods)
    queues.admit()
    assert pop_all(queues, *(task.name for task in pods)) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_granted_pods_of_a_group_keep_their_order_and_can_be_discarded() -> None:
    queues = Queues(a_queue("q"), a_group("g", "q", minimum=2))
    queues.apply(a_task("g0", group="g", created_s=3), a_task("g1", group="g"), a_task("g2", group="g", priority=2))
    queues.admit()
    granted_pods = queues.engine.new_granted_pod_queue()
    for name in ("g0", "g1", "g2"):
        granted_pods.put(f"u-{name}")
    granted_pods.discard("u-g1")
    assert (granted_pods.pop(), granted_pods.pop(), granted_pods.pop(), len(granted_pods)) == ("u-g2", "u-g0", None, 0)


def test_granted_pods_of_a_deleted_queue_are_popped_and_deleted_pods_are_not() -> None:
    queues = Queues(a_queue("q"), a_task("p1", queue="q"), a_task("p2", queue="q"))
    queues.admit()
    granted_pods = queues.engine.new_granted_pod_queue()
    granted_pods.put("u-p1")
    granted_pods.put("u-p2")
    granted_pods.put("nobody")
    queues.engine.queue_removed("q")
    queues.engine.task_removed("u-p1")
    assert (granted_pods.pop(), granted_pods.pop()) == ("u-p2", None)


def test_the_same_events_in_the_same_order_give_the_same_plan() -> None:
    plans = []
    for _ in range(2):
        queues = QueueEngine()
        for number in range(20):
            queues.queue_applied(a_queue(f"q{number % 5}", cpu=3, priority=number % 2))
            queues.task_applied(a_task(f"p{number}", str(1 + number % 2), queue=f"q{number % 5}"))
        plans.append([queues.admit(1.0, 3) for _ in range(5)])
    assert plans[0] == plans[1]
