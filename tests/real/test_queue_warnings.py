"""Warnings where users look, on the embedded server and on a real one: the condition GatedJobs of a LocalQueue and of
Volcano's Queue (KEP-6915), and the Event about a pod that terminates too long after its quota was released (KEP-6143).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.queues import QUEUES, a_queue, install_crds
from harness.server_kinds import SERVER_KINDS
from headgate.cli.main import main
from headgate.kube import conditions
from queued_objects import SCHEDULING_GATED, Wire, collection
from real.kueue_cluster import API, NAMESPACE, KueueCluster

pytestmark = pytest.mark.real

JOBS = collection("Job", NAMESPACE)
LOCAL_QUEUES = f"{API}/namespaces/{NAMESPACE}/localqueues"
GATED = {SCHEDULING_GATED: "example.com/data"}
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
ON, OFF = "SchedulingGatedBy=true", "SchedulingGatedBy=false"


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KueueCluster]:
    folder = tmp_path_factory.mktemp(request.param)
    made = KueueCluster(request.param, folder, kube_binaries, ON, ("--report-terminating-pods-after", "2s"))
    install_crds(made.server)
    yield made
    made.stop()


def add(cluster: KueueCluster, name: str, queue: str, **more: Wire) -> str:
    """A gated job. Returns when it was created."""
    answer = cluster.create("Job", name, queue=queue, annotations=GATED, **more)
    assert answer.status == 201, answer.body
    return str(answer.json()["metadata"]["creationTimestamp"])


def found(cluster: KueueCluster, path: str) -> str:
    """The message of the condition; empty if there is none."""
    shown = conditions.find((cluster.get(path).get("status") or {}).get("conditions"), "GatedJobs")
    return "" if shown is None else str(shown["message"])


def ungate(cluster: KueueCluster, name: str) -> None:
    answer = cluster.patch(f"{JOBS}/{name}", {"metadata": {"annotations": {SCHEDULING_GATED: None}}})
    assert answer.status == 200, answer.body


def test_the_condition_appears_with_the_oldest_and_disappears_with_the_last_gate(cluster: KueueCluster) -> None:
    cluster.queue("lq", 8)
    path = f"{LOCAL_QUEUES}/lq"
    since = add(cluster, "first", "lq")
    oldest = f"since {since} (Job first, gate example.com/data)"
    cluster.until(lambda: found(cluster, path) == f"1 job has no Workload because of a gate, {oldest}")
    add(cluster, "second", "lq")
    two = f"2 jobs have no Workload because of a gate, the oldest {oldest}"
    cluster.until(lambda: found(cluster, path) == two)
    explained = CliRunner().invoke(
        main, ("explain", "job", "second", "-n", NAMESPACE, "--kubeconfig", str(cluster.server.kubeconfig))
    )
    assert f"LocalQueue {NAMESPACE}/lq: {two}" in explained.output
    for name in ("first", "second"):
        ungate(cluster, name)
    cluster.until(lambda: not found(cluster, path))
    types = [each["type"] for each in cluster.get(path)["status"]["conditions"]]
    assert types == ["Active"]


def test_a_queue_of_volcano_has_the_condition_without_the_name_of_the_job(cluster: KueueCluster) -> None:
    cluster.queue("both", 8)
    cluster.made(QUEUES, a_queue("research"))
    since = add(cluster, "with-queue", "both", template={"annotations": {VOLCANO_QUEUE: "research"}})
    path = f"{QUEUES}/research"
    expected = f"1 job has no Workload because of a gate, since {since} (gate example.com/data)"
    cluster.until(lambda: found(cluster, path) == expected)
    cluster.until(lambda: "Job with-queue" in found(cluster, f"{LOCAL_QUEUES}/both"))
    ungate(cluster, "with-queue")
    cluster.until(lambda: not found(cluster, path))


def test_a_pod_that_terminates_too_long_after_its_quota_was_released_gets_an_event(cluster: KueueCluster) -> None:
    cluster.queue("released", 1)
    cluster.pod("stuck", "released", grace_s=1)
    cluster.run("stuck")
    cluster.delete("stuck")
    events = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=reason=TerminatingTooLong"
    (event,) = cluster.until(lambda: cluster.get(events)["items"])
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "stuck")
    assert "still terminates on node the-node, its grace period ended at " in event["message"]
    assert cluster.is_ending("stuck"), "a report changes nothing"


def test_it_stays_over_a_restart_and_goes_when_the_feature_is_switched_off(cluster: KueueCluster) -> None:
    cluster.queue("kept", 8)
    path = f"{LOCAL_QUEUES}/kept"
    add(cluster, "waiting", "kept")
    cluster.until(lambda: found(cluster, path))
    before = json.dumps(cluster.get(path)["status"]["conditions"])
    cluster.switch(ON)
    add(cluster, "witness", "kept")
    cluster.until(lambda: "2 jobs have" in found(cluster, path))
    shown = conditions.find(cluster.get(path)["status"]["conditions"], "GatedJobs")
    assert shown is not None
    assert shown["lastTransitionTime"] in before, "it was never removed"
    cluster.switch(OFF)
    cluster.until(lambda: not found(cluster, path))
