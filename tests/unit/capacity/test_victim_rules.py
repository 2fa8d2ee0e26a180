"""Eligible victims: cases of preempt (inside a queue) and reclaim (between queues), as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, amounts
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS, PluginOption, SchedulerConf
from headgate.capacity.preemption.victim_rules import VictimCandidate

RECLAIM = msgspec.structs.replace(DEFAULTS, actions=("allocate", "reclaim"))
GANGS_COUNT = SchedulerConf(
    ("allocate", "preempt", "reclaim"), ((PluginOption("gang"), PluginOption("conformance"), PluginOption("capacity")),)
)


def running(name: str, queue: str = "", cpu: str | int | None = "1", **fields: Any) -> TaskInfo:
    return a_task(name, cpu, queue=queue, node_name="n", gates=(), **fields)


def victims(
    name: str,
    *objects: Any,
    conf: SchedulerConf = DEFAULTS,
    namespaces: Mapping[str, str] | None = None,
    protected: tuple[str, ...] = (),
) -> list[str]:
    """The eligible victims if all running pods were on one node."""
    candidates = [
        VictimCandidate(each.uid, (namespaces or {}).get(each.name, "ns"), each.priority, each.name not in protected)
        for each in objects
        if isinstance(each, TaskInfo) and each.node_name
    ]
    queues = Queues(*objects, conf=conf)
    return [uid.removeprefix("u-") for uid in queues.engine.victim_candidates(f"u-{name}", candidates)]


def test_preempt_takes_pods_of_lower_priority_from_the_same_queue_only() -> None:
    objects = (
        a_queue("q"),
        a_queue("other"),
        running("low", "q", priority=1),
        running("even", "q", priority=5),
        running("elsewhere", "other", priority=1),
        a_task("p", queue="q", priority=5),
    )
    assert victims("p", *objects) == ["low"]
    assert victims("p", *objects, protected=("low",)) == []


def test_without_the_action_there_are_no_victims() -> None:
    conf = msgspec.structs.replace(DEFAULTS, actions=("allocate",))
    objects = (a_queue("q"), running("low", "q"), a_task("p", queue="q", priority=5))
    assert victims("p", *objects, conf=conf) == []


def test_conformance_protects_system_pods() -> None:
    objects = (
        a_queue("q"),
        running("dns", "q"),
        running("critical", "q", priority=2_000_000_000),
        running("plain", "q"),
        a_task("p", queue="q", priority=2_000_000_001),
    )
    inside = {"dns": "kube-system"}
    assert victims("p", *objects, namespaces=inside) == ["plain"]
    plain = SchedulerConf(("preempt",), ((PluginOption("priority"),),))
    assert victims("p", *objects, namespaces=inside, conf=plain) == ["dns", "critical", "plain"]


def test_gang_protects_the_minimum_if_it_is_enabled() -> None:
    members = [running(f"g-{i}", group="g") for i in range(3)]
    objects = (a_queue("q"), a_group("g", "q", 2), *members, a_task("p", queue="q", priority=5))
    assert len(victims("p", *objects, conf=GANGS_COUNT)) == 1
    assert len(victims("p", *objects)) == 3, "by default it has none"


def test_members_of_one_gang_do_not_preempt_each_other() -> None:
    objects = (a_queue("q"), a_group("g", "q", 1), running("low", group="g"), a_task("p", group="g", priority=5))
    assert victims("p", *objects) == []


GPU = "nvidia.com/gpu"
TWO_EACH = (a_queue("rich", deserved={"cpu": 2}), a_queue("poor", deserved={"cpu": 2}))

CASES: Mapping[str, tuple[tuple[Any, ...], list[str]]] = {
    "a queue that has too much gives back as much as it has too much": (
        (*TWO_EACH, *(running(f"r{i}", "rich") for i in range(4)), a_task("p", queue="poor")),
        ["r0", "r1"],
    ),
    "the least important go first": (
        (
            *TWO_EACH,
            *(running(f"r{i}", "rich", priority=i) for i in (3, 1, 2)),
            a_task("p", queue="poor", priority=0),
        ),
        ["r1"],
    ),
    "a queue within what it deserves gives nothing": (
        (*TWO_EACH, *(running(f"r{i}", "rich") for i in range(2)), a_task("p", queue="poor")),
        [],
    ),
    "a queue that has all it deserves takes nothing back": (
        (
            *TWO_EACH,
            *(running(f"r{i}", "rich") for i in range(4)),
            *(running(f"p{i}", "poor") for i in range(2)),
            a_task("p", queue="poor"),
        ),
        [],
    ),
    "within what it deserves on one dimension that is asked for is enough": (
        (
            a_queue("rich", deserved={"cpu": 1}),
            a_queue("poor", deserved={"cpu": 2, "memory": "1Gi"}),
            *(running(f"r{i}", "rich", requests={"memory": "1Gi"}) for i in range(2)),
            running("p0", "poor", None, requests={"memory": "1Gi"}),
            a_task("p", queue="poor", requests={"memory": "1Gi"}),
        ),
        ["r0"],
    ),
    "a queue that may not be taken from is left alone": (
        (
            a_queue("rich", deserved={"cpu": 1}, reclaimable=False),
            a_queue("poor", deserved={"cpu": 2}),
            *(running(f"r{i}", "rich") for i in range(4)),
            a_task("p", queue="poor"),
        ),
        [],
    ),
    "what is guaranteed is not taken": (
        (
            a_queue("rich", deserved={"cpu": 3}, guarantee={"cpu": 3}),
            a_queue("poor", deserved={"cpu": 4}),
            *(running(f"r{i}", "rich") for i in range(4)),
            a_task("p", queue="poor"),
        ),
        ["r0"],
    ),
    "a queue that deserves nothing of what its pods have gives them all": (
        (
            a_queue("rich"),
            a_queue("poor", deserved={"cpu": 4}),
            *(running(f"r{i}", "rich") for i in range(2)),
            a_task("p", queue="poor"),
        ),
        ["r0", "r1"],
    ),
    "whoever asks for devices takes only from those that have some": (
        (
            a_queue("rich", deserved={"cpu": 1, GPU: 1}),
            a_queue("poor", deserved={"cpu": 9, GPU: 2}),
            running("cpu-only", "rich", 4),
            running("gpu-0", "rich", requests=amounts(gpu=1)),
            running("gpu-1", "rich", requests=amounts(gpu=1)),
            a_task("p", queue="poor", requests=amounts(gpu=1)),
        ),
        ["gpu-0"],
    ),
    "whoever asks for devices alone takes them back, however little of the rest it may have": (
        (
            a_queue("rich", deserved={"cpu": 1, GPU: 1}),
            a_queue("poor", deserved={"cpu": 1, GPU: 2}),
            running("gpu-0", "rich", requests=amounts(gpu=1)),
            running("gpu-1", "rich", requests=amounts(gpu=1)),
            running("poor-0", "poor", 4),
            a_task("p", None, queue="poor", requests=amounts(gpu=1)),
        ),
        ["gpu-0"],
    ),
    "from a queue without devices there are none to be had": (
        (
            a_queue("rich", deserved={"cpu": 1}),
            a_queue("poor", deserved={GPU: 2}),
            *(running(f"r{i}", "rich") for i in range(4)),
            a_task("p", None, queue="poor", requests=amounts(gpu=1)),
        ),
        [],
    ),
    "nor from a queue that has no more devices than it deserves, whatever else it has": (
        (
            a_queue("rich", deserved={"cpu": 1, GPU: 4}),
            a_queue("poor", deserved={"cpu": 9, GPU: 2}),
            running("gpu-0", "rich", 4, requests=amounts(gpu=1)),
            a_task("p", queue="poor", requests=amounts(gpu=1)),
        ),
        [],
    ),
}


@pytest.mark.parametrize(("objects", "expected"), CASES.values(), ids=CASES)
def test_reclaim_takes_what_other_queues_use_above_their_deserved_amount(
    objects: tuple[Any, ...], expected: list[str]
) -> None:
    assert victims("p", *objects, conf=RECLAIM) == expected


def test_an_ancestor_within_the_reclaim_level_may_reclaim_for_a_queue() -> None:
    objects = (
        a_queue("a", deserved={"cpu": 4}),
        a_queue("a1", parent="a", deserved={"cpu": 1}),
        a_queue("b", deserved={"cpu": 1}),
        running("a1-0", "a1"),
        *(running(f"b{i}", "b") for i in range(3)),
        a_task("p", queue="a1"),
    )
    assert victims("p", *objects, conf=RECLAIM) == []
    near = SchedulerConf(
        ("reclaim",), ((PluginOption("capacity", arguments={"ancestorReclaimLevel": 1}), PluginOption("conformance")),)
    )
    assert victims("p", *objects, conf=near) == ["b0", "b1"]


def reclaiming(level: int) -> SchedulerConf:
    capacity = PluginOption("capacity", arguments={"ancestorReclaimLevel": level})
    return SchedulerConf(("reclaim",), ((capacity, PluginOption("conformance")),))


@pytest.mark.parametrize("level", [0, 1, 2, 5])
def test_a_reclaim_level_above_the_root_changes_nothing_between_queues_at_the_top(level: int) -> None:
    objects = (*TWO_EACH, *(running(f"r{i}", "rich") for i in range(4)), a_task("p", queue="poor"))
    assert victims("p", *objects, conf=reclaiming(level)) == ["r0", "r1"]


@pytest.mark.parametrize("level", [1, 2, 5])
def test_the_root_need_not_be_over_what_it_deserves_if_the_paths_to_it_differ_in_length(level: int) -> None:
    objects = (
        a_queue("root", deserved={"cpu": 9}),
        a_queue("a", deserved={"cpu": 4}),
        a_queue("a1", parent="a", deserved={"cpu": 2}),
        a_queue("b", deserved={"cpu": 1}),
        *(running(f"b{i}", "b") for i in range(3)),
        a_task("p", queue="a1"),
    )
    assert victims("p", *objects, conf=reclaiming(level)) == ["b0", "b1"]


@pytest.mark.parametrize("level", [0, 1, 2, 5])
def test_a_parent_of_both_queues_need_not_be_over_what_it_deserves(level: int) -> None:
    objects = (
        a_queue("top", deserved={"cpu": 9}),
        a_queue("rich", parent="top", deserved={"cpu": 1}),
        a_queue("poor", parent="top", deserved={"cpu": 2}),
        *(running(f"r{i}", "rich") for i in range(3)),
        a_task("p", queue="poor"),
    )
    assert victims("p", *objects, conf=reclaiming(level)) == ["r0", "r1"]


@pytest.mark.parametrize(("level", "expected"), [(0, ["r0", "r1"]), (1, []), (2, []), (5, [])])
def test_a_branch_without_the_claimant_is_not_reclaimed_below_its_deserved_amount(
    level: int, expected: list[str]
) -> None:
    objects = (
        a_queue("near", deserved={"cpu": 9}),
        a_queue("rich", parent="near", deserved={"cpu": 1}),
        a_queue("far", deserved={"cpu": 9}),
        a_queue("poor", parent="far", deserved={"cpu": 2}),
        *(running(f"r{i}", "rich") for i in range(3)),
        a_task("p", queue="poor"),
    )
    assert victims("p", *objects, conf=reclaiming(level)) == expected


def test_a_claimant_near_the_root_reclaims_only_from_branches_above_deserved_on_every_level() -> None:
    def objects(middle: int) -> tuple[Any, ...]:
        return (
            a_queue("top", deserved={"cpu": 1}),
            a_queue("middle", parent="top", deserved={"cpu": middle}),
            a_queue("rich", parent="middle", deserved={"cpu": 1}),
            a_queue("poor", deserved={"cpu": 2}),
            *(running(f"r{i}", "rich") for i in range(3)),
            a_task("p", queue="poor"),
        )

    assert victims("p", *objects(middle=1), conf=reclaiming(2)) == ["r0", "r1"]
    assert victims("p", *objects(middle=3), conf=reclaiming(2)) == []
