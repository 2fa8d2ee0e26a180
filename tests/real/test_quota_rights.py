"""Quota and jobs as the service account of `examples/quota-rights.yaml`: it takes no more than what that grants."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import create_pod, get_pod, send, wait_for
from headgate.jobs.names import ADMISSION_GATE, MANAGED, QUEUE_NAME

pytestmark = pytest.mark.real

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUEUE = "one-cpu-of-quota"
ACCOUNT = ("-n", "kube-system", "headgate-quota")


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[RealServer]:
    made = RealServer(tmp_path / "real", kube_binaries)
    yield made
    made.disconnect()
    made.stop()


def kubectl(server: RealServer, *words: str) -> str:
    done = server.kubectl(words)
    assert done.exit == 0, done.stderr
    return done.stdout.strip()


def test_the_rights_that_the_example_grants_are_all_that_it_takes(server: RealServer, tmp_path: Path) -> None:
    subprocess.run([HEADGATE, "install-crds", "--kubeconfig", server.kubeconfig], check=True, capture_output=True)
    kubectl(server, "apply", "-f", str(EXAMPLES / "quota-rights.yaml"))
    account = yaml.safe_load(server.kubeconfig.read_text())
    account["users"][0]["user"] = {"token": kubectl(server, "create", "token", *ACCOUNT)}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(account))
    flags = ("--components", "quota,jobs", "--feature-gates", "FailureRecoveryPolicy=true,SchedulingGatedBy=true")
    running = Process([str(HEADGATE), "run", "--kubeconfig", str(kubeconfig), *flags], tmp_path / "run.log")
    try:
        kubectl(server, "apply", "-f", str(EXAMPLES / "quota-jobs.yaml"))
        wait_for(lambda: _running_jobs(server), running)
        kubectl(server, "delete", "job", "--all", "--cascade=background")
        create_pod(server, _managed_pod("alone"))
        wait_for(lambda: not get_pod(server, "alone")["spec"].get("schedulingGates"), running)
        kubectl(
            server,
            "patch",
            "clusterqueue",
            "one-cpu-of-quota",
            "--type=merge",
            "-p",
            '{"spec":{"stopPolicy":"HoldAndDrain"}}',
        )
        wait_for(lambda: server.request("GET", "/api/v1/namespaces/default/pods/alone").status == 404, running)
        kubectl(server, "delete", "clusterqueue", QUEUE, "--timeout=30s")
    finally:
        running.stop()
    assert "WARNING" not in running.log.read_text()
    assert "forbidden" not in running.log.read_text()


def _running_jobs(server: RealServer) -> list[str]:
    items = send(server, "GET", JOBS)["items"]
    return [each["metadata"]["name"] for each in items if not each["spec"]["suspend"]]


def _managed_pod(name: str) -> dict[str, object]:
    """As the webhooks leave it."""
    labels = {QUEUE_NAME: "team", MANAGED: "true"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulingGates": [{"name": ADMISSION_GATE}], "containers": [container]}
    return {"metadata": {"name": name, "labels": labels, "finalizers": [MANAGED]}, "spec": spec}
