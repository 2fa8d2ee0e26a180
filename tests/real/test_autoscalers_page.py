"""docs/autoscalers.md on a real API server: its commands run as written, and pods say what it says they say."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clusters import a_pod
from harness.embedded_server import HEADGATE
from harness.processes import free_ports
from harness.real_server import REPOSITORY, RealServer
from harness.scheduler_process import SchedulerProcess, pods, scheduled_reason, send, wait_for
from harness.server import Server
from headgate.capacity.names import OPT_IN

pytestmark = pytest.mark.real

PAGE = (REPOSITORY / "docs" / "autoscalers.md").read_text()
EVENT = {
    "metadata": {"generateName": "scaled-"},
    "involvedObject": {"kind": "Pod", "name": "spark-pi-driver", "namespace": "default"},
    "reason": "TriggeredScaleUp",
}


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(tmp_path_factory.mktemp("page"), kube_binaries)
    yield server
    server.disconnect()
    server.stop()


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def type_in(command: str, server: Server, programs: Path) -> str:
    path = f"{HEADGATE.parent}:{programs}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(server.kubeconfig)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def is_gating(server: Server) -> bool:
    """Whether the API server calls the webhooks already: it hears of them a moment after they are ready."""
    pod = a_pod("tried", schedulerName="volcano")
    pod["metadata"]["annotations"] = {OPT_IN: "true"}
    return "schedulingGates" in send(server, "POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)["spec"]


def test_pods_with_quota_are_unschedulable_and_the_others_gated(
    server: RealServer, kube_binaries: Path, tmp_path: Path
) -> None:
    install, grant, apply, *looks = commands()
    assert "install-crds" in install
    assert "kubectl apply" in apply
    type_in(install, server, kube_binaries)
    type_in(grant, server, kube_binaries)
    (run,) = re.findall(r"```\n(headgate run .*?) --webhook-service .*?\n```", PAGE)
    (port,) = free_ports(1)
    flags = [*run.split()[2:], "--webhook-url", f"https://127.0.0.1:{port}", "--webhook-listen", f"127.0.0.1:{port}"]
    flags += ["--shutdown-delay", "0"]
    scheduler = SchedulerProcess(server, tmp_path / "run.log", *flags, "--trusted-user", "admin")
    try:
        wait_for(lambda: is_gating(server), scheduler)
        type_in(apply, server, kube_binaries)
        wanted = {"Unschedulable": 3, "SchedulingGated": 3}
        wait_for(lambda: Counter(map(scheduled_reason, pods(server).values())) == wanted, scheduler)
        send(server, "POST", "/api/v1/namespaces/default/events", EVENT)
        printed = {command: type_in(command, server, kube_binaries) for command in looks}
    finally:
        scheduler.stop()
    reasons, explained = printed[looks[0]], printed["headgate explain pod spark-pi-exec-5"]
    assert (reasons.count("Unschedulable"), reasons.count("SchedulingGated")) == (3, 3)
    assert "spark" in printed["headgate queues"]
    assert "spark-pi-exec-5" in explained


def test_the_queue_that_the_page_shows_is_one(server: RealServer) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    queue = yaml.safe_load(shown)
    made = send(server, "POST", "/apis/scheduling.volcano.sh/v1beta1/queues", queue)
    assert made["spec"]["capability"]["nvidia.com/gpu"] == "16"
