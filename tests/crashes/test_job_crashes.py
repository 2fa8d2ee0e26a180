"""Jobs in queues whose controllers crash at every write, or with interfering writes: every revision is checked.

The scenarios run on the embedded server with a virtual clock. ``tests/wire`` kills real processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kueue_builders import Wire, a_cluster_queue, a_local_queue
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World
from unit.jobs.audited import Interference, assert_tidy, audited, run_with_interference
from unit.jobs.fixtures import GATE, GATING, JOBS, a_job, a_world, add, has, is_complete, job, running, workload
from unit.jobs.queue_fixtures import API, PREEMPTION, WORKLOADS, create, kueue_object

QUEUE = f"{API}/clusterqueues/cq"
CHECKS = f"{API}/admissionchecks"


# -- scenarios -------------------------------------------------------------------------------------------------------


def preempted(world: CrashingWorld) -> None:
    add(world, "low", priority="low")
    world.advance(3)
    add(world, "high", priority="high", ends=True)
    world.advance(20)


def reclaimed(world: CrashingWorld) -> None:
    """Lent quota is reclaimed; the borrower is admitted again when there is free quota."""
    create(world.server, f"{API}/clusterqueues", kueue_object("ClusterQueue", _neighbour()))
    create(
        world.server,
        f"{API}/namespaces/ns/localqueues",
        kueue_object("LocalQueue", a_local_queue("other", "neighbour")),
    )
    add(world, "low")
    world.advance(2)
    add(world, "borrower")
    world.advance(2)
    create(world.server, JOBS, _elsewhere("high"))
    world.advance(20)


def drained(world: CrashingWorld) -> None:
    add(world, "low")
    world.advance(3)
    _stop(world, "HoldAndDrain")
    world.advance(5)
    assert running(world) == []
    _stop(world, "None")
    add(world, "high", ends=True, priority="high")
    world.advance(20)


def checked(world: CrashingWorld) -> None:
    """The check asks for another try, then agrees."""
    create(world.server, CHECKS, kueue_object("AdmissionCheck", {"metadata": {"name": "check"}, "spec": _CONTROLLER}))
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": _LONG_AGO}
    world.server.patch(f"{CHECKS}/check/status", {"status": {"conditions": [active]}})
    strategy = {"admissionChecks": [{"name": "check"}]}
    world.server.patch(QUEUE, {"spec": {"admissionChecksStrategy": strategy}})
    world.advance(2)
    add(world, "high", ends=True)
    world.advance(5)
    for state in ("Retry", "Ready"):
        assert running(world) == []
        _tell_check(world, "high", state)
        world.advance(10)
    add(world, "low")
    world.advance(5)
    _tell_check(world, "low", "Ready")
    world.advance(10)


def gated(world: CrashingWorld) -> None:
    add(world, "low", annotations={GATE: "example.com/g"})
    add(world, "high", ends=True)
    world.advance(5)
    world.server.patch(f"{JOBS}/low", {"metadata": {"annotations": {GATE: None}}})
    world.advance(10)


_CONTROLLER = {"controllerName": "example.com/checks"}
_LONG_AGO = "2020-01-01T00:00:00Z"
_SCENARIOS: dict[str, tuple[Callable[[CrashingWorld], None], dict[str, Any]]] = {
    "preempted": (preempted, PREEMPTION),
    "drained": (drained, PREEMPTION),
    "checked": (checked, {}),
    "reclaimed": (reclaimed, {"cohortName": "pool"}),
    "gated": (gated, {"features": GATING}),
}


@pytest.mark.parametrize("name", _SCENARIOS)
def test_a_crash_at_any_write_has_no_visible_effect(name: str) -> None:
    scenario, spec = _SCENARIOS[name]

    def make() -> CrashingWorld:
        return audited(a_world(**spec))

    def look(title: str, world: CrashingWorld) -> None:
        world.check(world)
        assert is_complete(world, "high"), title
        assert has(world, "high", "Finished"), title
        assert has(world, "low", "Admitted"), title
        assert job(world, "low")["spec"]["suspend"] is False, title
        assert_tidy(world, title)

    run_with_crashes(make, scenario, look)


# -- meddling ------------------------------------------------------------------------------------------------------


def delete_job(world: World) -> None:
    world.server.delete(f"{JOBS}/low", {"propagationPolicy": "Background"})


def replace_job(world: World) -> None:
    delete_job(world)
    create(world.server, JOBS, a_job("low", priority="low"))


def delete_workload(world: World) -> None:
    found = workload(world, "low")
    if found is not None:
        world.server.delete(f"{WORKLOADS}/{found['metadata']['name']}")


def write_to_workload(world: World) -> None:
    """Another client labels it: every write in flight was decided on an older version."""
    found = workload(world, "low")
    if found is not None:
        labels = {"metadata": {"labels": {"example.com/seen": "true"}}}
        world.server.patch(f"{WORKLOADS}/{found['metadata']['name']}", labels)


def start_by_hand(world: World) -> None:
    world.server.patch(f"{JOBS}/low", {"spec": {"suspend": False}})


def take_quota_by_hand(world: World) -> None:
    """What the Workload was given is taken from it, as only its controller should."""
    found = workload(world, "low")
    if found is not None:
        path = f"{WORKLOADS}/{found['metadata']['name']}/status"
        world.server.patch(path, {"status": {"admission": None, "conditions": []}})


@pytest.mark.parametrize(
    ("meddle", "excused"),
    [
        (replace_job, ()),
        (delete_workload, ()),
        (write_to_workload, ()),
        (start_by_hand, ("low: it runs and is not admitted",)),
        (take_quota_by_hand, ("is admitted no more, and its job runs", "runs and is not admitted", "admitted twice")),
    ],
)
def test_both_jobs_run_whatever_write_interferes_at_whatever_time(
    meddle: Interference, excused: tuple[str, ...]
) -> None:
    def make() -> CrashingWorld:
        return audited(a_world(**PREEMPTION), *excused)

    def look(title: str, world: CrashingWorld) -> None:
        world.advance(30)
        assert is_complete(world, "high"), title
        assert has(world, "low", "Admitted"), title
        assert "low" in running(world), title
        assert_tidy(world, title)

    run_with_interference(make, preempted, meddle, look)


def test_a_job_deleted_at_any_moment_leaves_nothing_behind() -> None:
    def look(title: str, world: CrashingWorld) -> None:
        world.advance(30)
        assert workload(world, "low") is None, title
        assert is_complete(world, "high"), title
        assert_tidy(world, title)

    run_with_interference(lambda: audited(a_world(**PREEMPTION)), preempted, delete_job, look)


def _neighbour() -> Wire:
    policy = {"reclaimWithinCohort": "Any"}
    return a_cluster_queue("neighbour", {"default": {"cpu": 1}}, cohortName="pool", preemption=policy)


def _elsewhere(name: str) -> Wire:
    body = a_job(name, ends=True)
    body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "other"
    return body


def _stop(world: World, policy: str) -> None:
    assert world.server.patch(QUEUE, {"spec": {"stopPolicy": policy}}).status == 200


def _tell_check(world: World, name: str, state: str) -> None:
    found = workload(world, name)
    assert found is not None
    row = {"name": "check", "state": state, "message": "", "lastTransitionTime": _LONG_AGO}
    path = f"{WORKLOADS}/{found['metadata']['name']}/status"
    assert world.server.patch(path, {"status": {"admissionChecks": [row]}}).status == 200
