"""Jobs with invalid input and manual changes: each problem is reported on its object, and other jobs go on."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import Create, Effect, EffectResponse
from headgate.jobs.framework.workload import workload_name
from headgate.jobs.kinds.batch_job import JOB
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from kueue_builders import a_cluster_queue, a_local_queue, a_workload
from unit.controllers.kubelet import ENDS
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS, QUEUE, a_job, a_world, add, has, is_complete, job, reasons, running, workload
from unit.jobs.queue_fixtures import API, PODS, WORKLOADS, create, kueue_object

LOCAL_QUEUES = f"{API}/namespaces/ns/localqueues"


def another_queue(world: World, name: str = "other") -> None:
    create(
        world.server,
        f"{API}/clusterqueues",
        kueue_object("ClusterQueue", a_cluster_queue(name, {"default": {"cpu": 1}})),
    )
    create(world.server, LOCAL_QUEUES, kueue_object("LocalQueue", a_local_queue(name, name)))


def said(world: World, reason: str) -> list[str]:
    return [each.message for each in world.emitted if each.reason == reason]


def end_pods(world: World) -> None:
    for each in world.server.get(PODS).body["items"]:
        world.server.patch(f"{PODS}/{each['metadata']['name']}", {"metadata": {"annotations": {ENDS: "Succeeded"}}})


def test_an_evicted_job_may_change_its_queue() -> None:
    world = a_world()
    another_queue(world)
    add(world, "a")
    world.advance(2)
    world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
    world.advance(2)
    assert running(world) == []
    assert has(world, "a", "Evicted")
    assert world.server.patch(f"{JOBS}/a", {"metadata": {"labels": {QUEUE: "other"}}}).status == 200
    world.advance(5)
    assert running(world) == ["a"]
    found = workload(world, "a")
    assert found is not None
    assert found["status"]["admission"]["clusterQueue"] == "other"


def test_a_running_job_created_without_admission_is_stopped_and_queued() -> None:
    world = a_world(has_admission=False)
    add(world, "a")
    world.advance(2)
    add(world, "b", ends=True)
    assert running(world) == ["a", "b"]
    world.advance(2)
    assert running(world) == ["a"]
    end_pods(world)
    world.advance(5)
    assert is_complete(world, "b")
    assert has(world, "b", "Finished")


def test_an_invalid_queue_name_is_reported_and_stops_no_other_job() -> None:
    world = a_world(has_admission=False)
    body = a_job("bad")
    body["metadata"]["labels"][QUEUE] = "Not_A_Queue"
    create(world.server, JOBS, body)
    add(world, "a")
    world.advance(20)
    assert running(world) == ["a"]
    (told,) = said(world, "ErrWorkloadCompose")
    assert 'spec.queueName: Invalid value: "Not_A_Queue"' in told
    assert world.server.patch(f"{JOBS}/bad", {"metadata": {"labels": {QUEUE: "lq"}}}).status == 200
    end_pods(world)
    world.advance(120)
    assert "bad" in running(world)


@pytest.mark.parametrize(("code", "text"), [(422, "spec.podSets[0].template: Invalid value"), (500, "no webhook")])
def test_a_job_whose_workload_is_rejected_reports_why_and_gets_one_later(code: int, text: str) -> None:
    world = a_world()
    tries: list[float] = []

    def refuse(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Create) or effect.resource != WORKLOAD or "bad" not in effect.obj["metadata"]["name"]:
            return None
        tries.append(world.server.epoch_s)
        return EffectResponse(code, {"message": text}, world.server.epoch_s)

    world.refuse = refuse
    add(world, "bad")
    add(world, "good")
    world.advance(300)
    assert running(world) == ["good"]
    assert len(tries) < 40, "later each time"
    assert said(world, "ErrWorkloadCompose") == ([text] if code == 422 else [])
    world.refuse = lambda effect: None
    end_pods(world)
    world.advance(200)
    assert running(world) == ["bad", "good"]


def test_a_foreign_workload_of_the_same_name_starts_no_job_even_if_it_is_admitted() -> None:
    world = a_world(cpu=2)
    body = a_job("a")
    create(world.server, JOBS, body)
    name = workload_name(JOB, job(world, "a"))
    create(world.server, WORKLOADS, kueue_object("Workload", a_workload(name, cpu=1)))
    add(world, "b")
    world.advance(20)
    assert running(world) == ["b"]
    assert said(world, "ErrWorkloadCompose") == [f"Workload ns/{name} belongs to another owner"]
    assert world.server.delete(f"{WORKLOADS}/{name}").status == 200
    world.advance(120)
    assert running(world) == ["a", "b"]


@pytest.mark.parametrize("path", [f"{LOCAL_QUEUES}/lq", f"{API}/clusterqueues/cq"])
def test_a_job_whose_queue_is_deleted_runs_on_and_the_next_job_reports_the_missing_queue(path: str) -> None:
    world = a_world()
    add(world, "a")
    world.advance(2)
    assert world.server.delete(path).status == 200
    world.server.patch(path, {"metadata": {"finalizers": None}})
    add(world, "b")
    world.advance(5)
    assert running(world) == ["a"]
    assert "doesn't exist" in _message(workload(world, "b"))
    end_pods(world)
    world.advance(5)
    assert is_complete(world, "a")
    assert has(world, "a", "Finished")


def test_a_manually_changed_workload_is_corrected_or_recreated() -> None:
    world = a_world(has_admission=False)
    add(world, "a", cpu="3")
    world.advance(2)
    found = workload(world, "a")
    assert found is not None
    (pods,) = found["spec"]["podSets"]
    path = f"{WORKLOADS}/{found['metadata']['name']}"
    world.server.patch(path, {"spec": {"podSets": [{**pods, "count": 7}]}})
    world.advance(5)
    again = workload(world, "a")
    assert again is not None
    assert again["spec"]["podSets"][0]["count"] == 1
    assert running(world) == []


def test_a_manually_removed_finalizer_does_not_block() -> None:
    world = a_world()
    add(world, "a")
    world.advance(2)
    found = workload(world, "a")
    assert found is not None
    world.server.patch(f"{WORKLOADS}/{found['metadata']['name']}", {"metadata": {"finalizers": None}})
    assert world.server.delete(f"{JOBS}/a", {"propagationPolicy": "Background"}).status == 200
    add(world, "b")
    world.advance(10)
    assert running(world) == ["b"]
    assert workload(world, "a") is None


def test_a_manually_finished_workload_releases_its_quota_and_starts_no_job_twice() -> None:
    world = a_world()
    add(world, "a")
    world.advance(2)
    found = workload(world, "a")
    assert found is not None
    done = {
        "type": "Finished",
        "status": "True",
        "reason": "ByHand",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    told = {"status": {"conditions": [*found["status"]["conditions"], done]}}
    world.server.patch(f"{WORKLOADS}/{found['metadata']['name']}/status", told)
    add(world, "b", ends=True)
    world.advance(10)
    assert is_complete(world, "b")
    assert reasons(world).count("Started") == 2


def _message(found: Any) -> str:
    told = {each["type"]: each for each in found["status"]["conditions"]}
    return str(told["QuotaReserved"]["message"])
