"""Jobs in Kueue's queues on the embedded server: they wait, run, are preempted and requeued."""

from __future__ import annotations

import pytest

from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.kube.feature_gates import FeatureGates
from unit.controllers.kubelet import ENDS
from unit.jobs.fixtures import (
    GATE,
    GATING,
    JOBS,
    QUEUE,
    a_job,
    a_world,
    add,
    has,
    is_complete,
    job,
    reasons,
    running,
    workload,
)
from unit.jobs.queue_fixtures import PODS, PREEMPTION, WORKLOADS, create


def test_a_job_waits_suspended_runs_where_its_flavor_is_and_the_next_one_follows() -> None:
    world = a_world()
    add(world, "a")
    assert job(world, "a")["spec"]["suspend"] is True
    world.advance(1)
    add(world, "b", ends=True)
    world.advance(2)
    assert running(world) == ["a"]
    assert job(world, "a")["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert has(world, "a", "PodsReady")
    assert world.server.get(PODS).body["items"][0]["metadata"]["labels"]["job-name"] == "a"
    assert reasons(world) == ["CreatedWorkload", "Started", "CreatedWorkload"]
    pod = world.server.get(PODS).body["items"][0]["metadata"]["name"]
    world.server.patch(f"{PODS}/{pod}", {"metadata": {"annotations": {ENDS: "Succeeded"}}})
    world.advance(5)
    assert is_complete(world, "a")
    assert has(world, "a", "Finished")
    assert is_complete(world, "b")
    assert has(world, "b", "Finished")


def test_a_preempted_job_is_stopped_gets_its_template_back_and_is_requeued() -> None:
    world = a_world(**PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    before = workload(world, "low")
    add(world, "high", priority="high")
    world.advance(2)
    assert running(world) == ["high"]
    template = job(world, "low")["spec"]["template"]["spec"]
    assert not template.get("nodeSelector"), template
    assert "kueue.x-k8s.io/stopping" not in job(world, "low")["metadata"].get("annotations", {})
    assert not has(world, "low", "QuotaReserved")
    assert "Stopped" in reasons(world)
    world.server.delete(f"{JOBS}/high", {"propagationPolicy": "Background"})
    world.advance(5)
    assert running(world) == ["low"]
    assert workload(world, "high") is None, "its finalizer is off"
    after = workload(world, "low")
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_finished_pods_release_their_quota_before_the_job_ends() -> None:
    world = a_world(cpu=2)
    body = a_job("a")
    body["spec"] |= {"parallelism": 2, "completions": 2}
    create(world.server, JOBS, body)
    world.advance(2)
    add(world, "b")
    world.advance(2)
    assert running(world) == ["a"]
    pod = world.server.get(PODS).body["items"][0]["metadata"]["name"]
    world.server.patch(f"{PODS}/{pod}", {"metadata": {"annotations": {ENDS: "Succeeded"}}})
    world.advance(5)
    assert not is_complete(world, "a")
    assert running(world) == ["a", "b"]


def test_a_manually_started_job_is_stopped_until_it_is_admitted() -> None:
    world = a_world()
    add(world, "a")
    world.advance(1)
    add(world, "b")
    world.advance(1)
    world.server.patch(f"{JOBS}/b", {"spec": {"suspend": False}})
    world.advance(2)
    assert running(world) == ["a"]


def test_a_change_of_a_pending_job_updates_its_workload() -> None:
    world = a_world()
    add(world, "a", cpu="2")
    world.advance(1)
    assert running(world) == []
    world.server.patch(f"{JOBS}/a", {"metadata": {"labels": {QUEUE: "other"}}})
    world.advance(1)
    found = workload(world, "a")
    assert found is not None
    assert found["spec"]["queueName"] == "other"


def test_the_queue_of_a_running_job_is_immutable() -> None:
    world = a_world()
    add(world, "a")
    world.advance(1)
    answer = world.server.patch(f"{JOBS}/a", {"metadata": {"labels": {QUEUE: "other"}}})
    assert answer.status == 403
    assert "field is immutable" in answer.body["message"]


def test_a_job_without_a_queue_is_not_managed() -> None:
    world = a_world()
    body = a_job("a")
    del body["metadata"]["labels"]
    create(world.server, JOBS, body)
    world.advance(1)
    assert running(world) == ["a"]
    assert workload(world, "a") is None


def test_a_deleted_workload_stops_its_job_and_is_recreated() -> None:
    world = a_world()
    add(world, "a")
    world.advance(1)
    first = workload(world, "a")
    assert first is not None
    world.server.delete(f"{WORKLOADS}/{first['metadata']['name']}")
    world.advance(5)
    again = workload(world, "a")
    assert again is not None
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert running(world) == ["a"]


# -- gated jobs ----------------------------------------------------------------------------------------------------


def test_a_gated_job_has_no_workload_until_its_gate_is_removed() -> None:
    world = a_world(features=GATING)
    add(world, "a", cpu="100m", annotations={GATE: "example.com/mygate"})
    world.advance(5)
    assert workload(world, "a") is None
    assert reasons(world) == ["SchedulingGated"]
    world.server.patch(f"{JOBS}/a", {"spec": {"suspend": False}})
    world.advance(2)
    assert running(world) == []
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    assert world.server.patch(f"{JOBS}/a", patch, "strategic").status == 200
    world.advance(1)
    assert world.server.patch(f"{JOBS}/a", {"metadata": {"annotations": {GATE: None}}}).status == 200
    world.settle()
    found = workload(world, "a")
    assert found is not None
    assert found["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}
    assert running(world) == ["a"]


def test_without_the_feature_gate_the_annotation_has_no_effect() -> None:
    world = a_world()
    add(world, "a", annotations={GATE: "not a domain"})
    world.advance(1)
    assert running(world) == ["a"]


def test_enabling_gates_later_affects_pending_jobs_and_not_admitted_ones() -> None:
    features = [FeatureGates()]
    world = a_world()
    world._makers = (*world._makers[:1], lambda: ManagedJobController(features[0]), *world._makers[2:])
    for name in ("a", "b"):
        add(world, name, annotations={GATE: "example.com/g"})
        world.advance(1)
    assert running(world) == ["a"]
    features[0] = GATING
    world.crash()
    world.advance(5)
    assert running(world) == ["a"]
    assert workload(world, "a") is not None
    assert workload(world, "b") is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "name the controller that gates the job"),
        ("mygate", "must be a domain-prefixed path"),
        ("example.com/a,example.com/b", "takes one name"),
        ("example.com/" + "a" * 60, "may not be more than 63 bytes"),
    ],
)
def test_a_gate_is_one_name_with_a_domain(value: str, said: str) -> None:
    answer = a_world(features=GATING).server.post(JOBS, a_job("a", annotations={GATE: value}))
    assert answer.status == 403
    assert said in answer.body["message"]


def test_a_gate_is_neither_added_nor_changed() -> None:
    world = a_world(features=GATING)
    add(world, "a")
    add(world, "b", annotations={GATE: "example.com/g"})
    for name, said in (("a", "cannot be added after creation"), ("b", "cannot be changed, only removed")):
        answer = world.server.patch(f"{JOBS}/{name}", {"metadata": {"annotations": {GATE: "example.com/h"}}})
        assert answer.status == 403
        assert said in answer.body["message"]
