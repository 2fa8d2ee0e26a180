"""Options of a Job: partial admission, prebuilt Workloads, execution time, priority, admission checks and other
clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate.controllers.framework.effects import Create, Effect, EffectResponse, Patch
from headgate.jobs.framework.workload import pod_sets, workload_name
from headgate.jobs.framework.workload_equivalence import equals_pod_sets, matches_stored_fields
from headgate.jobs.kinds.batch_job import JOB
from headgate.jobs.settings import JobSettings
from headgate.kube import conditions
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.api.pods_ready import WaitForPodsReady
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from kueue_builders import Wire
from unit.controllers.kubelet import ENDS, HELD
from unit.controllers.world import World
from unit.jobs.fixtures import JOBS, a_job, a_world, add, has, job, reasons, running, workload
from unit.jobs.queue_fixtures import API, PODS, PREEMPTION, WORKLOADS, create, kueue_object

LEAST = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
LONGEST = "kueue.x-k8s.io/max-exec-time-seconds"
CLASS = "kueue.x-k8s.io/priority-class"


def put(world: World, name: str, spec: Wire | None = None, labels: Wire | None = None, **more: Any) -> None:
    body = a_job(name, **more)
    body["spec"] |= spec or {}
    body["metadata"]["labels"] |= labels or {}
    create(world.server, JOBS, body)
    world.server.epoch_s += 1


def the_workload(world: World, name: str) -> Wire:
    found = workload(world, name)
    assert found is not None
    return found


def reason(world: World, name: str, condition: str) -> str:
    found = conditions.find(the_workload(world, name)["status"]["conditions"], condition)
    assert found is not None
    return str(found["reason"])


# -- a part of it --------------------------------------------------------------------------------------------------


def test_a_partially_admitted_job_starts_with_fewer_pods_and_gets_its_count_back() -> None:
    world = a_world(cpu=3, **PREEMPTION)
    put(world, "low", {"parallelism": 5}, priority="low", annotations={LEAST: "2"})
    world.advance(2)
    assert the_workload(world, "low")["spec"]["podSets"][0]["minCount"] == 2
    assert running(world) == ["low"]
    assert job(world, "low")["spec"]["parallelism"] == 3
    assert len(world.server.get(PODS).body["items"]) == 3
    put(world, "high", {"parallelism": 2}, priority="high")
    world.advance(3)
    assert running(world) == ["high"]
    assert job(world, "low")["spec"]["parallelism"] == 5
    uid = the_workload(world, "low")["metadata"]["uid"]
    world.server.delete(f"{JOBS}/high", {"propagationPolicy": "Background"})
    world.advance(3)
    assert running(world) == ["low"]
    assert job(world, "low")["spec"]["parallelism"] == 3
    assert the_workload(world, "low")["metadata"]["uid"] == uid, "it was the same Workload all the time"


def test_completions_follow_where_the_job_says_so() -> None:
    world = a_world(cpu=3)
    indexed = {"parallelism": 5, "completions": 5, "completionMode": "Indexed"}
    put(world, "a", indexed, annotations={LEAST: "1", EQUAL: "true"})
    world.advance(2)
    spec = job(world, "a")["spec"]
    assert (spec["parallelism"], spec["completions"]) == (3, 3)


def test_less_than_the_minimum_is_not_enough() -> None:
    world = a_world(cpu=1)
    put(world, "a", {"parallelism": 5}, annotations={LEAST: "2"})
    world.advance(2)
    assert running(world) == []
    assert job(world, "a")["spec"]["parallelism"] == 5


def test_finished_pods_of_a_partially_admitted_job_release_their_quota() -> None:
    world = a_world(cpu=3)
    put(world, "a", {"parallelism": 5, "completions": 5}, annotations={LEAST: "2"})
    world.advance(2)
    for pod in world.server.get(PODS).body["items"]:
        world.server.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"annotations": {ENDS: "Succeeded"}}})
    world.advance(4)
    add(world, "b")
    world.advance(2)
    assert job(world, "a")["status"]["succeeded"] == 3
    assert running(world) == ["a", "b"], "two of three are left to do"


def test_failed_indexes_release_their_quota() -> None:
    told = {"completedIndexes": "0,2-3", "failedIndexes": "3,5", "succeeded": 3}
    spec = {"parallelism": 8, "completions": 8, "completionMode": "Indexed"}
    assert JOB.reclaimable({"spec": spec, "status": told}) == {"main": 4}
    assert JOB.reclaimable({"spec": spec, "status": {"completedIndexes": "x,9-1", "succeeded": 1}}) == {}
    assert JOB.reclaimable({"spec": {"parallelism": 4}, "status": {"succeeded": 1}}) == {"main": 1}
    assert JOB.reclaimable({"spec": {"parallelism": 2, "completions": 9}, "status": {"succeeded": 3}}) == {}


# -- a Workload that others made -----------------------------------------------------------------------------------


def a_prebuilt(world: World, cpu: str = "1", name: str = "ready-made", **spec: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {"podSets": [{"name": "main", "count": 1, "template": template}], "queueName": "lq", **spec}
    create(
        world.server, WORKLOADS, kueue_object("Workload", {"metadata": {"name": name, "namespace": "ns"}, "spec": body})
    )


def test_a_job_waits_for_its_prebuilt_workload_and_adopts_it() -> None:
    world = a_world()
    put(world, "a", labels={PREBUILT: "ready-made"})
    world.advance(2)
    assert world.server.get(WORKLOADS).body["items"] == []
    assert [each.message for each in world.emitted if each.reason == "ErrWorkloadCompose"] == [
        'prebuilt workload "ready-made" not found'
    ]
    a_prebuilt(world, cpu="1000m")
    world.settle()
    found = the_workload(world, "a")
    assert found["metadata"]["name"] == "ready-made"
    assert found["metadata"]["labels"]["kueue.x-k8s.io/job-uid"] == job(world, "a")["metadata"]["uid"]
    world.advance(1)
    assert running(world) == ["a"]


def test_a_prebuilt_workload_that_differs_from_its_job_is_finished_and_starts_no_job() -> None:
    world = a_world()
    a_prebuilt(world, cpu="500m")
    put(world, "a", labels={PREBUILT: "ready-made"})
    world.advance(2)
    assert reason(world, "a", "Finished") == "OutOfSync"
    world.server.patch(f"{JOBS}/a", {"spec": {"suspend": False}})
    world.advance(2)
    assert running(world) == []


def test_a_prebuilt_workload_of_another_job_is_not_adopted() -> None:
    world = a_world()
    a_prebuilt(world)
    for name in ("a", "b"):
        put(world, name, labels={PREBUILT: "ready-made"})
        world.advance(2)
    assert running(world) == ["a"]
    texts = [each.message for each in world.emitted if each.reason == "ErrWorkloadCompose"]
    assert texts == ['prebuilt workload "ready-made" is already controlled by another object']


# -- what checks ask for -------------------------------------------------------------------------------------------


def checked(world: World, name: str, **update: Any) -> None:
    found = the_workload(world, name)
    state = {"name": "look", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    checks = [{**state, "podSetUpdates": [{"name": "main", **update}]}]
    answer = world.server.patch(
        f"{WORKLOADS}/{found['metadata']['name']}/status", {"status": {"admissionChecks": checks}}
    )
    assert answer.status == 200, answer.body


def a_checked_world() -> World:
    world = a_world(admissionChecksStrategy={"admissionChecks": [{"name": "look"}]})
    check = {"metadata": {"name": "look"}, "spec": {"controllerName": "example.com/look"}}
    create(world.server, f"{API}/admissionchecks", kueue_object("AdmissionCheck", check))
    now = "2026-01-01T00:00:00Z"
    active = {"type": "Active", "status": "True", "reason": "A", "message": "", "lastTransitionTime": now}
    world.server.patch(f"{API}/admissionchecks/look/status", {"status": {"conditions": [active]}})
    world.advance(1)
    add(world, "a")
    world.advance(2)
    assert has(world, "a", "QuotaReserved")
    assert running(world) == []
    return world


def test_pod_set_updates_of_a_check_are_added_to_the_template_and_removed_again() -> None:
    world = a_checked_world()
    toleration = {"key": "spot", "operator": "Exists"}
    checked(
        world,
        "a",
        labels={"team": "x"},
        annotations={"why": "y"},
        nodeSelector={"zone": "z"},
        tolerations=[toleration],
    )
    world.advance(2)
    assert running(world) == ["a"]
    template = job(world, "a")["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "x"
    assert template["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == "cq"
    assert template["metadata"]["annotations"]["why"] == "y"
    assert template["spec"]["nodeSelector"] == {"zone": "z", "disk": "ssd"}
    assert template["spec"]["tolerations"] == [toleration]
    name = the_workload(world, "a")["metadata"]["name"]
    world.server.patch(f"{WORKLOADS}/{name}", {"spec": {"active": False}})
    world.advance(3)
    template = job(world, "a")["spec"]["template"]
    assert running(world) == []
    assert "team" not in template["metadata"]["labels"]
    assert "kueue.x-k8s.io/podset" not in template["metadata"]["labels"]
    assert template["metadata"]["labels"]["job-name"] == "a", "the server's own stay"
    assert not template["spec"].get("nodeSelector")
    assert not template["spec"].get("tolerations")


def test_a_check_that_contradicts_the_flavor_ends_the_workload_with_the_reason() -> None:
    world = a_checked_world()
    checked(world, "a", nodeSelector={"disk": "hdd"})
    world.advance(2)
    assert running(world) == []
    finished = conditions.find(the_workload(world, "a")["status"]["conditions"], "Finished")
    assert finished is not None
    assert finished["reason"] == "FailedToStart"
    assert finished["message"] == 'in admission check "look": conflict for nodeSelector: disk: ssd and hdd'


# -- time and priority ---------------------------------------------------------------------------------------------


def test_a_job_may_not_run_longer_than_its_label_says() -> None:
    world = a_world()
    put(world, "a", labels={LONGEST: "30"})
    world.advance(2)
    assert the_workload(world, "a")["spec"]["maximumExecutionTimeSeconds"] == 30
    assert running(world) == ["a"]
    world.advance(40)
    assert running(world) == []
    assert reason(world, "a", "Evicted").startswith("Deactivated")
    assert the_workload(world, "a")["spec"]["active"] is False


def test_a_changed_priority_class_is_applied_to_a_running_job_too() -> None:
    world = a_world()
    for name in ("a", "b"):
        add(world, name, priority="low")
        world.advance(1)
    for name in ("a", "b"):
        assert world.server.patch(f"{JOBS}/{name}", {"metadata": {"labels": {CLASS: "high"}}}).status == 200
    world.advance(2)
    assert [the_workload(world, name)["spec"]["priority"] for name in ("a", "b")] == [100, 100]
    assert running(world) == ["a"]
    assert reasons(world).count("UpdatedWorkload") == 2


def test_pods_that_are_not_ready_in_time_release_their_quota() -> None:
    world = a_world(quota=QuotaSettings(pods_ready=WaitForPodsReady(timeout_s=30)))
    body = a_job("a")
    body["spec"]["template"]["metadata"]["annotations"][HELD] = "true"
    create(world.server, JOBS, body)
    world.advance(10)
    assert running(world) == ["a"]
    world.advance(30)
    assert running(world) == []
    assert reason(world, "a", "Evicted") == "PodsReadyTimeout"


# -- when quota is free --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "features", "is_free"),
    [
        ({}, FeatureGates(), True),
        ({}, FeatureGates(pod_integration_fast_quota_release=False), True),
        ({"batch/job": "OnTerminal"}, FeatureGates(), False),
    ],
    ids=["by default", "the feature gate is about pods only", "by the setting"],
)
def test_the_quota_of_an_evicted_job_is_released_by_the_installations_setting(
    when: Any, features: FeatureGates, is_free: bool
) -> None:
    world = a_world(features=features, settings=JobSettings(quota_release=when), **PREEMPTION)
    add(world, "low", priority="low")
    world.advance(2)
    pod = world.server.get(PODS).body["items"][0]["metadata"]["name"]
    world.server.patch(f"{PODS}/{pod}", {"metadata": {"annotations": {HELD: "true"}}})
    add(world, "high", priority="high")
    world.advance(2)
    assert job(world, "low")["status"].get("active", 0) == 0
    assert job(world, "low")["status"]["terminating"] == 1
    assert has(world, "high", "Admitted") is is_free
    world.server.patch(f"{PODS}/{pod}", {"metadata": {"annotations": {HELD: None}}})
    world.advance(60)
    assert has(world, "high", "Admitted")


# -- meddling ------------------------------------------------------------------------------------------------------


def test_a_workload_that_lost_its_owner_reference_goes_back_to_its_job() -> None:
    world = a_world()
    add(world, "a")
    world.advance(2)
    name = the_workload(world, "a")["metadata"]["name"]
    uid = the_workload(world, "a")["metadata"]["uid"]
    assert world.server.patch(f"{WORKLOADS}/{name}", {"metadata": {"ownerReferences": None}}).status == 200
    world.advance(3)
    assert the_workload(world, "a")["metadata"]["uid"] == uid
    assert running(world) == ["a"]
    assert "ErrWorkloadCompose" not in reasons(world)


def _pruned(obj: Wire) -> Wire:
    """As a server keeps it whose schema does not know image pull policies."""
    if "podSets" not in (obj.get("spec") or {}):
        return obj
    sets = [
        {**each, "template": {**each["template"], "spec": {**each["template"]["spec"], "containers": _bare(each)}}}
        for each in obj["spec"]["podSets"]
    ]
    return {**obj, "spec": {**obj["spec"], "podSets": sets}}


def _bare(pods: Wire) -> list[Wire]:
    return [
        {key: value for key, value in each.items() if key != "imagePullPolicy"}
        for each in pods["template"]["spec"]["containers"]
    ]


def test_a_server_that_stores_a_part_of_a_template_causes_no_loop_and_no_stop() -> None:
    world = a_world(cpu=1)

    def prune(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Create) and effect.resource == WORKLOAD and _pruned(effect.obj) != effect.obj:
            return world.perform(msgspec.structs.replace(effect, obj=_pruned(effect.obj)))
        is_patch = isinstance(effect, Patch) and effect.resource == WORKLOAD
        if isinstance(effect, Patch) and is_patch and _pruned(effect.body) != effect.body:
            return world.perform(msgspec.structs.replace(effect, body=_pruned(effect.body)))
        return None

    world.refuse = prune
    add(world, "a")
    world.advance(2)
    add(world, "b")
    world.advance(2)
    assert "imagePullPolicy" not in the_workload(world, "a")["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    assert running(world) == ["a"]
    before = len(world.requests)
    world.crash()
    world.advance(60)
    writes = [path for method, path in world.requests[before:] if method in ("POST", "PATCH", "DELETE")]
    assert len([each for each in writes if "/workloads" in each]) < 6, writes
    assert running(world) == ["a"]


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        (lambda spec: spec["containers"][0].pop("imagePullPolicy"), True),
        (lambda spec: spec.pop("dnsPolicy"), True),
        (lambda spec: spec["containers"][0]["resources"]["requests"].update(cpu="1000m"), True),
        (lambda spec: spec["containers"][0]["resources"]["requests"].update(cpu="1m"), False),
        (lambda spec: spec["containers"][0].pop("resources"), False),
        (lambda spec: spec.update(nodeSelector={"a": "b"}), False),
        (lambda spec: spec["containers"].append({"name": "d"}), False),
        (lambda spec: spec["containers"][0].update(image="other"), False),
    ],
)
def test_fields_that_affect_quota_are_never_treated_as_dropped(change: Callable[[Wire], Any], is_kept: bool) -> None:
    world = a_world()
    add(world, "a")
    wanted, known = (pod_sets(JOB, job(world, "a")) for _ in range(2))
    change(known[0]["template"]["spec"])
    found = {"spec": {"podSets": known}}
    assert not equals_pod_sets(found, wanted)
    assert matches_stored_fields(found, wanted) is is_kept
    assert workload_name(JOB, job(world, "a")).startswith("job-a-")
