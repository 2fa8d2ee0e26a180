"""Scenarios of Volcano's capacity plugin as data: which pods are granted, flat and in a tree.

Where Volcano checks nodes, the cluster is large enough here: quota belongs to the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, amounts
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.engine import QueueEngine, WaitReason


def running(name: str, queue: str, cpu: str | int | None = "1", **fields: Any) -> TaskInfo:
    return a_task(name, cpu, queue=queue, node_name="n1", gates=(), **fields)


def both(cpu: int, memory: str) -> dict[str, Any]:
    return {"capability": amounts(cpu=cpu, memory=memory)}


FLAT: Mapping[str, tuple[list[Any], list[str]]] = {
    "case0: a queue of 2 has capacity for a second pod": (
        [a_queue("q", cpu=2), running("p1", "q"), a_task("p2", queue="q")],
        ["p2"],
    ),
    "case1: a queue of 1500m has not": (
        [a_queue("q", cpu="1500m"), running("p1", "q"), a_task("p2", queue="q")],
        [],
    ),
    "EnqueueAndAllocatable case0: memory is used up, but only CPU is asked for": (
        [
            a_queue("q", **both(2, "2G")),
            running("p1", "q", "1", requests={"memory": "3G"}),
            a_group("g", "q", minResources=amounts(cpu=1)),
            a_task("p2", group="g"),
        ],
        ["p2"],
    ),
    "EnqueueAndAllocatable case1: CPU is used up, but only memory is asked for": (
        [
            a_queue("q", **both(2, "2G")),
            running("p1", "q", "3", requests={"memory": "1G"}),
            a_group("g", "q", minResources={"memory": "1G"}),
            a_task("p2", None, group="g", requests={"memory": "1G"}),
        ],
        ["p2"],
    ),
    "EnqueueAndAllocatable case2: both are asked for": (
        [
            a_queue("q", **both(2, "2G")),
            running("p1", "q", "3", requests={"memory": "1G"}),
            a_group("g", "q", minResources={"cpu": 1, "memory": "1G"}),
            a_task("p2", group="g", requests={"memory": "1G"}),
        ],
        [],
    ),
    "EnqueueAndAllocatable case4: the queue is closed": (
        [a_queue("q", cpu=9, state="Closed"), a_group("g", "q", minResources=amounts(cpu=1)), a_task("p", group="g")],
        [],
    ),
    "a group that is not let in takes nothing from the next one": (
        [
            a_queue("q", cpu=2),
            a_group("large", "q", minResources=amounts(cpu=3)),
            a_task("large-0", group="large"),
            a_group("small", "q", minResources=amounts(cpu=2)),
            a_task("small-0", "2", group="small"),
        ],
        ["small-0"],
    ),
    "a group that was let in keeps its minimum free from the next one": (
        [
            a_queue("q", cpu=3),
            a_group("first", "q", minimum=2, phase="Inqueue", minResources=amounts(cpu=2)),
            a_group("second", "q", minResources=amounts(cpu=2)),
            a_task("second-0", "2", group="second"),
        ],
        [],
    ),
    "without least resources a group is let in at once": (
        [a_queue("q", cpu=1), a_group("g", "q"), a_task("p", group="g")],
        ["p"],
    ),
}

TREE = [a_queue("q1", cpu=8), a_queue("q2", cpu=8), a_queue("q11", parent="q1", cpu=4), a_queue("q12", parent="q1")]

HIERARCHY: Mapping[str, tuple[list[Any], list[str]]] = {
    "case0: a leaf takes pods": ([*TREE, a_task("p", queue="q11")], ["p"]),
    "case1: a queue with queues below it takes none": ([*TREE, a_task("p", queue="q1")], []),
    "case2: a gang of 2 x 2 in a leaf of 4": (
        [*TREE, a_group("g", "q11", minimum=2), *(a_task(f"p{number}", "2", group="g") for number in (1, 2))],
        ["p1", "p2"],
    ),
    "case4: an ancestor is short": (
        [*TREE, running("old", "q12", "7"), a_task("p", "2", queue="q11")],
        [],
    ),
    "case5: what a leaf does not limit is limited by its parent": (
        [*TREE, a_task("p1", "8", queue="q12"), a_task("p2", "1", queue="q12", created_s=1)],
        ["p1"],
    ),
    "case6: two leaves that inherit 2 CPU: one group is let in, the other waits": (
        [
            a_queue("q6", **both(2, "4Gi")),
            a_queue("q61", parent="q6"),
            a_queue("q62", parent="q6"),
            a_group("pg10", "q61", minResources={"cpu": 2, "memory": "4Gi"}),
            a_group("pg11", "q62", minResources={"cpu": 2, "memory": "4Gi"}),
            a_task("p10", "2", group="pg10", requests={"memory": "4Gi"}),
            a_task("p11", "2", group="pg11", requests={"memory": "4Gi"}),
        ],
        ["p10"],
    ),
    "case7: children are guaranteed more than their parent has": (
        [
            a_queue("q7", cpu=2),
            a_queue("q71", parent="q7", guarantee=amounts(cpu=2)),
            a_queue("q72", parent="q7", guarantee=amounts(cpu=2)),
            a_task("p1", "2", queue="q71"),
            a_task("p2", "1", queue="q72"),
        ],
        ["p1"],
    ),
    "case8: devices are deserved": (
        [a_queue("q8", deserved=amounts(gpu=4)), a_task("p", queue="q8", requests=amounts(gpu=2))],
        ["p"],
    ),
    "case9: no device is deserved": (
        [a_queue("q9", deserved=amounts(gpu=0)), a_task("p", queue="q9", requests=amounts(gpu=2))],
        ["p"],
    ),
    "case10: the root may use more than any cluster has": (
        [a_queue("root", cpu="100M"), a_queue("q10"), a_task("p", queue="q10")],
        ["p"],
    ),
    "case11: devices are limited by the parent": (
        [
            a_queue("q11p", capability=amounts(gpu=1)),
            a_queue("q111", parent="q11p"),
            a_task("p1", queue="q111", requests=amounts(gpu=1)),
            a_task("p2", queue="q111", requests=amounts(gpu=1)),
        ],
        ["p1"],
    ),
}


@pytest.mark.parametrize(("objects", "granted"), FLAT.values(), ids=FLAT)
def test_flat_queues(objects: list[Any], granted: list[str]) -> None:
    assert Queues(*objects).admit() == granted


@pytest.mark.parametrize(("objects", "granted"), HIERARCHY.values(), ids=HIERARCHY)
def test_queues_in_a_tree(objects: list[Any], granted: list[str]) -> None:
    assert Queues(*objects).admit() == granted


def test_phases_of_case6() -> None:
    objects, _ = HIERARCHY["case6: two leaves that inherit 2 CPU: one group is let in, the other waits"]
    queues = Queues(*objects)
    queues.admit()
    assert [queues.engine.is_inqueue("ns", name) for name in ("pg10", "pg11")] == [True, False]
    assert queues.wait_reason("p11") is WaitReason.NOT_INQUEUE


def test_the_root_need_not_exist_nil_safety() -> None:
    queues = Queues(a_queue("q", cpu=1), a_task("p", queue="q"))
    queues.engine.queue_removed("root")
    assert queues.admit() == ["p"]


def test_a_job_in_a_deleted_queue_is_not_granted_anything_nil_safety() -> None:
    queues = Queues(a_queue("q", cpu=1), a_task("p", queue="q"), running("old", "q"))
    queues.engine.queue_removed("q")
    assert queues.admit() == []
    assert queues.wait_reason("p") is WaitReason.NO_QUEUE
    assert queues.usage("q") == (1000, 0)
    assert queues.usage("root") == (0, 0)
    queues.apply(a_queue("q", cpu=2))
    assert queues.usage("root") == (1000, 0)
    assert queues.admit() == ["p"]


def test_ten_thousand_queues_are_handled() -> None:
    queues = QueueEngine()
    for number in range(10_000):
        queues.queue_applied(a_queue(f"q{number}", cpu=1))
        if number % 1000 == 0:
            queues.task_applied(a_task(f"p{number}", queue=f"q{number}"))
            assert len(queues.admit(float(number), 10)) == 1
    assert queues.usage("root").reserved == {"cpu": 10_000}
