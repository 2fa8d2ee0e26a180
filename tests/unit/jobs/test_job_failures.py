"""Jobs in queues with late watches, lost responses, any order of events, foreign Workloads and missing classes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headgate.controllers.framework.effects import Create, Effect, EffectResponse, Patch
from headgate.jobs.framework.workload import workload_name
from headgate.jobs.kinds.batch_job import JOB
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from kueue_builders import a_workload
from unit.jobs.fixtures import JOBS, a_world, add, has, is_complete, job, reasons, running, workload
from unit.jobs.queue_fixtures import API, PREEMPTION, WORKLOADS, create, kueue_object


def test_a_late_watch_causes_no_second_write() -> None:
    world = a_world()
    add(world, "a")
    before = len(world.requests)
    world.settle(delayed=[WORKLOAD])
    writes = [path for method, path in world.requests[before:] if method == "POST" and path.endswith("/workloads")]
    assert len(writes) == 1
    world.advance(2)
    assert running(world) == ["a"]


@pytest.mark.parametrize("what", [Create, Patch])
def test_a_lost_response_is_resolved_by_a_read(what: Any) -> None:
    world = a_world()
    losses = iter([True, True])
    world.loses_response = lambda effect: isinstance(effect, what) and next(losses, False)
    add(world, "a", ends=True)
    world.advance(20)
    assert is_complete(world, "a")
    assert has(world, "a", "Finished")
    assert len(world.server.get(WORKLOADS).body["items"]) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_events_does_not_matter(seed: int) -> None:
    drawn = random.Random(seed)
    world = a_world(**PREEMPTION)
    add(world, "low", priority="low")
    add(world, "high", priority="high", ends=True)
    for _ in range(20):
        world.settle(drawn.choice)
        world.advance(1)
    assert is_complete(world, "high")
    assert running(world) == ["high", "low"]
    assert has(world, "low", "Admitted")


def test_a_foreign_workload_of_the_same_name_is_not_changed_and_the_job_gets_an_event() -> None:
    world = a_world()
    create(world.server, JOBS, {**_plain("a")})
    name = workload_name(JOB, job(world, "a"))
    create(world.server, WORKLOADS, kueue_object("Workload", a_workload(name, cpu=1)))
    world.advance(20)
    assert running(world) == []
    assert reasons(world) == ["ErrWorkloadCompose"], "once"
    assert "ownerReferences" not in world.server.get(f"{WORKLOADS}/{name}").body["metadata"]


def test_a_write_that_the_server_drops_is_retried_with_back_off() -> None:
    world = a_world()
    add(world, "a", cpu="2")
    world.advance(2)
    before = len(world.requests)

    def keep_nothing(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Patch) or effect.resource != WORKLOAD:
            return None
        world.requests.append(("PATCH", effect.name))
        return EffectResponse(200, workload(world, "a") or {}, world.server.epoch_s)

    world.refuse = keep_nothing
    world.server.patch(f"{JOBS}/a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
    world.advance(60)
    assert len(world.requests) - before < 30


def test_a_job_waits_for_its_priority_class_and_reports_it() -> None:
    world = a_world()
    add(world, "a", priority="vip")
    world.advance(15)
    assert reasons(world) == ["ErrWorkloadCompose"]
    create(
        world.server,
        f"{API}/workloadpriorityclasses",
        kueue_object("WorkloadPriorityClass", {"metadata": {"name": "vip"}, "value": 7}),
    )
    world.advance(15)
    found = workload(world, "a")
    assert found is not None
    assert found["spec"]["priority"] == 7
    assert running(world) == ["a"]


@pytest.mark.parametrize("policy", ["Foreground", "Background", "Orphan"])
def test_a_deleted_job_releases_its_quota(policy: str) -> None:
    world = a_world()
    add(world, "a")
    world.advance(2)
    assert world.server.delete(f"{JOBS}/a", {"propagationPolicy": policy}).status == 200
    add(world, "b")
    world.advance(10)
    assert running(world) == ["b"]


def test_a_workload_without_its_owner_reference_releases_its_quota() -> None:
    world = a_world()
    add(world, "a")
    world.advance(2)
    found = workload(world, "a")
    assert found is not None
    path = f"{WORKLOADS}/{found['metadata']['name']}"
    assert world.server.patch(path, {"metadata": {"ownerReferences": None}}).status == 200
    assert world.server.delete(f"{JOBS}/a", {"propagationPolicy": "Background"}).status == 200
    add(world, "b")
    world.advance(10)
    assert "b" in running(world)
    assert "finalizers" not in world.server.get(path).body["metadata"]


def test_a_job_that_leaves_its_queue_leaves_no_workload_behind() -> None:
    world = a_world()
    add(world, "a", cpu="2")
    world.advance(2)
    assert workload(world, "a") is not None
    world.server.patch(f"{JOBS}/a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}})
    world.advance(2)
    assert workload(world, "a") is None


def _plain(name: str) -> Any:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    return {"metadata": metadata, "spec": {"template": {"spec": pod}}}
