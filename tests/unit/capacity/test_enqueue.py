"""Enqueueing of groups: bare pods leave capacity for enqueued groups; the queue must admit pods."""

from __future__ import annotations

from typing import Any

import pytest

from capacity_builders import Queues, a_group, a_queue, a_task
from headgate.capacity.conf import ALLOCATE, SchedulerConf
from headgate.capacity.engine import WaitReason
from status_reporting import Cluster

ENQUEUED_GROUP = a_group("g", "q", minimum=2, minResources={"cpu": 2})


def test_a_bare_pod_does_not_use_capacity_of_an_enqueued_group() -> None:
    queues = Queues(a_queue("q", cpu=3), ENQUEUED_GROUP, a_task("member", group="g"))
    assert queues.admit() == []
    assert queues.engine.is_inqueue("ns", "g")
    queues.apply(a_task("large", "2", queue="q"), a_task("small", queue="q", created_s=1))
    assert queues.admit() == ["small"]
    assert queues.wait_reason("large") is WaitReason.FULL
    assert queues.wait_message("large") == (
        "queue q has no capacity for 2 cpu: 3 of 3 are in use, promised or set aside for groups"
    )
    queues.apply(a_task("other", group="g"))
    assert sorted(queues.admit()) == ["member", "other"]


def test_capacity_of_an_enqueued_group_counts_in_ancestors() -> None:
    queues = Queues(a_queue("team", cpu=3), a_queue("q", parent="team"), a_queue("r", parent="team"), ENQUEUED_GROUP)
    assert queues.admit() == []
    queues.apply(a_task("bare", "2", queue="r"), a_task("best-effort", None, queue="r"))
    assert queues.admit() == ["best-effort"]
    queues.engine.group_removed("ns", "g")
    assert queues.admit() == ["bare"]


def test_without_the_enqueue_action_no_capacity_is_kept_for_groups() -> None:
    queues = Queues(a_queue("q", cpu=3), ENQUEUED_GROUP, conf=SchedulerConf(actions=(ALLOCATE,)))
    queues.apply(a_task("bare", "3", queue="q"))
    assert queues.admit() == ["bare"]


def test_bare_pods_of_queues_that_share_a_limit_are_granted_alternately() -> None:
    queues = Queues(a_queue("team", cpu=4), *(a_queue(name, parent="team", deserved={"cpu": 2}) for name in "ab"))
    queues.apply(*(a_task(f"{name}{number}", queue=name) for name in "ab" for number in range(4)))
    assert sorted(queues.admit()) == ["a0", "a1", "b0", "b1"]


REFUSING_QUEUES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "missing": ([], "QueueNotFound"),
    "closed": ([a_queue("q", state="Closed")], "QueueClosed"),
    "not a leaf": ([a_queue("q"), a_queue("below", parent="q")], "QueueNotLeaf"),
    "invalid": ([a_queue("q", parent="missing")], "QueueInvalid"),
}


@pytest.mark.parametrize("case", REFUSING_QUEUES)
def test_a_group_is_not_enqueued_in_a_queue_that_admits_nothing(case: str) -> None:
    queues = Queues(*REFUSING_QUEUES[case][0], a_group("g", "q", minimum=1), a_task("p", group="g"))
    assert queues.admit() == []
    assert not queues.engine.is_inqueue("ns", "g")
    refusal = queues.engine.refusal("q")
    assert refusal is not None
    assert refusal.why.value == REFUSING_QUEUES[case][1]


def test_a_group_in_a_missing_queue_is_pending_until_the_queue_is_created() -> None:
    cluster = Cluster()
    for name in ("root", "default"):
        cluster.queue(name)
    cluster.group("g", queue="later", minMember=1)
    cluster.pod("p", group="g")
    cluster.synced()
    cluster.run(5)
    assert cluster.status("g")["phase"] == "Pending"
    (condition,) = cluster.status("g")["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Scheduled", "False", "QueueNotFound")
    assert condition["message"] == "queue later does not exist"
    cluster.queue("later")
    cluster.run(5)
    assert cluster.status("g")["phase"] == "Inqueue"
    assert "QueueNotFound" not in str(cluster.status("g")["conditions"])


def test_an_enqueued_group_stays_enqueued_when_its_queue_is_deleted() -> None:
    cluster = Cluster()
    for name in ("root", "default", "q"):
        cluster.queue(name)
    cluster.group("g", queue="q", minMember=1)
    cluster.pod("p", group="g")
    cluster.synced()
    cluster.run(5)
    cluster.remove_queue("q")
    cluster.run(5)
    assert cluster.status("g")["phase"] == "Inqueue"
