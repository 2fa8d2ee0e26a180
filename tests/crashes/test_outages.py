"""Controllers of quota, jobs and pods whose server is away at any write, and whose watches come back one after another.

The controllers keep their memory, which may be older than the server: a write was performed, and neither its response
nor a read reached them. Every revision is checked. The scenarios run on the embedded server with a virtual clock.
``tests/wire`` kills a real server.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.kube.api_resources import JOBS as JOB
from headgate.kube.api_resources import PODS as POD
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.outages import run_with_outages
from unit.controllers.world import World
from unit.jobs import fixtures as of_jobs
from unit.jobs.audited import assert_tidy, audited, of_quota_and_pods
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import API, PREEMPTION, WORKLOADS
from unit.jobs.test_rejected_starts import Plugin

QUEUE = f"{API}/clusterqueues/cq"


def set_stop_policy(world: World, policy: str) -> None:
    assert world.server.patch(QUEUE, {"spec": {"stopPolicy": policy}}).status == 200


def drain(world: World) -> None:
    set_stop_policy(world, "HoldAndDrain")


def resume(world: World) -> None:
    set_stop_policy(world, "None")


def set_active(world: World, is_active: bool) -> None:
    for each in world.server.get(WORKLOADS).body["items"]:
        path = f"{WORKLOADS}/{each['metadata']['name']}"
        assert world.server.patch(path, {"spec": {"active": is_active}}).status == 200


def deactivate(world: World) -> None:
    set_active(world, False)


def activate(world: World) -> None:
    set_active(world, True)


@pytest.mark.parametrize(("interfere", "undo"), [(drain, resume), (deactivate, activate)])
def test_an_outage_at_any_write_leaves_no_job_running_without_quota(
    interfere: Callable[[World], None], undo: Callable[[World], None]
) -> None:
    def scenario(world: CrashingWorld) -> None:
        of_jobs.add(world, "a", ends=True)
        world.advance(15)
        undo(world)
        world.advance(100)

    def inspect(title: str, world: CrashingWorld) -> None:
        assert of_jobs.is_complete(world, "a"), title
        assert_tidy(world, title)

    run_with_outages(lambda: audited(of_jobs.a_world()), scenario, interfere, inspect, (JOB, WORKLOAD))


def test_an_outage_at_any_write_of_a_preemption_leaves_no_job_running_without_quota() -> None:
    def scenario(world: CrashingWorld) -> None:
        of_jobs.add(world, "low", priority="low")
        world.advance(3)
        of_jobs.add(world, "high", priority="high", ends=True)
        world.advance(100)

    def inspect(title: str, world: CrashingWorld) -> None:
        assert of_jobs.is_complete(world, "high"), title
        assert of_jobs.has(world, "low", "Admitted"), title
        assert_tidy(world, title)

    def nothing(world: World) -> None:
        """The user does nothing."""

    run_with_outages(lambda: audited(of_jobs.a_world(**PREEMPTION)), scenario, nothing, inspect, (JOB, WORKLOAD))


def test_an_outage_while_a_start_is_rejected_leaves_no_job_running_without_quota() -> None:
    """During the outage the webhook that rejected the start begins to accept it."""
    plugins: dict[CrashingWorld, Plugin] = {}

    def make() -> CrashingWorld:
        world = audited(of_jobs.a_world())
        plugins[world] = Plugin(world, "a")
        return world

    def scenario(world: CrashingWorld) -> None:
        of_jobs.add(world, "a", ends=True)
        world.advance(12)
        plugins[world].names.clear()
        world.advance(100)

    def accept(world: World) -> None:
        for each in plugins.values():
            each.names.clear()

    def inspect(title: str, world: CrashingWorld) -> None:
        assert of_jobs.is_complete(world, "a"), title
        assert_tidy(world, title)

    run_with_outages(make, scenario, accept, inspect, (JOB, WORKLOAD))


@pytest.mark.parametrize("group", ["", "g"])
def test_an_outage_at_any_write_leaves_no_pod_running_without_quota(group: str) -> None:
    def make() -> CrashingWorld:
        return audited(of_pods.a_world(cpu=2), counts=of_quota_and_pods)

    def scenario(world: CrashingWorld) -> None:
        for name in ("a", "b"):
            of_pods.add(world, name, group=group)
        world.advance(15)
        resume(world)
        world.advance(100)

    def inspect(title: str, world: CrashingWorld) -> None:
        for name in of_pods.started(world):
            assert of_pods.has(world, group or name, "Admitted"), title

    run_with_outages(make, scenario, drain, inspect, (POD, WORKLOAD))
