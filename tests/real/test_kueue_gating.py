"""`kueue.x-k8s.io/scheduling-gated-by` (KEP-6915) on the embedded server and on a real one, from Job to Workload."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.server_kinds import SERVER_KINDS
from harness.webhooks import sent
from queued_objects import GATE, SCHEDULING_GATED, Wire, collection, gates, queued
from real.kueue_cluster import API, NAMESPACE, KueueCluster

pytestmark = pytest.mark.real

JOBS = collection("Job", NAMESPACE)
PODS = collection("Pod", NAMESPACE)
GATED = {SCHEDULING_GATED: "example.com/mygate"}


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KueueCluster]:
    made = KueueCluster(request.param, tmp_path_factory.mktemp(request.param), kube_binaries, "SchedulingGatedBy=true")
    made.queue("lq", 8)
    yield made
    made.stop()


def job(cluster: KueueCluster, name: str) -> Wire:
    return cluster.get(f"{JOBS}/{name}")


def runs(cluster: KueueCluster, name: str) -> bool:
    return job(cluster, name)["spec"]["suspend"] is False


def add(cluster: KueueCluster, name: str, **more: Any) -> None:
    answer = cluster.create("Job", name, **more)
    assert answer.status == 201, answer.body


def cpus(pods: Wire) -> list[str]:
    return [each["resources"]["requests"]["cpu"] for each in pods["spec"]["containers"]]


def test_a_gated_job_runs_when_its_gate_is_removed_with_the_resources_that_it_has_then(cluster: KueueCluster) -> None:
    add(cluster, "gated", cpu="100m", annotations=GATED)
    add(cluster, "witness", cpu="100m")
    cluster.until(lambda: runs(cluster, "witness"))
    assert (cluster.workloads("gated"), runs(cluster, "gated")) == ([], False)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}}
    larger = {"spec": {"template": {"spec": {"containers": [container]}}}}
    # A real server takes it once the controller of Jobs has said that the job is suspended.
    cluster.until(lambda: cluster.patch(f"{JOBS}/gated", larger).status == 200)
    assert cluster.workloads("gated") == []
    removed = cluster.patch(f"{JOBS}/gated", {"metadata": {"annotations": {SCHEDULING_GATED: None}}})
    assert removed.status == 200, removed.body
    cluster.until(lambda: runs(cluster, "gated"))
    (workload,) = cluster.workloads("gated")
    assert cpus(workload["spec"]["podSets"][0]["template"]) == ["200m"]
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    assert assigned["resourceUsage"] == {"cpu": "200m"}
    (pod,) = cluster.until(lambda: cluster.get(f"{PODS}?labelSelector=job-name=gated")["items"])
    assert cpus(pod) == ["200m"]


def test_one_write_changes_the_resources_and_removes_the_gate(cluster: KueueCluster) -> None:
    """The case "Toggle Workload Creation via Annotation Removal" of the KEP."""
    add(cluster, "toggled", cpu="100m", annotations=GATED)
    assert (cluster.workloads("toggled"), runs(cluster, "toggled")) == ([], False)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}}
    change = {
        "metadata": {"annotations": {SCHEDULING_GATED: None}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    # A real server takes it once the controller of Jobs has said that the job is suspended.
    cluster.until(lambda: cluster.patch(f"{JOBS}/toggled", change).status == 200)
    cluster.until(lambda: runs(cluster, "toggled"))
    (workload,) = cluster.workloads("toggled")
    assert cpus(workload["spec"]["podSets"][0]["template"]) == ["200m"]
    assert workload["metadata"]["generation"] == 1, "it was created with the new requests"
    assert cluster.condition("toggled", "Admitted") is not None


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "ReplicaSet", "StatefulSet"])
def test_pods_have_no_workload_while_they_or_their_owner_are_gated(cluster: KueueCluster, kind: str) -> None:
    name = f"gated-{kind.lower()}"
    cluster.until(lambda: cluster.is_asked(kind))
    answer = cluster.create(kind, name, cpu="100m", annotations=GATED, labels={"app": name})
    assert answer.status == 201, answer.body
    (pod,) = cluster.until(lambda: pods_of(cluster, name))
    cluster.pod(f"witness-{kind.lower()}", "lq", cpu="100m")
    cluster.until(lambda: cluster.is_admitted(f"witness-{kind.lower()}"))
    assert cluster.workloads(pod["metadata"]["name"]) == []
    assert gates(cluster.get(f"{PODS}/{pod['metadata']['name']}")) == [GATE]
    removed = cluster.patch(
        f"{collection(kind, NAMESPACE)}/{name}", {"metadata": {"annotations": {SCHEDULING_GATED: None}}}
    )
    assert removed.status == 200, removed.body
    cluster.until(lambda: [gates(each) for each in pods_of(cluster, name)] == [[]])


def pods_of(cluster: KueueCluster, app: str) -> list[Wire]:
    found: list[Wire] = cluster.get(f"{PODS}?labelSelector=app={app}")["items"]
    return found


def test_a_gated_job_is_in_no_queue(cluster: KueueCluster) -> None:
    cluster.queue("counted", 1)
    add(cluster, "uncounted", queue="counted", cpu="9", annotations=GATED)
    add(cluster, "counted", queue="counted", cpu="9")
    cluster.until(lambda: pending(cluster) == [1, 1])
    assert cluster.workloads("uncounted") == []
    removed = cluster.patch(f"{JOBS}/uncounted", {"metadata": {"annotations": {SCHEDULING_GATED: None}}})
    assert removed.status == 200, removed.body
    cluster.until(lambda: pending(cluster) == [2, 2])
    assert not runs(cluster, "uncounted")


def pending(cluster: KueueCluster) -> list[int]:
    """The pending Workloads that the ClusterQueue and the LocalQueue count."""
    queues = (f"{API}/clusterqueues/counted", f"{API}/namespaces/{NAMESPACE}/localqueues/counted")
    return [cluster.get(each).get("status", {}).get("pendingWorkloads", 0) for each in queues]


def test_a_gate_cannot_be_added_to_a_job_that_is_there(cluster: KueueCluster) -> None:
    add(cluster, "plain")
    answer = cluster.patch(f"{JOBS}/plain", {"metadata": {"annotations": GATED}})
    assert answer.status == 403
    assert "scheduling-gated-by]: Forbidden: cannot be added after creation" in answer.json()["message"]


def test_a_gate_cannot_be_changed_nor_come_back(cluster: KueueCluster) -> None:
    add(cluster, "changed", annotations=GATED)
    other = {"metadata": {"annotations": {SCHEDULING_GATED: "example.com/other"}}}
    answer = cluster.patch(f"{JOBS}/changed", other)
    assert answer.status == 403
    assert "cannot be changed, only removed" in answer.json()["message"]
    assert cluster.patch(f"{JOBS}/changed", {"metadata": {"annotations": {SCHEDULING_GATED: None}}}).status == 200
    assert cluster.patch(f"{JOBS}/changed", {"metadata": {"annotations": GATED}}).status == 403


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("not a domain", "must be a domain-prefixed path"),
        ("", "name the controller that gates the job"),
        ("example.com/a,example.com/b", "takes one name"),
        (f"example.com/{'x' * 52}", "63"),
    ],
)
def test_a_name_that_is_not_one_domain_like_name_is_refused(cluster: KueueCluster, value: str, says: str) -> None:
    answer = cluster.create("Job", "misnamed", annotations={SCHEDULING_GATED: value})
    assert answer.status == 403
    assert says in answer.json()["message"]


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        ("example.com/mygate", True),
        ("example.com/team/gate", True),
        (f"example.com/{'x' * 51}", True),
        (f"example.com/{'x' * 52}", False),
        ("not a domain", False),
        ("example.com", False),
        ("example.com/", False),
        ("/gate", False),
        ("Example.com/gate", False),
        ("example.com/a gate", False),
        ("", False),
    ],
)
def test_a_gate_has_the_format_of_managed_by(cluster: KueueCluster, value: str, is_valid: bool) -> None:
    gated = queued("Job", "format", annotations={SCHEDULING_GATED: value})
    managed = queued("Job", "format", queue="", managedBy=value)
    answers = [sent(cluster.server, "POST", f"{JOBS}?dryRun=All", each) for each in (gated, managed)]
    assert [each.status for each in answers] == ([201, 201] if is_valid else [403, 422])


def test_a_gated_job_that_a_user_starts_is_suspended_again(cluster: KueueCluster) -> None:
    add(cluster, "impatient", annotations=GATED)
    assert cluster.patch(f"{JOBS}/impatient", {"spec": {"suspend": False}}).status == 200
    cluster.until(lambda: not runs(cluster, "impatient"))
    assert cluster.workloads("impatient") == []
