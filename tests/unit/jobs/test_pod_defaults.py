"""LimitRanges and RuntimeClasses count for a job before its pods exist."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.pods.requests import pod_requests
from headgate.kube.resource_amounts import amount_text, units
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs import fixtures as stage
from unit.jobs.fixtures import JOBS, a_world, job, running, workload
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import API, PODS, create

RANGES = "/api/v1/namespaces/ns/limitranges"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def a_range(name: str = "defaults", **limit: Any) -> Wire:
    return {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **limit}]}}


def a_class(cpu: str) -> Wire:
    return {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": cpu}}}


def add(world: CrashingWorld, name: str, **pod: Any) -> None:
    body = stage.a_job(name)
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **pod}
    create(world.server, JOBS, {**body, "spec": {"template": {"spec": spec}}})
    world.server.epoch_s += 1


def usage(world: CrashingWorld) -> Wire:
    status = world.server.get(f"{API}/clusterqueues/cq").body["status"]
    return {each["name"]: each["total"] for each in status["flavorsUsage"][0]["resources"]}


def test_jobs_without_requests_are_counted_by_the_default_of_their_namespace() -> None:
    world = a_world(cpu=4)
    create(world.server, RANGES, a_range(defaultRequest={"cpu": "2"}))
    world.advance(1)
    for number in range(5):
        add(world, f"j{number}")
    world.advance(5)
    assert running(world) == ["j0", "j1"]
    assert usage(world) == {"cpu": "4"}


def one(**resources: Any) -> Wire:
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


TEMPLATES: dict[str, tuple[Wire, str, str]] = {
    "nothing": ({}, "1", "0"),
    "a limit alone": (one(limits={"cpu": "3"}), "3", "3"),
    "a request": (one(requests={"cpu": "500m"}), "500m", "500m"),
    "two containers": ({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}, "2", "0"),
    "an init container": (
        {"initContainers": [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "2500m"}}}]},
        "2500m",
        "2500m",
    ),
    "a sidecar": ({"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}]}, "2", "0"),
    "pod-level limits": ({"resources": {"limits": {"cpu": "4"}}}, "4", "4"),
    "pod-level requests": ({"resources": {"requests": {"cpu": "3500m"}}}, "3500m", "3500m"),
    "a runtime class": ({"runtimeClassName": "vm"}, "1250m", "250m"),
}
"""The pod template, and the usage of its pod with and without the LimitRange."""


@pytest.mark.parametrize("has_range", [True, False])
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_usage_of_a_job_is_what_its_pods_request(name: str, has_range: bool) -> None:
    template, *expected = TEMPLATES[name]
    world = a_world(cpu=4)
    create(world.server, CLASSES, a_class("250m"))
    if has_range:
        create(world.server, RANGES, a_range(defaultRequest={"cpu": "1"}, default={"cpu": "4"}))
    world.advance(1)
    add(world, "j", **template)
    world.advance(2)
    assert running(world) == ["j"]
    (pod,) = world.server.get(PODS).body["items"]
    asked = pod_requests(pod).get("cpu")
    total = "0" if asked is None else amount_text("cpu", units("cpu", asked))
    assert usage(world) == {"cpu": total} == {"cpu": expected[0] if has_range else expected[1]}


def test_a_job_that_waits_follows_a_limit_range_that_changes() -> None:
    world = a_world(cpu=1)
    create(world.server, RANGES, a_range(defaultRequest={"cpu": "2"}))
    world.advance(1)
    add(world, "j")
    world.advance(2)
    assert running(world) == []
    assert world.server.delete(f"{RANGES}/defaults").status == 200
    create(world.server, RANGES, a_range(defaultRequest={"cpu": "1"}))
    world.advance(2)
    assert running(world) == ["j"]
    assert usage(world) == {"cpu": "1"}


def test_a_job_that_waits_follows_a_runtime_class_that_comes_later() -> None:
    world = a_world(cpu=4)
    create(world.server, f"{API}/namespaces/ns/localqueues", _stopped())
    body = stage.a_job("j")
    body["metadata"]["labels"][stage.QUEUE] = "stopped"
    body["spec"]["template"]["spec"]["runtimeClassName"] = "vm"
    create(world.server, JOBS, body)
    world.advance(1)
    create(world.server, CLASSES, a_class("500m"))
    world.server.patch(f"{API}/namespaces/ns/localqueues/stopped", {"spec": {"stopPolicy": "None"}})
    world.advance(2)
    assert running(world) == ["j"]
    assert usage(world) == {"cpu": "1500m"}


def test_a_job_that_waits_follows_a_runtime_class_that_is_deleted() -> None:
    world = a_world(cpu=1)
    create(world.server, CLASSES, a_class("500m"))
    world.advance(1)
    body = stage.a_job("j")
    body["spec"]["template"]["spec"]["runtimeClassName"] = "vm"
    create(world.server, JOBS, body)
    world.advance(2)
    assert running(world) == []
    assert world.server.delete(f"{CLASSES}/vm").status == 200
    world.advance(2)
    assert running(world) == ["j"]
    assert usage(world) == {"cpu": "1"}


def test_the_template_in_the_workload_stays_what_its_user_wrote() -> None:
    world = a_world(cpu=4)
    create(world.server, RANGES, a_range(defaultRequest={"cpu": "2"}))
    world.advance(1)
    add(world, "j")
    world.advance(2)
    found = workload(world, "j")
    assert found is not None
    assert found["spec"]["podSets"][0]["template"]["spec"]["containers"][0].get("resources", {}) == {}
    assert job(world, "j")["spec"]["template"]["spec"]["containers"][0].get("resources", {}) == {}


def test_a_limit_range_that_comes_later_adds_nothing_to_pods_that_exist() -> None:
    world = of_pods.a_world(cpu=1)
    of_pods.add(world, "first", ends="")
    world.advance(1)
    of_pods.add(world, "second")
    create(world.server, RANGES, a_range(defaultRequest={"cpu": "2", "memory": "1Gi"}))
    world.advance(1)
    of_pods.delete(world, "first")
    world.advance(90)
    assert of_pods.started(world) == ["second"]


def _stopped() -> Wire:
    spec = {"clusterQueue": "cq", "stopPolicy": "Hold"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "stopped"},
        "spec": spec,
    }
