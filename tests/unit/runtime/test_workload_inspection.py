"""Inspection of jobs, workloads and pods in Kueue's queues: the requests, and the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.cli.options.job_options import read_kinds
from headgate.client.pager import ListRefused
from headgate.http.transport import HTTPResponse
from headgate.jobs.kinds.batch_job import JOB
from headgate.jobs.names import ADMISSION_GATE
from headgate.runtime.inspection.pods import PodInspection, inspect_pod
from headgate.runtime.inspection.quota import inspect_quota
from headgate.runtime.inspection.workloads import WorkloadInspection, inspect_job, inspect_workload
from kueue_builders import START_S, Wire, a_condition, a_workload, reserved
from unit.runtime.test_quota_inspection import KINDS, NAMESPACE, a_cluster, a_list, inspect, owned, response, serving

JOBS = "/apis/batch/v1/namespaces/ns/jobs"
PODS = "/api/v1/namespaces/ns/pods"
EVENTS = "/api/v1/namespaces/ns/events"
QUEUE = "kueue.x-k8s.io/queue-name"
GATE = "kueue.x-k8s.io/scheduling-gated-by"
GROUP = "kueue.x-k8s.io/pod-group-name"
Lists = dict[str, HTTPResponse]


def a_job(name: str = "train", uid: str = "uid-job", **metadata: Any) -> Wire:
    labels = {QUEUE: "lq"}
    told = {"name": name, "namespace": "ns", "uid": uid, "labels": labels, **metadata}
    return {"kind": "Job", "metadata": told, "spec": {"suspend": True}}


def a_pod(name: str = "p", node: str = "", ends: str = "", **metadata: Any) -> Wire:
    told = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **metadata}
    if ends:
        told["deletionTimestamp"] = ends
    spec: Wire = {"nodeName": node} if node else {"schedulingGates": [{"name": ADMISSION_GATE}]}
    return {"metadata": told, "spec": spec, "status": {"phase": "Running" if node else "Pending"}}


def explained(lists: Lists) -> WorkloadInspection:
    found = inspect(inspect_job(JOB, "ns", "train", START_S), serving(lists))[0][0]
    assert isinstance(found, WorkloadInspection), found
    return found


def of_pod(pod: Wire, lists: Lists) -> PodInspection:
    found = inspect(inspect_quota("ns", START_S), serving(lists))[0]
    return inspect(inspect_pod(pod, found, START_S), serving(lists))[0]


def with_job(*workloads: Wire, job: Wire | None = None) -> Lists:
    lists = a_cluster(*workloads)
    lists[f"{JOBS}/train"] = response(200, **(job or a_job()))
    lists["/api/v1/namespaces/ns"] = response(200, **NAMESPACE)
    return lists


def test_a_job_is_explained_by_the_workload_that_it_owns() -> None:
    mine = owned(a_workload("job-train-12345", cpu=5))
    found = explained(with_job(mine, a_workload("other")))
    assert [each.name for each in found.descriptions] == ["job-train-12345"]
    assert found.missing_workload is None


def test_pods_that_still_end_though_their_quota_is_free_are_named() -> None:
    released = {"conditions": [a_condition("Evicted", reason="Preempted"), a_condition("QuotaReserved", False)]}
    lists = with_job(owned(a_workload("job-train-12345", status=released)))
    lists[PODS] = a_list(a_pod("late", "n1", "2026-01-01T00:02:00Z"), a_pod("soon", "n2", "2026-01-01T00:01:00Z"))
    found = explained(lists)
    assert [(each.name, each.node) for each in found.terminating_pods] == [("soon", "n2"), ("late", "n1")]
    holding = with_job(owned(a_workload("job-train-12345", status=reserved(cpu=1))))
    holding[PODS] = lists[PODS]
    assert explained(holding).terminating_pods == (), "who holds quota is not ahead of anything"


def test_a_job_without_a_workload_shows_why_and_its_latest_event() -> None:
    lists = with_job()
    by_us = {"reportingComponent": "kueue-job-controller", "reason": "ErrWorkloadCompose"}
    lists[EVENTS] = a_list(
        {**by_us, "message": "old", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {**by_us, "message": "no such class", "lastTimestamp": "2026-01-01T00:01:00Z"},
        {"reportingComponent": "another", "message": "newer", "lastTimestamp": "2026-01-01T00:02:00Z"},
    )
    found = explained(lists)
    assert found.missing_workload is not None
    assert found.missing_workload.state == "missing"
    assert found.latest_event is not None
    assert found.latest_event.message == "no such class"


def test_a_child_is_followed_up_to_its_managed_ancestor() -> None:
    above = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "uid-parent", "controller": True}
    lists = with_job(job=a_job(ownerReferences=[above]))
    lists[f"{JOBS}/parent"] = response(200, **a_job("parent", "uid-parent"))
    found = explained(lists)
    assert found.missing_workload is not None
    assert found.missing_workload.ancestor == "job parent"


def test_what_is_not_there_is_refused_with_a_hint() -> None:
    lists = a_cluster(owned(a_workload("job-train-12345")))
    lists[f"{JOBS}/train"] = response(404, message="not found", details={"name": "train", "kind": "jobs"})
    missing = inspect(inspect_job(JOB, "ns", "train", START_S), serving(lists))[0][0]
    assert missing == ListRefused("there is no job train in namespace ns", 404)
    near = inspect(inspect_workload("ns", "train", START_S), serving(lists))[0][0]
    assert isinstance(near, ListRefused)
    assert "did you mean ns/job-train-12345?" in near.text
    bare = inspect(inspect_workload("ns", "w", START_S), serving({f"{KINDS}/workloads": response(404)}))[0][0]
    assert isinstance(bare, ListRefused)
    assert "headgate install-crds" in bare.text


def test_a_pod_is_explained_by_its_own_workload_or_its_groups() -> None:
    own = owned(a_workload("pod-p-12345"), kind="Pod", name="p", uid="uid-p")
    assert [each.name for each in of_pod(a_pod(), a_cluster(own)).descriptions] == ["pod-p-12345"]
    member = a_pod(labels={GROUP: "gang"})
    assert [each.name for each in of_pod(member, a_cluster(a_workload("gang"))).descriptions] == ["gang"]


def test_a_pod_of_an_incomplete_group_shows_how_many_are_missing() -> None:
    marks: dict[str, Any] = {
        "labels": {GROUP: "gang"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
    }
    lists = a_cluster()
    lists[PODS] = a_list(a_pod("p", **marks), a_pod("q", **marks), a_pod("gone", "n", "2026-01-01T00:00:00Z", **marks))
    found = of_pod(a_pod("p", **marks), lists)
    assert found.missing_workload is not None
    assert found.missing_workload.summary == "its group gang has 2 of 3 pods: its Workload is created when all exist"
    marks["annotations"]["kueue.x-k8s.io/pod-group-fast-admission"] = "true"
    hasty = of_pod(a_pod("p", **marks), lists)
    assert hasty.missing_workload is not None
    assert hasty.missing_workload.summary == "no Workload has been created for it"


def test_a_pod_whose_group_is_held_by_a_gate_of_another_controller_shows_the_gate() -> None:
    marks: dict[str, Any] = {
        "labels": {GROUP: "gang"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    lists, other = a_cluster(), a_pod("q", **marks)
    other["spec"]["schedulingGates"].append({"name": "example.com/other"})
    lists[PODS] = a_list(a_pod("p", **marks), other)
    found = of_pod(a_pod("p", **marks), lists)
    assert found.missing_workload is not None
    assert found.missing_workload.summary == "its group is held by scheduling gates of others: example.com/other"


def test_a_pod_whose_owner_is_gated_shows_the_gate() -> None:
    set_ = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "uid-rs", "controller": True}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True}
    lists = a_cluster()
    apps = "/apis/apps/v1/namespaces/ns"
    replica_set = {"name": "web-1", "namespace": "ns", "uid": "uid-rs", "ownerReferences": [web]}
    lists[f"{apps}/replicasets/web-1"] = response(200, kind="ReplicaSet", metadata=replica_set)
    marks = {"labels": {QUEUE: "lq"}, "annotations": {GATE: "example.com/data"}}
    deployment = {"name": "web", "namespace": "ns", "uid": "uid-web", **marks}
    lists[f"{apps}/deployments/web"] = response(200, kind="Deployment", metadata=deployment)
    found = of_pod(a_pod(ownerReferences=[set_]), lists)
    assert found.missing_workload is not None
    gate = "the gate example.com/data of Deployment web"
    assert found.missing_workload.summary == f"it has no Workload because {gate} is set"


def test_a_job_of_a_kind_that_a_file_describes_is_explained_as_any_other() -> None:
    kinds = read_kinds((Path(__file__).parents[3] / "examples" / "job-kinds.yaml").read_bytes())
    assert isinstance(kinds, tuple)
    lists = a_cluster(owned(a_workload("of-run", cpu=1), apiVersion="example.com/v1", kind="TrainingRun", name="run"))
    lists["/apis/example.com/v1/namespaces/ns/trainingruns/run"] = response(200, **a_job("run"))
    found = inspect(inspect_job(kinds[0], "ns", "run", START_S), serving(lists))[0][0]
    assert isinstance(found, WorkloadInspection)
    assert (found.kind, [each.name for each in found.descriptions]) == ("trainingrun", ["of-run"])
    assert found.descriptions[0].next == ("there is free quota for it now: check that a quota controller runs",)


# -- what may not be read ------------------------------------------------------------------------------------------


def without(lists: Lists, *paths: str, status: int = 403) -> Lists:
    return {**lists, **dict.fromkeys(paths, response(status))}


WORKLOADS_OF_ALL, WORKLOADS_HERE = f"{KINDS}/workloads", f"{KINDS}/namespaces/ns/workloads"
QUEUES_OF_ALL, QUEUES_HERE = f"{KINDS}/localqueues", f"{KINDS}/namespaces/ns/localqueues"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 504])
def test_a_job_whose_workload_cannot_be_listed_is_not_said_to_have_none(status: int) -> None:
    found = explained(without(with_job(), WORKLOADS_OF_ALL, WORKLOADS_HERE, status=status))
    assert found.missing_workload is not None
    assert (found.missing_workload.state, found.missing_workload.next) == ("unknown", ())
    assert "its Workload cannot be seen: " in found.missing_workload.summary
    assert found.missing_workload.facts == (f"its label {QUEUE} names LocalQueue lq", "it is suspended")


def test_a_local_queue_that_cannot_be_listed_is_not_said_to_be_missing() -> None:
    found = explained(without(with_job(), QUEUES_OF_ALL, QUEUES_HERE))
    assert found.missing_workload is not None
    assert not any("LocalQueue" in step for step in found.missing_workload.next)
    seen = with_job()
    seen[QUEUES_HERE] = seen[QUEUES_OF_ALL]
    elsewhere = explained(without({**seen, QUEUES_HERE: a_list()}, QUEUES_OF_ALL))
    assert elsewhere.missing_workload is not None
    assert any("LocalQueue ns/lq has to be created" in step for step in elsewhere.missing_workload.next), (
        "it was looked for"
    )


def test_a_workload_that_may_be_read_but_not_listed_is_explained_by_its_conditions() -> None:
    said = {"conditions": [a_condition("QuotaReserved", False, "Pending", "3 more needed")]}
    lists = without(a_cluster(), WORKLOADS_OF_ALL, WORKLOADS_HERE)
    lists[f"{WORKLOADS_HERE}/w"] = HTTPResponse(200, {}, msgspec.json.encode(a_workload("w", status=said)))
    found = inspect(inspect_workload("ns", "w", START_S), serving(lists))[0][0]
    assert isinstance(found, WorkloadInspection)
    assert found.descriptions[0].summary == "it waits for quota: 3 more needed"
    refused = inspect(inspect_workload("ns", "v", START_S), serving(without(lists, f"{WORKLOADS_HERE}/v")))[0][0]
    assert isinstance(refused, ListRefused)
    assert refused.text.startswith("missing right: get workloads.kueue.x-k8s.io in namespace ns")


def test_events_and_pods_that_may_not_be_listed_are_named_as_missing() -> None:
    found = explained(without(with_job(), EVENTS, "/api/v1/namespaces/ns"))
    assert [gap.right for gap in found.missing] == ["get namespaces", "list events in namespace ns"]
    waiting = explained(without(with_job(owned(a_workload("job-train-12345", cpu=5))), PODS))
    assert [gap.right for gap in waiting.missing] == ["list pods in namespace ns"]


def test_an_owner_that_may_not_be_read_is_not_said_to_be_gone() -> None:
    above = {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "uid-parent", "controller": True}
    found = explained(without(with_job(job=a_job(ownerReferences=[above])), f"{JOBS}/parent"))
    assert found.missing_workload is not None
    assert (found.missing_workload.state, found.missing_workload.next) == ("unknown", ())
    assert "missing right: get jobs.batch in namespace ns" in found.missing_workload.summary


def test_a_pod_whose_workload_or_group_cannot_be_listed_is_not_said_to_have_none() -> None:
    member = a_pod(labels={GROUP: "gang"}, annotations={"kueue.x-k8s.io/pod-group-total-count": "3"})
    unseen = of_pod(member, without(a_cluster(), WORKLOADS_OF_ALL, WORKLOADS_HERE))
    assert unseen.missing_workload is not None
    assert unseen.missing_workload.state == "unknown"
    uncounted = of_pod(member, without(a_cluster(), PODS))
    assert uncounted.missing_workload is not None
    assert "how many pods of its group gang there are is not known" in uncounted.missing_workload.summary
    assert [gap.right for gap in uncounted.missing] == ["list pods in namespace ns"]


def test_a_kind_that_is_not_served_is_distinguished_from_a_missing_object() -> None:
    kinds = read_kinds((Path(__file__).parents[3] / "examples" / "job-kinds.yaml").read_bytes())
    assert isinstance(kinds, tuple)
    path = "/apis/example.com/v1/namespaces/ns/trainingruns/run"
    unserved = HTTPResponse(404, {}, b"404 page not found")
    found = inspect(inspect_job(kinds[0], "ns", "run", START_S), serving({path: unserved}))[0][0]
    assert isinstance(found, ListRefused)
    assert found.text == "this cluster has no trainingruns.example.com"
