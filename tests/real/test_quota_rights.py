"""Quota and jobs as the service account of `examples/quota-rights.yaml`: it takes no more than what that grants."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import create_pod, get_pod, send, wait_for
from headgate.jobs.names import ADMISSION_GATE, MANAGED, QUEUE_NAME
from headgate.kube.conditions import is_true

pytestmark = pytest.mark.real

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
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
    features = "FailureRecoveryPolicy=true,SchedulingGatedBy=true,ActivationLabels=true"
    flags = ("--components", "quota,jobs", "--feature-gates", features)
    running = Process([str(HEADGATE), "run", "--kubeconfig", str(kubeconfig), *flags], tmp_path / "run.log")
    try:
        kubectl(server, "apply", "-f", str(EXAMPLES / "quota-jobs.yaml"))
        wait_for(lambda: _running_jobs(server), running)
        waiting = wait_for(lambda: _waiting_job(server), running)
        for word, is_active in (("deactivate", False), ("activate", True)):
            kubectl(server, "label", "job", waiting, f"kueue.x-k8s.io/{word}=true")
            wait_for(partial(_has_consumed, server, waiting, is_active), running)
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


def _waiting_job(server: RealServer) -> str:
    """The job without quota, once the other one is admitted; empty before."""
    items = send(server, "GET", WORKLOADS)["items"]
    admitted = {
        each["metadata"]["ownerReferences"][0]["name"]: is_true(
            (each.get("status") or {}).get("conditions"), "Admitted"
        )
        for each in items
    }
    return next((name for name, has_quota in admitted.items() if not has_quota), "") if any(admitted.values()) else ""


def _has_consumed(server: RealServer, job: str, is_active: bool) -> bool:
    """Whether the label of the job is consumed, and `spec.active` of its Workload is as it asked for."""
    if any(key.endswith("activate") for key in send(server, "GET", f"{JOBS}/{job}")["metadata"]["labels"]):
        return False
    items = send(server, "GET", WORKLOADS)["items"]
    own = [each for each in items if each["metadata"]["ownerReferences"][0]["name"] == job]
    return is_active in [each["spec"]["active"] for each in own]


def _managed_pod(name: str) -> dict[str, object]:
    """As the webhooks leave it."""
    labels = {QUEUE_NAME: "team", MANAGED: "true"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulingGates": [{"name": ADMISSION_GATE}], "containers": [container]}
    return {"metadata": {"name": name, "labels": labels, "finalizers": [MANAGED]}, "spec": spec}
