"""Pods as users create them: admission gates them, their owners create them, and pods of jobs are not managed."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from headgate.admission.settings import AdmissionSettings
from headgate.cli.wiring.controllers import template_hash
from headgate.controllers.deployments.controller import DeploymentController
from headgate.controllers.jobs.controller import JobController
from headgate.controllers.replica_sets.controller import ReplicaSetController
from headgate.controllers.stateful_sets.controller import StatefulSetController
from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.kube.feature_gates import FeatureGates
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.pods.fixtures import K, a_world, has, is_gated, pods, started, workloads
from unit.jobs.queue_fixtures import create

FEATURES = FeatureGates(scheduling_gated_by=True)
APPS = "/apis/apps/v1/namespaces/ns"


def behind_doors(cpu: int = 3) -> CrashingWorld:
    settings = AdmissionSettings(schedulers=frozenset(), suspends_jobs=True, features=FEATURES)
    numbers = count(1)

    def draw() -> str:
        return f"{next(numbers):05d}"

    others = (
        lambda: ManagedJobController(FEATURES),
        lambda: JobController(draw, FEATURES),
        lambda: ReplicaSetController(draw),
        lambda: DeploymentController(template_hash()),
        StatefulSetController,
    )
    return a_world(cpu=cpu, features=FEATURES, others=others, admission=settings)


def an_owner(kind: str, replicas: int = 2, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": "web", "labels": {f"{K}/queue-name": "lq"}, **metadata},
        "spec": {
            "replicas": replicas,
            **({"serviceName": "web"} if kind == "statefulsets" else {}),
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


@pytest.mark.parametrize("kind", ["deployments", "replicasets", "statefulsets"])
def test_the_pods_of_an_owner_wait_and_run_with_its_quota(kind: str) -> None:
    world = behind_doors(cpu=2)
    create(world.server, f"{APPS}/{kind}", an_owner(kind))
    world.advance(5)
    assert len(started(world)) == 2
    assert len(workloads(world)) == (1 if kind == "statefulsets" else 2)
    create(world.server, "/api/v1/namespaces/ns/pods", a_pod_of_a_user("late"))
    world.advance(2)
    assert is_gated(pods(world)["late"])
    world.server.patch(f"{APPS}/{kind}/web", {"spec": {"replicas": 0}})
    world.advance(5)
    assert started(world) == ["late"], "what they held is free"


def test_a_deleted_pod_of_a_stateful_set_is_replaced_in_its_group() -> None:
    world = behind_doors(cpu=2)
    create(world.server, f"{APPS}/statefulsets", an_owner("statefulsets"))
    world.advance(5)
    before = pods(world)["web-0"]["metadata"]["uid"]
    world.server.delete("/api/v1/namespaces/ns/pods/web-0")
    world.advance(5)
    assert pods(world)["web-0"]["metadata"]["uid"] != before
    assert started(world) == ["web-0", "web-1"]


def test_a_gated_deployment_holds_its_pods_and_its_template_is_unchanged() -> None:
    world = behind_doors()
    gate = f"{K}/scheduling-gated-by"
    create(world.server, f"{APPS}/deployments", an_owner("deployments", annotations={gate: "example.com/g"}))
    world.advance(5)
    assert len(pods(world)) == 2
    assert not workloads(world)
    world.server.patch(f"{APPS}/deployments/web", {"metadata": {"annotations": {gate: None}}})
    world.advance(5)
    assert len(started(world)) == 2


def test_pods_of_a_managed_job_are_not_managed_themselves() -> None:
    world = behind_doors()
    template = {"spec": {"restartPolicy": "Never", "containers": a_pod_of_a_user("x")["spec"]["containers"]}}
    job = {"metadata": {"name": "job", "labels": {f"{K}/queue-name": "lq"}}, "spec": {"template": template}}
    create(world.server, "/apis/batch/v1/namespaces/ns/jobs", job)
    world.advance(5)
    assert list(workloads(world)) == ["job"]
    assert has(world, "job", "Admitted")
    assert [is_gated(each) for each in pods(world).values()] == [False]


def a_pod_of_a_user(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"name": name, "labels": {f"{K}/queue-name": "lq"}}, "spec": {"containers": [container]}}
