"""Pods that no job will count lose their finalizer; others keep it."""

from __future__ import annotations

import pytest

from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.kube.api_resources import JOBS, PODS
from unit.controllers.jobs.fixtures import JOBS_PATH, PODS_PATH, TRACKING, Stage
from unit.controllers.world import Object


@pytest.fixture
def stage() -> Stage:
    return Stage(GarbageCollector)


def tracked(stage: Stage) -> list[str]:
    return [each["metadata"]["name"] for each in stage.pods() if TRACKING in (each["metadata"].get("finalizers") or ())]


def remove(stage: Stage, policy: str, name: str = "j") -> None:
    assert stage.server.delete(f"{JOBS_PATH}/{name}", {"propagationPolicy": policy}).status == 200
    stage.advance(1)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_pods_of_a_deleted_job_are_deleted(stage: Stage, policy: str) -> None:
    stage.add(parallelism=3, completions=3)
    stage.succeed(stage.names()[0])
    remove(stage, policy)
    assert stage.names() == []
    assert stage.server.get(f"{JOBS_PATH}/j").status == 404


def test_orphaned_pods_lose_their_finalizer(stage: Stage) -> None:
    stage.add(parallelism=2, completions=2)
    remove(stage, "Orphan")
    assert len(stage.live()) == 2
    assert tracked(stage) == []
    assert all("ownerReferences" not in each["metadata"] for each in stage.pods())


def test_a_pod_of_a_job_that_was_deleted_unobserved_loses_its_finalizer(stage: Stage) -> None:
    stage.add(parallelism=2, completions=2)
    stage.server.delete(f"{JOBS_PATH}/j", {"propagationPolicy": "Background"})
    stage.world.crash()
    stage.advance(1)
    assert stage.names() == []


def test_a_pod_whose_job_is_not_observed_yet_keeps_its_finalizer() -> None:
    stage = Stage()
    job = stage.server.post(JOBS_PATH, a_job("late")).body
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "late",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": "p", "ownerReferences": [reference], "finalizers": [TRACKING]}
    body = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert stage.server.post(PODS_PATH, body).status == 201
    stage.world.settle(delayed=[JOBS])
    stage.world.deliver_all()
    assert tracked(stage) == ["p"]


def a_job(name: str) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name}, "spec": {"suspend": True, "template": {"spec": pod}}}


def test_a_pod_of_another_controller_keeps_its_finalizer(stage: Stage) -> None:
    owner = stage.server.post("/api/v1/namespaces/a/configmaps", {"metadata": {"name": "c"}}).body
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "c",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": "p", "ownerReferences": [reference], "finalizers": [TRACKING]}
    body = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert stage.server.post(PODS_PATH, body).status == 201
    stage.advance(1)
    assert tracked(stage) == ["p"]


def test_a_pod_without_an_owner_is_adopted_with_the_finalizer(stage: Stage) -> None:
    labels = {"app": "mine"}
    body = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert stage.server.post(PODS_PATH, body).status == 201
    job = a_job("j")
    job["spec"] |= {"suspend": False, "manualSelector": True, "selector": {"matchLabels": labels}, "parallelism": 2}
    job["spec"]["template"]["metadata"] = {"labels": labels}
    assert stage.server.post(JOBS_PATH, job).status == 201
    stage.settle()
    assert len(stage.live()) == 2
    assert "p" in tracked(stage)
    stage.server.patch(f"{PODS_PATH}/p", {"metadata": {"labels": {"app": "yours"}}})
    stage.settle()
    assert len(stage.live()) == 3
    assert "p" not in tracked(stage)
    assert "ownerReferences" not in stage.pod("p")["metadata"]


def test_late_pod_events_create_no_pod_twice(stage: Stage) -> None:
    stage.add(parallelism=2, completions=4)
    one, other = stage.live()
    stage.set_pod(one, settle=False, phase="Succeeded")
    stage.world.deliver_all()
    stage.world.advance(0.1)
    stage.world.settle(delayed=[PODS])
    stage.change(parallelism=3)
    assert stage.numbers() == (3, 1, 0, 0)
    assert other in stage.live()


def test_a_pod_that_ended_unobserved_is_counted_although_it_is_surplus(stage: Stage) -> None:
    stage.add(parallelism=2, completions=4)
    stage.set_pod(stage.live()[0], settle=False, phase="Succeeded")
    stage.server.patch(f"{JOBS_PATH}/j", {"spec": {"suspend": True}})
    stage.world.settle(delayed=[PODS])
    stage.settle()
    assert stage.live() == []
    assert stage.numbers() == (0, 1, 0, 0)
