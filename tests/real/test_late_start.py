"""Quota is released early and pods start late, beside the real kube-scheduler: no pod is unschedulable while
the pods whose quota it was given terminate.

A node has one CPU and is full. With `StartAfterTerminatingPods=false` the same pods become unschedulable.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.control_plane import Nodes
from harness.kube_scheduler import kube_scheduler
from harness.pod_watch import Object, PodWatch
from harness.processes import Process
from harness.scheduler_process import is_bound, scheduled_reason
from queued_objects import GROUP_NAME, PRIORITY, TOTAL
from real.kueue_cluster import KueueCluster

pytestmark = pytest.mark.real

PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority"}}
ENDS_SLOWLY = {"headgate.dev/stop-after": "15s"}
GRACE_S = 60
NODES = 2


class Reasons(PodWatch):
    """What `PodScheduled` ever said of each pod."""

    def __init__(self, cluster: KueueCluster) -> None:
        super().__init__(cluster.server)
        self.said: dict[str, list[str]] = {}

    def judge(self, kind: str, pod: Object) -> None:
        said = self.said.setdefault(pod["metadata"]["name"], [])
        reason = "Bound" if is_bound(pod) else scheduled_reason(pod)
        if reason and said[-1:] != [reason]:
            said.append(reason)

    def of(self, prefix: str) -> set[str]:
        return {reason for name, said in self.said.items() if name.startswith(prefix) for reason in said}


class LateStartCluster:
    def __init__(self, cluster: KueueCluster, reasons: Reasons) -> None:
        self.cluster = cluster
        self.reasons = reasons

    def pod(self, name: str, queue: str, priority: str = "low", **more: Any) -> None:
        annotations = {**ENDS_SLOWLY, **more.pop("annotations", {})}
        self.cluster.pod(name, queue, priority, GRACE_S, annotations=annotations, **more)

    def fill(self, queue: str) -> None:
        """One pod of low priority for each node."""
        names = [f"{queue}-victim-{number}" for number in range(NODES)]
        for name in names:
            self.pod(name, queue)
        self.cluster.until(lambda: all(map(self.runs, names)))

    def runs(self, name: str) -> bool:
        pod = self.reasons.pods.get(name)
        return pod is not None and pod["status"].get("phase") == "Running"

    def clear(self, *names: str) -> None:
        for name in names:
            self.cluster.delete(name)
        self.cluster.until(lambda: not any(name in self.reasons.pods for name in names))


@pytest.fixture(scope="module")
def cluster(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LateStartCluster]:
    folder = tmp_path_factory.mktemp("late")
    cluster = KueueCluster("real", folder, kube_binaries, "StartAfterTerminatingPods=true")
    nodes = scheduler = None
    try:
        reasons = Reasons(cluster)
        reasons.start()
        nodes = Nodes(cluster.server, NODES, {"cpu": "1", "memory": "4Gi", "pods": "110"})
        command = kube_scheduler(kube_binaries, cluster.server.kubeconfig, folder)
        scheduler = Process(command, folder / "kube-scheduler.log")
        yield LateStartCluster(cluster, reasons)
        reasons.finish()
    finally:
        if scheduler is not None:
            scheduler.stop()
        if nodes is not None:
            nodes.stop()
        cluster.stop()


def test_pods_are_never_unschedulable_while_their_victims_end(cluster: LateStartCluster) -> None:
    cluster.cluster.queue("alone", NODES, **PREEMPTS)
    cluster.fill("alone")
    urgent = [f"alone-urgent-{number}" for number in range(NODES)]
    for name in urgent:
        cluster.pod(name, "alone", "high")
    cluster.cluster.until(lambda: all(map(cluster.cluster.has_quota, urgent)))
    assert all(cluster.cluster.is_ending(f"alone-victim-{number}") for number in range(NODES))
    cluster.cluster.until(lambda: all(map(cluster.runs, urgent)))
    assert cluster.reasons.of("alone-urgent") == {"SchedulingGated", "Bound"}
    cluster.clear(*urgent)


def test_a_gang_is_never_unschedulable_while_its_victims_end(cluster: LateStartCluster) -> None:
    cluster.cluster.queue("gang", NODES, **PREEMPTS)
    cluster.fill("gang")
    urgent = [f"gang-urgent-{number}" for number in range(NODES)]
    for name in urgent:
        cluster.pod(name, "gang", "high", labels={GROUP_NAME: "gang-urgent"}, annotations={TOTAL: str(NODES)})
    cluster.cluster.until(lambda: all(map(cluster.runs, urgent)))
    assert cluster.reasons.of("gang-urgent") == {"SchedulingGated", "Bound"}
    cluster.clear(*urgent)


def test_the_pods_of_a_job_are_never_unschedulable_because_it_is_resumed_late(cluster: LateStartCluster) -> None:
    cluster.cluster.queue("job", NODES, **PREEMPTS)
    cluster.fill("job")
    labels = {PRIORITY: "high"}
    answer = cluster.cluster.create(
        "Job", "job-urgent", queue="job", labels=labels, parallelism=NODES, completions=NODES
    )
    assert answer.status == 201, answer.body
    cluster.cluster.until(lambda: cluster.cluster.has_quota("job-urgent"))
    job = cluster.cluster.get("/apis/batch/v1/namespaces/default/jobs/job-urgent")
    assert job["spec"]["suspend"] is True
    cluster.cluster.until(
        lambda: sum(cluster.runs(name) for name in [*cluster.reasons.pods] if "urgent" in name) == NODES
    )
    assert cluster.reasons.of("job-urgent") == {"Bound"}
    job_path = "/apis/batch/v1/namespaces/default/jobs/job-urgent?propagationPolicy=Background"
    assert cluster.cluster.server.request("DELETE", job_path).status == 200
    cluster.cluster.until(lambda: not cluster.reasons.pods)


def test_with_the_feature_off_the_same_pod_is_unschedulable(cluster: LateStartCluster) -> None:
    """The last scenario here: nothing switches it on again."""
    cluster.cluster.switch("StartAfterTerminatingPods=false")
    cluster.cluster.queue("off", NODES, **PREEMPTS)
    cluster.fill("off")
    cluster.pod("off-urgent", "off", "high")
    cluster.cluster.until(lambda: "Unschedulable" in cluster.reasons.of("off-urgent"))
