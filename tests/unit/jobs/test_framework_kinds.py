"""The built-in job kinds in a queue, each with its definition and a scripted operator that writes its status."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.jobs.framework.workload import PriorityClasses, priority
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.fixtures import a_world
from unit.jobs.operators import (
    ENDS,
    FAILURE,
    SPECS,
    SUCCESS,
    a_template,
    an_object,
    definition,
    encoded,
    kind_of,
    operator_of,
    path_of,
    settings,
)
from unit.jobs.queue_fixtures import API, PREEMPTION, WORKLOADS, create

each_kind = pytest.mark.parametrize("kind", ["JobSet", "RayJob", "RayCluster", "PyTorchJob", "MPIJob"])
"""The other kinds of the training operator differ in the names of fields only (``tests/property/test_job_kinds.py``).
"""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def a_kind_world(*kinds: str, cpu: int = 2, **more: Any) -> CrashingWorld:
    definitions = [definition(each) for each in kinds]
    operators = [operator_of(each) for each in kinds]
    return a_world(cpu, settings=settings(*kinds), crds=definitions, more=operators, **more)


def add(world: CrashingWorld, kind: str, name: str, **more: Any) -> Wire:
    body = create(world.server, path_of(kind), an_object(name, kind, **more))
    world.server.epoch_s += 1
    return body


def the(world: CrashingWorld, kind: str, name: str) -> Wire:
    found: Wire = world.server.get(f"{path_of(kind)}/{name}").body
    return found


def workload(world: CrashingWorld, name: str) -> Wire:
    items = world.server.get(WORKLOADS).body["items"]
    found: Wire = next(each for each in items if each["metadata"]["ownerReferences"][0]["name"] == name)
    return found


def is_running(world: CrashingWorld, kind: str, name: str) -> bool:
    return get_path(the(world, kind, name), kind_of(kind).hold.path) is False


def finished(world: CrashingWorld, name: str) -> Wire:
    return conditions.find(workload(world, name)["status"]["conditions"], "Finished") or {}


# -- the life of an object -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SPECS)
def test_the_second_object_runs_after_the_first(kind: str) -> None:
    world = a_kind_world(kind)
    add(world, kind, "a")
    world.advance(2)
    add(world, kind, "b")
    world.advance(2)
    assert (is_running(world, kind, "a"), is_running(world, kind, "b")) == (True, False)
    assert conditions.is_true(workload(world, "a")["status"]["conditions"], "PodsReady")
    if kind in SUCCESS:
        world.server.patch(f"{path_of(kind)}/a", {"metadata": {"annotations": {ENDS: SUCCESS[kind]}}})
        world.advance(3)
        told = f"it said {SUCCESS[kind]}"
        assert (finished(world, "a")["reason"], finished(world, "a")["message"]) == ("Succeeded", told)
    else:
        world.server.delete(f"{path_of(kind)}/a")
        world.advance(3)
    assert is_running(world, kind, "b")


@pytest.mark.parametrize("kind", ["JobSet", "RayJob", "PyTorchJob"])
def test_a_failed_object_finishes_its_workload_with_the_message_of_its_operator(kind: str) -> None:
    world = a_kind_world(kind)
    add(world, kind, "a", end=FAILURE[kind])
    world.advance(4)
    assert (finished(world, "a")["reason"], finished(world, "a")["message"]) == ("Failed", f"it said {FAILURE[kind]}")


@each_kind
def test_every_template_of_a_started_object_has_the_selector_of_its_flavor(kind: str) -> None:
    world = a_kind_world(kind)
    add(world, kind, "a")
    world.advance(2)
    pod_sets = kind_of(kind).pod_sets(the(world, kind, "a"))
    assert (len(pod_sets.found), pod_sets.problem) == (2, "")
    for each in pod_sets.found:
        assert each.charged["spec"]["nodeSelector"] == {"disk": "ssd"}
        assert each.charged["metadata"]["labels"]["kueue.x-k8s.io/podset"] == each.name


@each_kind
def test_a_preempted_object_is_byte_for_byte_what_its_user_wrote(kind: str) -> None:
    world = a_kind_world(kind, **PREEMPTION)
    before = add(world, kind, "low", priority="low")
    world.advance(3)
    assert is_running(world, kind, "low")
    add(world, kind, "high", priority="high")
    world.advance(6)
    assert is_running(world, kind, "high")
    assert encoded(the(world, kind, "low")["spec"]) == encoded(before["spec"])
    assert get_path(before, kind_of(kind).hold.path) is True


@each_kind
def test_a_deleted_object_leaves_nothing(kind: str) -> None:
    world = a_kind_world(kind)
    add(world, kind, "a")
    world.advance(2)
    world.server.delete(f"{path_of(kind)}/a")
    world.advance(3)
    assert world.server.get(WORKLOADS).body["items"] == []


@each_kind
def test_a_kind_without_a_definition_costs_nothing_and_works_when_the_definition_is_created(kind: str) -> None:
    world = a_world(2, settings=settings(kind), more=[operator_of(kind)])
    watched = {each.resource for controller in world.controllers for each in controller.watches()}
    assert (world.writes, kind_of(kind).resource in watched) == (0, False)
    create(world.server, DEFINITIONS, definition(kind))
    world.discover()
    add(world, kind, "a")
    world.advance(3)
    assert is_running(world, kind, "a")


@each_kind
def test_a_kind_that_is_not_turned_on_is_left_alone(kind: str) -> None:
    world = a_world(2, crds=[definition(kind)], more=[operator_of(kind)])
    body = add(world, kind, "a")
    world.advance(3)
    assert get_path(body, kind_of(kind).hold.path) is None
    assert world.server.get(WORKLOADS).body["items"] == []


# -- what is charged -----------------------------------------------------------------------------------------------


def charged(kind: str, spec: Wire, **metadata: Any) -> list[tuple[str, int, list[Any]]]:
    """The name, the count and the requests of each pod set."""
    found = kind_of(kind).pod_sets({"metadata": metadata, "spec": spec})
    assert found.problem == ""
    return [
        (each.name, each.count, [(one.get("resources") or {}).get("requests") for one in _containers(each.charged)])
        for each in found.found
    ]


def _containers(template: Wire) -> list[Wire]:
    found: list[Wire] = template["spec"]["containers"]
    return found


def test_a_replicated_job_has_its_replicas_times_the_pods_of_one_job() -> None:
    def job(**spec: Any) -> Wire:
        return {"spec": {"template": a_template(), **spec}}

    jobs = [
        {"name": "A", "replicas": 3, "template": job(parallelism=4, completions=2)},
        {"name": "b", "replicas": 2, "template": job(parallelism=4)},
        {"name": "c", "template": job(completions=5)},
        {"name": "d", "replicas": 0, "template": job()},
    ]
    assert [found[:2] for found in charged("JobSet", {"replicatedJobs": jobs})] == [
        ("a", 6),
        ("b", 8),
        ("c", 1),
        ("d", 0),
    ]


def test_the_pods_of_succeeded_child_jobs_are_reclaimable() -> None:
    job = an_object("a", "JobSet", pods=5)
    job["spec"]["replicatedJobs"][1]["replicas"] = 3
    job["status"] = {"replicatedJobsStatus": [{"name": "workers", "succeeded": 2}, {"name": "other", "succeeded": 9}]}
    assert kind_of("JobSet").reclaimable(job) == {"workers": 8}


def test_a_job_set_is_ready_when_all_its_jobs_are_ready_or_have_succeeded() -> None:
    job = an_object("a", "JobSet", pods=5)
    one, other = {"name": "Leader", "ready": 1, "succeeded": 0}, {"name": "workers", "ready": 0, "succeeded": 1}
    assert kind_of("JobSet").ready({**job, "status": {"replicatedJobsStatus": [one, other]}}) == 5
    assert kind_of("JobSet").ready({**job, "status": {"replicatedJobsStatus": [one]}}) == 0


def a_cluster(**more: Any) -> Wire:
    return {"headGroupSpec": {"template": a_template()}, **more}


def test_a_worker_group_has_its_replicas_times_its_hosts() -> None:
    groups = [
        {"groupName": "Gpu", "replicas": 3, "numOfHosts": 4, "template": a_template()},
        {"groupName": "default", "template": a_template()},
        {"groupName": "none", "replicas": 2, "numOfHosts": 0, "template": a_template()},
    ]
    found = charged("RayCluster", a_cluster(workerGroupSpecs=groups))
    assert [each[:2] for each in found] == [("head", 1), ("gpu", 12), ("default", 1), ("none", 2)]


def test_the_autoscaler_of_a_ray_cluster_is_charged_with_its_head() -> None:
    spec = a_cluster(enableInTreeAutoscaling=True)
    assert charged("RayCluster", spec) == [("head", 1, [{"cpu": "1"}, {"cpu": "500m", "memory": "512Mi"}])]
    spec["autoscalerOptions"] = {"resources": {"requests": {"cpu": "2"}}}
    assert charged("RayCluster", spec) == [("head", 1, [{"cpu": "1"}, {"cpu": "2"}])]


@pytest.mark.parametrize(
    ("spec", "annotations"), [({"gcsFaultToleranceOptions": {}}, {}), ({}, {"ray.io/ft-enabled": "true"})]
)
def test_a_fault_tolerant_head_is_charged_for_its_clean_up(spec: Wire, annotations: Wire) -> None:
    spec = a_cluster(**spec)
    assert charged("RayCluster", spec, annotations=annotations) == [("head", 1, [{"cpu": "1", "memory": "256Mi"}])]
    spec["headGroupSpec"]["template"] = a_template("100m")
    assert charged("RayCluster", spec, annotations=annotations) == [("head", 1, [{"cpu": "200m", "memory": "256Mi"}])]


@pytest.mark.parametrize(
    ("mode", "head", "submitter"),
    [
        ("K8sJobMode", [{"cpu": "1"}], [{"cpu": "500m", "memory": "200Mi"}]),
        (None, [{"cpu": "1"}], [{"cpu": "500m", "memory": "200Mi"}]),
        ("HTTPMode", [{"cpu": "1"}], None),
        ("InteractiveMode", [{"cpu": "1"}], None),
        ("SidecarMode", [{"cpu": "1"}, {"cpu": "500m", "memory": "200Mi"}], None),
    ],
)
def test_the_submitter_of_a_ray_job_is_charged_where_it_runs(mode: str | None, head: Any, submitter: Any) -> None:
    spec = {"rayClusterSpec": a_cluster(), **({"submissionMode": mode} if mode else {})}
    expected = [("head", 1, head), *([("submitter", 1, submitter)] if submitter else [])]
    assert charged("RayJob", spec) == expected


def test_a_submitter_template_of_the_user_is_charged_as_it_is() -> None:
    spec: Wire = {"rayClusterSpec": a_cluster(), "submitterPodTemplate": a_template("3")}
    assert charged("RayJob", spec)[1:] == [("submitter", 1, [{"cpu": "3"}])]
    spec["submissionMode"] = "HTTPMode"
    assert charged("RayJob", spec)[1:] == []


def test_the_default_submitter_is_written_at_the_start_and_removed_at_the_stop() -> None:
    world = a_kind_world("RayJob", **PREEMPTION)
    quota = [{"name": "cpu", "nominalQuota": "3"}, {"name": "memory", "nominalQuota": "1Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default", "resources": quota}]}
    world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"resourceGroups": [group]}})
    body = an_object("low", "RayJob", priority="low")
    body["spec"]["submissionMode"] = "K8sJobMode"
    before = create(world.server, path_of("RayJob"), body)
    world.advance(3)
    started = the(world, "RayJob", "low")["spec"]["submitterPodTemplate"]
    assert started["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert started["spec"]["containers"][0]["image"] == "i"
    add(world, "RayJob", "high", priority="high")
    world.advance(6)
    assert encoded(the(world, "RayJob", "low")["spec"]) == encoded(before["spec"])


def test_replica_types_are_pod_sets_in_the_order_of_kueue() -> None:
    types = {each: {"template": a_template(), "replicas": 2} for each in ("Evaluator", "Worker", "PS", "Master")}
    found = charged("TFJob", {"tfReplicaSpecs": {**types, "Chief": {"template": a_template()}, "Other": None}})
    assert [each[:2] for each in found] == [("chief", 1), ("master", 2), ("ps", 2), ("worker", 2), ("evaluator", 2)]


def test_a_replica_type_that_is_not_known_is_charged_too() -> None:
    types = {each: {"template": a_template()} for each in ("Extra", "Worker")}
    assert [each[:2] for each in charged("JAXJob", {"jaxReplicaSpecs": types})] == [("worker", 1), ("extra", 1)]


def test_the_priority_class_of_the_scheduling_policy_has_precedence() -> None:
    kind, job = kind_of("PyTorchJob"), an_object("a", "PyTorchJob")
    classes = PriorityClasses(of_pods={each: {"metadata": {"name": each}, "value": 7} for each in ("run", "template")})
    for each in job["spec"]["pytorchReplicaSpecs"].values():
        each["template"]["spec"]["priorityClassName"] = "template"
    assert _class_name(priority(kind, job, classes)) == "template"
    job["spec"]["runPolicy"] = {"schedulingPolicy": {"priorityClass": "run"}}
    assert _class_name(priority(kind, job, classes)) == "run"


def _class_name(found: Wire | str) -> Any:
    return get_path(found, ("priorityClassRef", "name")) if isinstance(found, dict) else found


# -- activity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "is_active"),
    [
        ("JobSet", {}, False),
        ("JobSet", {"replicatedJobsStatus": [{"active": 0}, {"active": 2}]}, True),
        ("MPIJob", {"replicaStatuses": {"Launcher": {"active": 0}, "Worker": {"active": 1}}}, True),
        ("MPIJob", {"replicaStatuses": {"Launcher": {}, "Worker": {"active": 0}}}, False),
        ("RayJob", {}, False),
        ("RayJob", {"jobDeploymentStatus": ""}, False),
        ("RayJob", {"jobDeploymentStatus": "Suspending"}, True),
        ("RayJob", {"jobDeploymentStatus": "Initializing"}, True),
        ("RayJob", {"jobDeploymentStatus": "Suspended"}, False),
        ("RayCluster", None, False),
        ("RayCluster", {"state": "suspended"}, False),
        ("RayCluster", {"state": "failed"}, True),
        ("RayCluster", {"desiredWorkerReplicas": 2}, True),
        # After a suspension KubeRay keeps this state until all pods are ready.
        (
            "RayCluster",
            {"state": "suspended", "conditions": [{"type": "RayClusterSuspended", "status": "False"}]},
            True,
        ),
        (
            "RayCluster",
            {"state": "suspended", "conditions": [{"type": "RayClusterSuspended", "status": "True"}]},
            False,
        ),
    ],
)
def test_quota_is_in_use_until_the_operator_reports_no_pods(kind: str, status: Any, is_active: bool) -> None:
    assert kind_of(kind).is_active({**an_object("a", kind), "status": status}) is is_active


def test_the_quota_of_an_evicted_ray_cluster_is_released_when_its_pods_are_deleted() -> None:
    world = a_world(2, settings=settings("RayCluster"), crds=[definition("RayCluster")], **PREEMPTION)
    add(world, "RayCluster", "low", priority="low")
    world.advance(2)
    status = f"{path_of('RayCluster')}/low/status"
    world.server.patch(status, {"status": {"desiredWorkerReplicas": 1}})
    add(world, "RayCluster", "high", priority="high")
    world.advance(3)
    assert (is_running(world, "RayCluster", "low"), is_running(world, "RayCluster", "high")) == (False, False)
    world.server.patch(status, {"status": {"state": "suspended"}})
    world.advance(3)
    assert is_running(world, "RayCluster", "high")


# -- validation ----------------------------------------------------------------------------------------------------


def a_ray_job(**spec: Any) -> Wire:
    body = an_object("a", "RayJob")
    body["spec"] = {key: value for key, value in {**body["spec"], **spec}.items() if value is not None}
    return body


def groups(*names: str) -> list[Wire]:
    return [{"groupName": each, "template": a_template()} for each in names]


RAY_REFUSALS: list[tuple[Wire, str]] = [
    (
        {"clusterSelector": {"a": "b"}},
        'spec.clusterSelector: Invalid value: {"a":"b"}: a kueue managed job should not use an existing cluster',
    ),
    (
        {"rayClusterSpec": None},
        "spec.rayClusterSpec: Required value: rayClusterSpec is required for Kueue-managed jobs that don't use "
        "clusterSelector",
    ),
    (
        {"shutdownAfterJobFinishes": None},
        "spec.shutdownAfterJobFinishes: Invalid value: false: a kueue managed job should delete the cluster after "
        "finishing",
    ),
    (
        {"shutdownAfterJobFinishes": False},
        "spec.shutdownAfterJobFinishes: Invalid value: false: a kueue managed job should delete the cluster after "
        "finishing",
    ),
    (
        {"rayClusterSpec": a_cluster(enableInTreeAutoscaling=True)},
        "spec.rayClusterSpec.enableInTreeAutoscaling: Invalid value: true: a kueue managed job should only use "
        "autoscaling when workload slicing is enabled",
    ),
    (
        {"rayClusterSpec": a_cluster(workerGroupSpecs=groups("a", "Head"))},
        'spec.rayClusterSpec.workerGroupSpecs[1].groupName: Forbidden: "head" is reserved for the head group',
    ),
    (
        {"rayClusterSpec": a_cluster(workerGroupSpecs=groups(*(f"g{n}" for n in range(18))))},
        "spec.rayClusterSpec.workerGroupSpecs: Too many: 18: must have at most 17 items",
    ),
]


@pytest.mark.parametrize(("spec", "message"), RAY_REFUSALS)
def test_a_ray_job_that_cannot_be_queued_is_rejected(spec: Wire, message: str) -> None:
    world = a_kind_world("RayJob")
    reply = world.server.post(path_of("RayJob"), a_ray_job(**spec))
    assert reply.status == 403
    assert message in reply.body["message"]
    body = a_ray_job(**spec)
    body["metadata"]["labels"] = {}
    assert world.server.post(path_of("RayJob"), body).status == 201, "without a queue it is no concern of ours"


@pytest.mark.parametrize(("spec", "message"), RAY_REFUSALS)
def test_a_ray_job_that_no_webhook_rejected_gets_no_workload_and_an_event(spec: Wire, message: str) -> None:
    world = a_world(2, settings=settings("RayJob"), crds=[definition("RayJob")], has_admission=False)
    create(world.server, path_of("RayJob"), a_ray_job(**spec, suspend=True))
    world.advance(2)
    assert world.server.get(WORKLOADS).body["items"] == []
    assert [each.message for each in world.emitted if each.reason == "ErrWorkloadCompose"] == [message]


def test_an_object_that_cannot_be_queued_cannot_name_a_queue_later() -> None:
    world = a_kind_world("RayCluster")
    body = an_object("a", "RayCluster", queue="")
    body["spec"]["enableInTreeAutoscaling"] = True
    create(world.server, path_of("RayCluster"), body)
    queue = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}, "spec": {"suspend": True}}
    reply = world.server.patch(f"{path_of('RayCluster')}/a", queue)
    assert reply.status == 403
    assert "can use autoscaling only as an elastic job" in reply.body["message"]
    assert world.server.patch(f"{path_of('RayCluster')}/a", {"metadata": {"labels": {"x": "y"}}}).status == 200


def test_a_ray_job_for_an_existing_cluster_is_not_queued() -> None:
    world = a_kind_world("RayJob")
    create(world.server, path_of("RayJob"), a_ray_job(clusterSelector={"a": "b"}, rayClusterSpec=None))
    world.advance(3)
    found = the(world, "RayJob", "a")
    assert get_path(found, ("status", "jobDeploymentStatus")) == "Running"
    assert world.server.get(WORKLOADS).body["items"] == []


def test_a_ray_job_that_its_operator_rejects_has_no_workload_until_that_changes() -> None:
    world = a_world(1, settings=settings("RayJob"), crds=[definition("RayJob")])
    create(world.server, path_of("RayJob"), a_ray_job())
    world.advance(2)
    assert workload(world, "a")
    status = f"{path_of('RayJob')}/a/status"
    world.server.patch(status, {"status": {"jobDeploymentStatus": "ValidationFailed"}})
    world.advance(2)
    assert world.server.get(WORKLOADS).body["items"] == []
    world.server.patch(status, {"status": {"jobDeploymentStatus": "Suspended"}})
    world.advance(15)
    assert workload(world, "a")


# -- children ------------------------------------------------------------------------------------------------------


def test_the_ray_cluster_of_a_ray_job_has_no_workload_and_runs_while_its_owner_is_admitted() -> None:
    world = a_kind_world("RayJob", "RayCluster", cpu=2, **PREEMPTION)
    owner = add(world, "RayJob", "low", priority="low")
    world.advance(2)
    child = an_object("child", "RayCluster")
    reference = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "low", "uid": owner["metadata"]["uid"]}
    child["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    create(world.server, path_of("RayCluster"), child)
    world.advance(2)
    assert the(world, "RayCluster", "child")["spec"].get("suspend") is not True
    assert len(world.server.get(WORKLOADS).body["items"]) == 1
    add(world, "RayJob", "high", priority="high")
    world.advance(4)
    assert the(world, "RayCluster", "child")["spec"]["suspend"] is True
