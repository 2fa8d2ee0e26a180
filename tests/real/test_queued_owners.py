"""A Deployment, a StatefulSet and a Job in one of Kueue's queues beside a real API server that asks our webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.real_server import RealServer
from harness.scheduler_process import send, wait_for
from harness.webhooks import WebhookProcess, prepare, sent
from queued_objects import GATE, collection, gates, queued
from wire.test_queued_owners import QUEUE, manifest

pytestmark = pytest.mark.real

PODS = collection("Pod", "default")
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[RealServer]:
    running = RealServer(tmp_path / "real", kube_binaries)
    process: WebhookProcess | None = None
    try:
        prepare(running)
        flags = ("--components", "webhooks,quota,jobs,controllers", "--no-leader-elect")
        process = WebhookProcess(running, tmp_path / "run.log", *flags)

        def is_asked(kind: str) -> bool:
            path = f"{collection(kind, 'default')}?dryRun=All"
            return sent(running, "POST", path, queued(kind, queue="Not_A_Name")).status == 403

        wait_for(lambda: all(map(is_asked, ("Job", "Pod", "Deployment", "StatefulSet"))), process)
        assert running.kubectl(["apply", "-f", "-"], QUEUE).exit == 0
        yield running
    finally:
        if process is not None:
            process.stop()
        running.disconnect()
        running.stop()


def pods(server: RealServer, app: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = send(server, "GET", f"{PODS}?labelSelector=app={app}")["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def free_and_gated(server: RealServer, app: str) -> tuple[int, int]:
    gated = [GATE in gates(each) for each in pods(server, app)]
    return gated.count(False), gated.count(True)


def test_everything_that_waits_shares_the_queue(server: RealServer) -> None:
    assert server.kubectl(["apply", "-f", "-"], manifest("Deployment", "web", 3)).exit == 0
    wait_for(lambda: free_and_gated(server, "web") == (2, 1))
    assert server.kubectl(["delete", "deployment", "web"]).exit == 0
    wait_for(lambda: not pods(server, "web") and not send(server, "GET", WORKLOADS)["items"])
    assert server.kubectl(["apply", "-f", "-"], manifest("StatefulSet", "db", 2)).exit == 0
    wait_for(lambda: free_and_gated(server, "db") == (1, 0))  # its second pod comes when the first is ready
    (group,) = send(server, "GET", WORKLOADS)["items"]
    assert group["metadata"]["name"].startswith("statefulset-db-")
    assert group["status"]["admission"]["podSetAssignments"][0]["count"] == 2
    job = send(server, "POST", collection("Job", "default"), queued("Job", "later"))
    assert job["spec"]["suspend"] is True
    assert server.kubectl(["delete", "statefulset", "db"]).exit == 0
    wait_for(lambda: not send(server, "GET", f"{collection('Job', 'default')}/later")["spec"]["suspend"])
    made = wait_for(lambda: send(server, "GET", f"{PODS}?labelSelector=job-name=later")["items"])
    assert gates(made[0]) == []  # it waited as a part of its job
