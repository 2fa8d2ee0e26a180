"""Quota with what no webhook held back: each mistake is told where its owner looks, and the others go on.

The server here has the kinds and nobody who validates them, as when a webhook is down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.controllers.framework.effects import Effect, EffectResponse, Patch
from headgate.kube import conditions
from kueue_builders import Wire, a_cluster_queue, a_cohort, a_flavor, a_local_queue, a_pod_set, a_workload
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.world import World
from unit.quota.controller.test_quota_controller import (
    API,
    KINDS,
    WORKLOADS,
    a_world,
    add,
    admitted,
    finish,
    put,
    status,
)

KINDS["cohorts"] = "Cohort"
QUEUES = f"{API}/clusterqueues"


def a_queue(world: World, name: str, *quotas: Any, **spec: Any) -> None:
    put(world, "clusterqueues", a_cluster_queue(name, *(quotas or ({"default": {"cpu": 2}},)), **spec))
    put(world, "localqueues", a_local_queue(f"of-{name}", name))


def why(world: World, name: str) -> tuple[str, str]:
    """Why a workload waits: reason and message."""
    found = conditions.find(status(world, name)["conditions"], "QuotaReserved") or {}
    assert found["status"] == "False"
    return found["reason"], found["message"]


def activity(world: World, queue: str) -> tuple[str, str]:
    found = conditions.find(world.server.get(f"{QUEUES}/{queue}").body["status"]["conditions"], "Active") or {}
    return found["reason"], found["message"]


@pytest.fixture
def world() -> CrashingWorld:
    return a_world()


def test_cohorts_in_a_cycle_stop_only_their_queues(world: CrashingWorld) -> None:
    put(world, "cohorts", a_cohort("x", "y"))
    put(world, "cohorts", a_cohort("y", "x"))
    a_queue(world, "round", cohortName="x")
    add(world, "stuck", queue="of-round")
    add(world, "free")
    world.advance(1)
    assert admitted(world) == ["free"]
    assert activity(world, "round")[0] == "CohortCycle"
    assert "x" in activity(world, "round")[1]
    assert why(world, "stuck") == ("Suspended", "ClusterQueue round is inactive")
    world.server.patch(f"{API}/cohorts/y", {"spec": {"parentName": None}})
    world.advance(1)
    assert admitted(world) == ["free", "stuck"]
    assert activity(world, "round")[0] == "Ready"


def test_a_queue_reports_a_missing_flavor_until_it_exists(world: CrashingWorld) -> None:
    a_queue(world, "poor", {"gpu-nodes": {"cpu": 2}})
    add(world, "stuck", queue="of-poor")
    add(world, "free")
    world.advance(1)
    assert admitted(world) == ["free"]
    said = "Can't admit new workloads: references missing ResourceFlavor(s): gpu-nodes."
    assert activity(world, "poor") == ("FlavorNotFound", said)
    put(world, "resourceflavors", a_flavor("gpu-nodes"))
    world.advance(1)
    assert admitted(world) == ["free", "stuck"]


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ("nowhere", ("Misconfigured", "LocalQueue nowhere doesn't exist")),
        ("dangling", ("Misconfigured", "ClusterQueue none doesn't exist")),
        ("of-closed", ("Misconfigured", "workload namespace doesn't match ClusterQueue selector")),
    ],
)
def test_a_workload_without_a_queue_reports_what_is_missing(
    world: CrashingWorld, queue: str, said: tuple[str, str]
) -> None:
    put(world, "localqueues", a_local_queue("dangling", "none"))
    a_queue(world, "closed", namespaceSelector={"matchLabels": {"team": "other"}})
    add(world, "stuck", queue=queue)
    add(world, "free")
    world.advance(1)
    assert admitted(world) == ["free"]
    assert why(world, "stuck") == said


@pytest.mark.parametrize("amount", ["100E", "-1", "9007199254740993"])
def test_a_workload_with_invalid_requests_is_inadmissible(world: CrashingWorld, amount: str) -> None:
    put(world, "workloads", a_workload("stuck", a_pod_set(requests={"cpu": amount})))
    add(world, "free")
    world.advance(1)
    assert admitted(world) == ["free"]
    assert why(world, "stuck")[0] in ("Misconfigured", "ExceedsMaxQuota")


def test_a_queue_with_negative_quota_admits_nothing_and_reports_why(world: CrashingWorld) -> None:
    a_queue(world, "odd", {"default": {"cpu": -5}})
    add(world, "stuck", queue="of-odd")
    add(world, "free")
    world.advance(1)
    assert admitted(world) == ["free"]
    assert activity(world, "odd")[0] == "Invalid"
    assert "nominalQuota" in activity(world, "odd")[1]


def test_a_quota_above_the_maximum_is_the_maximum(world: CrashingWorld) -> None:
    a_queue(world, "huge", {"default": {"cpu": 10**30}})
    add(world, "a", queue="of-huge", cpu=1000)
    world.advance(1)
    assert admitted(world) == ["a"]


def _without_quota(found: Wire) -> Wire:
    return {"admission": None}


def _elsewhere(found: Wire) -> Wire:
    return {"admission": {**found["status"]["admission"], "clusterQueue": "none"}}


def _no_pods(found: Wire) -> Wire:
    (given,) = found["status"]["admission"]["podSetAssignments"]
    return {"admission": {"clusterQueue": "cq", "podSetAssignments": [{**given, "count": 0}]}}


def _nothing_said(found: Wire) -> Wire:
    return {"conditions": []}


@pytest.mark.parametrize("edit", [_without_quota, _elsewhere, _no_pods, _nothing_said])
def test_a_manually_edited_status_affects_no_other_workload(world: CrashingWorld, edit: Callable[[Wire], Wire]) -> None:
    add(world, "edited")
    world.advance(1)
    found = world.server.get(f"{WORKLOADS}/edited").body
    world.server.patch(f"{WORKLOADS}/edited/status", {"status": edit(found)})
    world.advance(5)
    add(world, "free")
    world.advance(5)
    assert "free" in admitted(world)
    assert world.server.delete(f"{WORKLOADS}/edited").status == 200
    add(world, "next")
    world.advance(5)
    assert {"free", "next"} <= set(admitted(world)), "what it held is free"


def test_a_manual_admission_above_the_quota_blocks_others_until_it_ends(world: CrashingWorld) -> None:
    add(world, "greedy", cpu=1)
    world.advance(1)
    (given,) = status(world, "greedy")["admission"]["podSetAssignments"]
    more = {"clusterQueue": "cq", "podSetAssignments": [{**given, "resourceUsage": {"cpu": "50"}}]}
    world.server.patch(f"{WORKLOADS}/greedy/status", {"status": {"admission": more}})
    add(world, "next")
    world.advance(2)
    assert admitted(world) == ["greedy"]
    finish(world, "greedy")
    world.advance(2)
    assert "next" in admitted(world)


def test_a_recreated_queue_counts_its_admitted_workloads(world: CrashingWorld) -> None:
    add(world, "a", cpu=2)
    add(world, "waits")
    world.advance(1)
    assert admitted(world) == ["a"]
    world.server.delete(f"{QUEUES}/cq")
    world.server.patch(f"{QUEUES}/cq", {"metadata": {"finalizers": None}})
    world.advance(1)
    assert why(world, "waits") == ("Misconfigured", "ClusterQueue cq doesn't exist")
    put(world, "clusterqueues", a_cluster_queue("cq", {"default": {"cpu": 2}}))
    world.advance(1)
    assert admitted(world) == ["a"], "it holds what it held"
    finish(world, "a")
    world.advance(1)
    assert admitted(world) == ["a", "waits"]


@pytest.mark.parametrize(("code", "reason"), [(500, "failed calling webhook"), (422, "is invalid"), (403, "denied")])
def test_quota_of_a_rejected_admission_goes_to_another_workload(code: int, reason: str) -> None:
    world = a_world(cpu=1)
    tries: list[float] = []

    def refuse(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or effect.name != "stuck":
            return None
        tries.append(world.server.epoch_s)
        return EffectResponse(code, {"message": reason}, world.server.epoch_s)

    world.refuse = refuse
    add(world, "stuck", priority=5)
    world.advance(1)
    add(world, "free")
    world.advance(2)
    assert admitted(world) == ["free"]
    told = next(each for each in world.emitted if each.reason == "AdmissionRefused")
    assert told.message == f"The API server rejected the admission: {reason}"
    world.advance(600)
    assert len(tries) < 30, "later each time"
    world.refuse = lambda effect: None
    finish(world, "free")
    world.advance(120)
    assert admitted(world) == ["free", "stuck"]


@pytest.mark.parametrize("code", [500, 502, 504])
def test_an_admission_that_may_still_be_performed_is_made_impossible_before_its_quota_is_released(code: int) -> None:
    world = a_world(cpu=1)
    late: list[Patch] = []

    def lose(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or effect.name != "late" or "admission" not in effect.body.get("status", {}):
            return None
        late.append(effect)
        return EffectResponse(code, {"message": "etcdserver: request timed out"}, world.server.epoch_s)

    world.refuse = lose
    add(world, "late", priority=5)
    world.advance(1)
    add(world, "free")
    world.advance(30)
    assert admitted(world) == ["free"]
    assert len(late) > 1, "it was tried again, each time on another version"
    world.refuse = lambda effect: None
    for each in late:
        assert world.perform(each).conflict
    assert admitted(world) == ["free"]


def test_quota_of_an_admission_whose_outcome_stays_unknown_is_released_after_two_minutes() -> None:
    world = a_world(cpu=1)
    sent: list[float] = []

    def fail(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or effect.name != "stuck":
            return None
        if "admission" in effect.body.get("status", {}):
            sent.append(world.server.epoch_s)
        return EffectResponse(500, {"message": "etcdserver: request is too large"}, world.server.epoch_s)

    world.refuse = fail
    add(world, "stuck", priority=5)
    world.advance(1)
    add(world, "free")
    world.advance(100)
    assert admitted(world) == []
    assert len(sent) == 1, "a second one could be performed even later"
    world.advance(60)
    assert admitted(world) == ["free"]


def test_a_thousand_queues_are_served_with_a_few_writes_each(world: CrashingWorld) -> None:
    count = 1_000
    for number in range(count):
        a_queue(world, f"q{number}", cohortName=f"c{number % 10}")
        add(world, f"w{number}", queue=f"of-q{number}")
    before = len(world.requests)
    world.advance(5)
    items = world.server.get(WORKLOADS).body["items"]
    assert sum(conditions.is_true(each["status"]["conditions"], "Admitted") for each in items) == count
    assert len(world.requests) - before <= 5 * count
