"""Which jobs are managed: by namespace, by queue, by default queue, or all; and what happens to the others."""

from __future__ import annotations

from typing import Any

from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.jobs.framework.management import MAX_DEPTH
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.labels import parse_selector
from kueue_builders import Wire, a_local_queue
from unit.controllers.kubelet import ENDS
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS, a_job, a_world, add, has, job, reasons, running, workload
from unit.jobs.queue_fixtures import API, PODS, WORKLOADS, create, kueue_object

QUEUE = "kueue.x-k8s.io/queue-name"
NAMESPACE = "/api/v1/namespaces/ns"


def chosen(text: str, **more: Any) -> JobSettings:
    selector = parse_selector(text)
    assert not isinstance(selector, str)
    return JobSettings(namespaces=selector, **more)


def plain(name: str, owner: Wire | None = None, **spec: Any) -> Wire:
    body = a_job(name)
    body["metadata"]["labels"] = {}
    body["spec"] |= spec
    if owner is not None:
        named = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        reference = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, **named}
        body["metadata"]["ownerReferences"] = [reference]
    return body


def label(world: World, **labels: str | None) -> None:
    assert world.server.patch(NAMESPACE, {"metadata": {"labels": labels}}).status == 200
    world.advance(3)


def test_a_job_in_an_unmanaged_namespace_is_ignored_until_the_namespace_is_managed() -> None:
    world = a_world(settings=chosen("team=batch"), has_admission=False)
    add(world, "a")
    world.advance(2)
    assert running(world) == ["a"]
    assert workload(world, "a") is None
    label(world, team="batch")
    assert has(world, "a", "Admitted")


def test_jobs_of_a_namespace_that_is_no_longer_managed_release_quota_when_they_end() -> None:
    world = a_world(settings=chosen("team=batch"))
    label(world, team="batch")
    add(world, "a")
    world.advance(2)
    label(world, team=None)
    assert running(world) == ["a"], "nobody stops it"
    assert has(world, "a", "Admitted")
    pod = world.server.get(PODS).body["items"][0]["metadata"]["name"]
    world.server.patch(f"{PODS}/{pod}", {"metadata": {"annotations": {ENDS: "Succeeded"}}})
    world.advance(4)
    assert has(world, "a", "Finished")


def test_a_suspended_job_of_a_namespace_that_is_no_longer_managed_neither_waits_for_quota_nor_holds_it() -> None:
    world = a_world(settings=chosen("team=batch"))
    label(world, team="batch")
    add(world, "running")
    world.advance(2)
    add(world, "waiting")
    world.advance(2)
    label(world, team=None)
    assert workload(world, "waiting") is None
    assert job(world, "waiting")["spec"]["suspend"] is True, "its user may start it"
    assert has(world, "running", "Admitted")
    label(world, team="batch")
    assert workload(world, "waiting") is not None


def test_jobs_of_a_kind_that_is_no_longer_managed_release_quota() -> None:
    world = a_world()
    add(world, "running")
    world.advance(2)
    add(world, "waiting")
    world.advance(2)
    quota, _, *others = world._makers
    world._makers = (quota, lambda: ManagedJobController(FeatureGates(), JobSettings(kinds=())), *others)
    world.crash()
    world.advance(2)
    assert workload(world, "waiting") is None
    assert running(world) == ["running"]
    assert has(world, "running", "Admitted"), "it holds its quota while it runs"
    world.server.patch(f"{PODS}/running-00001", {"metadata": {"annotations": {ENDS: "Succeeded"}}})
    world.advance(4)
    assert has(world, "running", "Finished")


def test_where_all_jobs_are_managed_one_without_a_queue_waits_for_a_queue() -> None:
    world = a_world(settings=JobSettings(manages_all=True), has_admission=False)
    create(world.server, JOBS, plain("a"))
    world.advance(2)
    assert running(world) == []
    found = workload(world, "a")
    assert found is not None
    assert "queueName" not in found["spec"]
    world.server.patch(f"{JOBS}/a", {"metadata": {"labels": {QUEUE: "lq"}}})
    world.advance(2)
    assert running(world) == ["a"]


def a_default_queue(world: World) -> None:
    create(world.server, f"{API}/namespaces/ns/localqueues", kueue_object("LocalQueue", a_local_queue("default")))
    world.advance(1)


def test_a_job_created_without_admission_gets_the_default_queue() -> None:
    world = a_world(has_admission=False)
    create(world.server, JOBS, plain("before"))
    world.server.epoch_s += 10
    a_default_queue(world)
    create(world.server, JOBS, plain("after"))
    create(world.server, JOBS, plain("left", suspend=True))
    world.advance(3)
    assert job(world, "after")["metadata"]["labels"][QUEUE] == "default"
    assert has(world, "after", "Admitted")
    assert QUEUE not in job(world, "before")["metadata"].get("labels", {}), "it was there before the queue"
    assert QUEUE not in job(world, "left")["metadata"].get("labels", {}), "nobody runs it"
    assert running(world) == ["after", "before"]


def test_children_of_a_queued_job_do_not_get_the_default_queue() -> None:
    world = a_world(has_admission=False)
    a_default_queue(world)
    add(world, "a")
    world.advance(2)
    create(world.server, JOBS, plain("child", owner=job(world, "a")))
    world.advance(2)
    assert QUEUE not in job(world, "child")["metadata"].get("labels", {})
    assert running(world) == ["a", "child"]
    assert len(world.server.get(WORKLOADS).body["items"]) == 1


def test_a_too_deep_chain_of_jobs_is_reported_once_and_not_started() -> None:
    world, levels = a_world(has_admission=False), MAX_DEPTH + 1
    above = None
    for level in range(levels + 1):
        create(world.server, JOBS, plain(f"a{level:02d}", owner=above, suspend=True))
        above = job(world, f"a{level:02d}")
    world.server.patch(f"{JOBS}/a{levels:02d}", {"metadata": {"labels": {QUEUE: "lq"}}})
    world.advance(25)
    assert reasons(world) == ["JobNestingTooDeep"]
    assert running(world) == []


def test_a_job_waits_for_an_owner_that_is_not_known_yet() -> None:
    world = a_world(has_admission=False)
    add(world, "a")
    ghost = {"metadata": {"name": "gone", "uid": "11111111-1111-4111-8111-111111111111"}}
    body = plain("child", owner=ghost)
    body["metadata"]["labels"] = {QUEUE: "lq"}
    world.server.post(JOBS, body)
    world.settle()
    (only,) = world.server.get(WORKLOADS).body["items"]
    assert only["metadata"]["ownerReferences"][0]["name"] == "a"
