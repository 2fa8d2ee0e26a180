"""`kueue.x-k8s.io/scheduling-gated-by` (KEP-6915) on the embedded server and on a real one, from Job to Workload."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.server_kinds import SERVER_KINDS
from queued_objects import SCHEDULING_GATED, Wire, collection
from real.kueue_cluster import NAMESPACE, KueueCluster

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


def test_a_gated_job_that_a_user_starts_is_suspended_again(cluster: KueueCluster) -> None:
    add(cluster, "impatient", annotations=GATED)
    assert cluster.patch(f"{JOBS}/impatient", {"spec": {"suspend": False}}).status == 200
    cluster.until(lambda: not runs(cluster, "impatient"))
    assert cluster.workloads("impatient") == []
