"""A start at which the list of a kind comes late: what is not known yet is not missing."""

from __future__ import annotations

import pytest

from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.world import World
from unit.jobs.fixtures import a_world, add, running
from unit.jobs.pods.fixtures import a_world as a_world_of_pods
from unit.jobs.pods.fixtures import add as add_pod
from unit.jobs.pods.fixtures import started
from unit.jobs.queue_fixtures import WORKLOADS


def uids(world: World) -> set[str]:
    return {each["metadata"]["uid"] for each in world.server.get(WORKLOADS).body["items"]}


def restart_without(world: World, resource: APIResource) -> None:
    world.announces_lists = True
    world.silent = (resource,)
    world.crash()
    world.advance(100)


@pytest.mark.parametrize("late", [WORKLOAD, NAMESPACES], ids=lambda each: each.plural)
def test_a_job_that_runs_goes_on_and_one_that_waits_keeps_its_workload(late: APIResource) -> None:
    world = a_world(cpu=1)
    for name in ("runs", "waits"):
        add(world, name)
        world.advance(2)
    before = uids(world)
    restart_without(world, late)
    assert running(world) == ["runs"]
    assert uids(world) == before
    world.silent = ()
    world.advance(5)
    assert running(world) == ["runs"]
    assert uids(world) == before


def test_a_pod_that_runs_goes_on() -> None:
    world = a_world_of_pods(cpu=1)
    for name in ("runs", "waits"):
        add_pod(world, name)
        world.advance(2)
    before = uids(world)
    restart_without(world, WORKLOAD)
    world.silent = ()
    world.advance(5)
    assert started(world) == ["runs"]
    assert uids(world) == before
