"""A job that was admitted with the quota of terminating pods is resumed when these are gone."""

from __future__ import annotations

import msgspec

from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.fixtures import a_world, add, has, job, running, workload
from unit.jobs.pods.fixtures import SlowKubelet
from unit.jobs.queue_fixtures import PREEMPTION, WORKLOADS

WAITS = "WaitingForTerminatingPods"
PODS = "/api/v1/namespaces/ns/pods"
STAMP = "headgate.dev/quota-reservation"


def preempting() -> CrashingWorld:
    world = a_world(cpu=1, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    add(world, "high", priority="high")
    world.advance(5)
    return world


def test_the_pods_of_a_job_carry_its_reservation_and_a_stopped_template_does_not() -> None:
    world = a_world(cpu=1, kubelet=SlowKubelet, **PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    (pod,) = world.server.get(PODS).body["items"]
    found = msgspec.json.decode(pod["metadata"]["annotations"][STAMP])
    owner = workload(world, "low")
    assert owner is not None
    assert (found["workload"], found["clusterQueue"], found["flavors"]) == (
        owner["metadata"]["uid"],
        "cq",
        {"cpu": "default"},
    )
    add(world, "high", priority="high")
    world.advance(5)
    assert STAMP not in (job(world, "low")["spec"]["template"]["metadata"].get("annotations") or {})


def test_a_job_stays_suspended_while_the_pods_of_its_victim_end() -> None:
    world = preempting()
    assert not has(world, "low", "QuotaReserved")
    assert has(world, "high", "Admitted")
    assert has(world, "high", WAITS)
    assert running(world) == []
    told = [each.about["kind"] for each in world.emitted if each.reason == WAITS]
    assert sorted(told) == ["Job", "Workload"]
    world.advance(60)
    assert not has(world, "high", WAITS)
    assert running(world) == ["high"]


def test_a_job_that_waits_is_resumed_by_the_next_process() -> None:
    world = preempting()
    world.crash()
    world.advance(10)
    assert running(world) == []
    world.crash()
    world.advance(60)
    assert running(world) == ["high"]


def test_a_job_that_is_deleted_while_it_waits_leaves_nothing_behind() -> None:
    world = preempting()
    background = {"propagationPolicy": "Background"}
    assert world.server.delete("/apis/batch/v1/namespaces/ns/jobs/high", background).status == 200
    world.advance(60)
    assert running(world) == ["low"], "its victim has its turn again"
    left = [each["metadata"]["name"] for each in world.server.get(WORKLOADS).body["items"]]
    assert len(left) == 1, left
