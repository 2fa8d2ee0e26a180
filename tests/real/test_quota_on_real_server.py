"""Quota and jobs beside a real API server: two Jobs and quota for one, as `docs/kueue.md` says to start it."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import HEADGATE
from harness.processes import Process, free_ports
from harness.real_server import RealServer
from harness.scheduler_process import send, wait_for

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).parents[2] / "examples" / "quota-jobs.yaml"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


@pytest.fixture
def metrics() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path, metrics: str) -> Iterator[RealServer]:
    made = RealServer(tmp_path / "real", kube_binaries)
    kubeconfig = ("--kubeconfig", str(made.kubeconfig))
    process: Process | None = None
    try:
        subprocess.run([str(HEADGATE), "install-crds", *kubeconfig], check=True, capture_output=True)
        flags = ("--components", "quota,jobs,controllers", "--no-leader-elect", "--metrics-listen", metrics)
        process = Process([str(HEADGATE), "run", *kubeconfig, *flags], tmp_path / "run.log")
        yield made
    finally:
        if process is not None:
            process.stop()
        made.disconnect()
        made.stop()


def test_the_second_job_runs_when_the_first_has_ended_and_both_are_measured(server: RealServer, metrics: str) -> None:
    applied = server.kubectl(["apply", "-f", str(EXAMPLE)])
    assert applied.exit == 0, applied.stderr

    def started() -> set[str]:
        items = send(server, "GET", JOBS)["items"]
        return {each["metadata"]["name"] for each in items if not each["spec"]["suspend"]}

    def workloads() -> list[dict[str, Any]]:
        answer = server.request("GET", "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads")
        found: list[dict[str, Any]] = answer.json()["items"] if answer.status == 200 else []  # the kind is that new
        return found

    def settled() -> str | None:
        """The one job that runs, once both have a Workload and only its own has quota."""
        there, names = workloads(), started()
        admitted = [each for each in there if "admission" in (each.get("status") or {})]
        holders = {each["metadata"]["ownerReferences"][0]["name"] for each in admitted}
        return next(iter(names)) if len(there) == 2 and len(names) == 1 and holders == names else None

    first = wait_for(settled)
    (pod,) = wait_for(lambda: _pods_of(server, first))
    send(server, "PATCH", f"{PODS}/{pod}/status", {"status": {"phase": "Succeeded"}}, MERGE)
    other = ({"first", "second"} - {first}).pop()
    wait_for(lambda: other in started())
    wait_for(lambda: _pods_of(server, other))
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    queue = 'cluster_queue="one-cpu-of-quota"'
    assert f'kueue_admitted_workloads_total{{{queue},priority_class=""}} 2\n' in page
    assert f"kueue_admitted_active_workloads{{{queue}}} 1\n" in page
    assert 'kueue_workload_creation_latency_seconds_count{job_kind="Job"} 2\n' in page


def _pods_of(server: RealServer, job: str) -> list[str]:
    """Those that are there to stay."""
    items = send(server, "GET", f"{PODS}?labelSelector=job-name={job}")["items"]
    return [each["metadata"]["name"] for each in items if "deletionTimestamp" not in each["metadata"]]
