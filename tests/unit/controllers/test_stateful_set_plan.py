"""The plan of a StatefulSet as a table of small cases, and steps that are not repeated."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import Create, Effect, EffectResponse, ParallelRequests
from headgate.controllers.stateful_sets.controller import StatefulSetController
from headgate.controllers.stateful_sets.plan import (
    PlanStep,
    ProvideClaims,
    RepairPod,
    StartPod,
    StatefulSetPod,
    StatefulSetRules,
    StopPod,
    plan_pods,
    uses_current_revision,
)
from headgate.controllers.stateful_sets.status import status_of
from headgate.kube.api_resources import PODS as POD_RESOURCE
from unit.controllers.world import World

Object = dict[str, Any]
SETS = "/apis/apps/v1/namespaces/a/statefulsets"
LABELS = {"app": "db"}
STATES = {
    # phase, ready, available, leaving
    "up": ("Running", True, True, False),
    "fresh": ("Running", True, False, False),
    "unready": ("Running", False, False, False),
    "pending": ("Pending", False, False, False),
    "failed": ("Failed", False, False, False),
    "leaving": ("Running", True, True, True),
    "ended": ("Succeeded", False, False, True),
}


def members(text: str) -> list[StatefulSetPod]:
    """``0=up 1=old:unready``: ordinals, whether they are old, and how they are."""
    found = []
    for each in text.split():
        ordinal, _, state = each.partition("=")
        age, _, how = state.rpartition(":")
        found.append(StatefulSetPod(int(ordinal), {}, age or "new", *STATES[how]))
    return found


def short(step: PlanStep) -> str:
    match step:
        case StartPod(ordinal):
            return f"start {ordinal}"
        case StopPod(member):
            return f"end {member.ordinal}"
        case ProvideClaims(member):
            return f"provide {member.ordinal}"
        case RepairPod(member):
            return f"mend {member.ordinal}"


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("", ["start 0"]),
        ("0=up", ["start 1"]),
        ("0=up 2=up", ["start 1"]),
        ("0=fresh", []),
        ("0=unready", []),
        ("0=pending", ["provide 0"]),
        ("0=leaving 1=up 2=up", []),
        ("0=failed 1=up", ["end 0"]),
        ("0=ended 1=up", []),
        ("0=up 1=up 2=up", []),
        ("0=up 1=up 2=up 3=up 4=up", ["end 4"]),
        ("0=up 1=up 2=up 3=up 4=leaving", []),
        ("0=up 1=up 2=up 3=up 4=unready", ["end 4"]),
        ("0=up 1=up 2=up 3=unready 4=unready", []),
        ("0=up 1=up 2=up 3=unready 4=up", ["end 4"]),
        ("0=up 1=unready 2=up 3=up", []),
        ("0=old:up 1=old:up 2=old:up 3=up", ["end 3"]),
        ("0=old:up 1=old:up 2=old:up", ["end 2"]),
        ("0=old:up 1=old:up 2=up", ["end 1"]),
        ("0=old:up 1=old:up 2=unready", []),
    ],
)
def test_in_order_one_thing_is_done_at_a_time(there: str, wanted: list[str]) -> None:
    stages = plan_pods(StatefulSetRules(0, 3, True, 0, 0), members(there), "new", lambda member: False)
    assert [[short(step) for step in stage] for stage in stages] == [[each] for each in wanted]


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("", [["start 0", "start 1", "start 2"]]),
        ("1=unready", [["start 0", "start 2"]]),
        ("0=failed 1=pending 2=up", [["end 0", "provide 1"]]),
        ("0=up 1=up 2=up 3=unready 4=up 5=leaving", [["end 4", "end 3"]]),
        ("0=old:up 1=old:up 2=old:up 3=up", [["end 3"], ["end 2"]]),
        ("0=old:up 1=old:up 2=unready", []),
        ("0=old:up 1=old:up 2=leaving", []),
        ("0=old:up 1=old:up 2=old:failed", [["end 2"]]),
        ("0=old:up 1=old:unready 2=up", [["end 1"]]),
        ("0=old:up 1=old:up", [["start 2"]]),
    ],
)
def test_in_parallel_only_updates_wait(there: str, wanted: list[list[str]]) -> None:
    stages = plan_pods(StatefulSetRules(0, 3, False, 0, 0), members(there), "new", lambda member: False)
    assert [[short(step) for step in stage] for stage in stages] == wanted


def test_the_partition_counts_from_the_first_ordinal() -> None:
    rules = StatefulSetRules(5, 3, True, 2, 0)
    assert [uses_current_revision(rules, ordinal) for ordinal in rules.ordinals] == [True, True, False]
    stages = plan_pods(rules, members("5=old:up 6=old:up 7=up"), "new", lambda member: False)
    assert stages == []


def test_repairs_come_before_deletions() -> None:
    stages = plan_pods(StatefulSetRules(0, 1, True, 0, 0), members("0=up 1=up"), "new", lambda member: True)
    assert [short(step) for stage in stages for step in stage] == ["mend 0", "mend 1", "end 1"]


def test_a_terminating_pod_counts_as_a_replica_but_of_no_revision() -> None:
    rules = StatefulSetRules(0, 2, True, 0, 0)
    told = status_of({"metadata": {"generation": 3}}, rules, members("0=old:up 1=old:leaving"), "old", "new", 0)
    assert (told["replicas"], told["readyReplicas"], told["currentReplicas"]) == (2, 2, 1)
    assert "updatedReplicas" not in told


@pytest.mark.parametrize(("partition", "current"), [(0, "new"), (None, "old")])
def test_only_a_rolling_update_is_ever_complete(partition: int | None, current: str) -> None:
    told = status_of({"metadata": {}}, StatefulSetRules(0, 1, True, partition, 0), members("0=up"), "old", "new", 0)
    assert told["currentRevision"] == current


class Counting(World):
    """Remembers how many pods were asked for at a time."""

    batches: list[int]

    def perform(self, effect: Effect) -> EffectResponse:
        if isinstance(effect, ParallelRequests) and isinstance(effect.requests[0], Create):
            self.batches.append(len(effect.requests))
        return super().perform(effect)


def a_world(replicas: int) -> Counting:
    world = Counting(StatefulSetController)
    world.batches = []
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template, "serviceName": "db"}
    body = {"metadata": {"name": "db"}, "spec": {**spec, "podManagementPolicy": "Parallel"}}
    assert world.server.post(SETS, body).status == 201
    return world


def test_batches_grow_while_all_requests_succeed() -> None:
    world = a_world(12)
    world.advance(0.5)
    assert world.batches == [1, 2, 4, 5]


def test_a_late_watch_starts_and_stops_no_pod_twice() -> None:
    world = a_world(3)
    for number in range(3):
        world.settle(delayed=(POD_RESOURCE,))
        world.server.patch(f"{SETS}/db", {"metadata": {"labels": {"touched": str(number)}}})
    pods = [method for method, path in world.requests if "/pods" in path]
    assert pods == ["POST"] * 3
    for number in range(3):
        world.server.patch(f"{SETS}/db", {"spec": {"replicas": 1}, "metadata": {"labels": {"again": str(number)}}})
        world.settle(delayed=(POD_RESOURCE,))
    pods = [method for method, path in world.requests if "/pods" in path]
    assert pods == ["POST"] * 3 + ["DELETE"] * 2
