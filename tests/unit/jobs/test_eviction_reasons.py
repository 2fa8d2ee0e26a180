"""The evictions of a Workload in its status: the cause of a deactivation, and counts by reason."""

from __future__ import annotations

import pytest

from headgate.kube import conditions
from headgate.quota.api.eviction_stats import evictions_of, is_deactivation, reason_with_cause, with_eviction
from headgate.quota.api.pods_ready import WaitForPodsReady
from headgate.quota.engine import QuotaSettings
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS, a_job, a_world, add, running, workload
from unit.jobs.queue_fixtures import PREEMPTION, WORKLOADS, create

LONGEST = "kueue.x-k8s.io/max-exec-time-seconds"


def evicted(world: World, name: str) -> tuple[str, str]:
    found = workload(world, name)
    assert found is not None
    condition = conditions.find(found["status"]["conditions"], "Evicted") or {}
    return condition.get("status", ""), condition.get("reason", "")


def counts(world: World, name: str) -> list[tuple[str, str, int]]:
    found = workload(world, name)
    assert found is not None
    return [(each["reason"], each["underlyingCause"], each["count"]) for each in evictions_of(found)]


def test_a_deactivation_by_a_deadline_has_its_cause_and_can_be_undone() -> None:
    world = a_world()
    body = a_job("a")
    body["metadata"]["labels"][LONGEST] = "30"
    create(world.server, JOBS, body)
    world.advance(40)
    assert evicted(world, "a") == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert counts(world, "a") == [("Deactivated", "MaximumExecutionTimeExceeded", 1)]
    assert "EvictedDueToDeactivatedDueToMaximumExecutionTimeExceeded" in [each.reason for each in world.emitted]
    found = workload(world, "a")
    assert found is not None
    assert conditions.find(found["status"]["conditions"], "DeactivationTarget") is None
    assert running(world) == []
    world.server.patch(f"{WORKLOADS}/{found['metadata']['name']}", {"spec": {"active": True}})
    world.advance(2)
    assert running(world) == ["a"], "what ended it once does not end it again"


def test_a_deactivation_by_its_user_has_no_cause() -> None:
    world = a_world()
    add(world, "a")
    world.advance(1)
    found = workload(world, "a")
    assert found is not None
    world.server.patch(f"{WORKLOADS}/{found['metadata']['name']}", {"spec": {"active": False}})
    world.advance(2)
    assert evicted(world, "a") == ("True", "Deactivated")
    assert counts(world, "a") == [("Deactivated", "", 1)]


def test_every_preemption_is_counted() -> None:
    world = a_world(cpu=1, **PREEMPTION)
    add(world, "low", priority="low")
    for number in range(2):
        world.advance(5)
        assert "low" in running(world)
        add(world, f"high-{number}", priority="high", ends=True)
        world.advance(5)
    assert counts(world, "low") == [("Preempted", "", 2)]


def test_time_outs_and_the_deactivation_after_them_are_counted_apart() -> None:
    rules = WaitForPodsReady(timeout_s=10.0, backoff_limit=1, backoff_base_s=1)
    world = a_world(quota=QuotaSettings(pods_ready=rules))
    body = a_job("a")
    body["spec"]["template"]["metadata"]["annotations"] = {"test.example/held": "true"}
    create(world.server, JOBS, body)
    world.advance(60)
    assert evicted(world, "a") == ("True", "DeactivatedDueToRequeuingLimitExceeded")
    assert counts(world, "a") == [
        ("PodsReadyTimeout", "WaitForStart", 1),
        ("Deactivated", "RequeuingLimitExceeded", 1),
    ]


@pytest.mark.parametrize(
    ("reason", "cause", "told"),
    [
        ("Deactivated", "AdmissionCheck", "DeactivatedDueToAdmissionCheck"),
        ("Deactivated", "", "Deactivated"),
        ("PodsReadyTimeout", "WaitForStart", "PodsReadyTimeout"),
    ],
)
def test_only_a_deactivation_carries_its_cause_in_the_reason(reason: str, cause: str, told: str) -> None:
    assert reason_with_cause(reason, cause) == told
    assert is_deactivation(told) == (reason == "Deactivated")


def test_evictions_of_other_reasons_stay() -> None:
    known = [{"reason": "Preempted", "underlyingCause": "", "count": 3}]
    found = with_eviction({"status": {"schedulingStats": {"evictions": known}}}, "Deactivated", "AdmissionCheck")
    assert found == [*known, {"reason": "Deactivated", "underlyingCause": "AdmissionCheck", "count": 1}]
