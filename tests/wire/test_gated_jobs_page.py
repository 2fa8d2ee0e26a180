"""docs/gated-jobs.md and examples/kueue/jobs on a whole cluster in one process: what they say to type does what they
say, with the queues in either version."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.processes import free_ports
from harness.real_server import REPOSITORY
from harness.scheduler_process import wait_for
from headgate.jobs.metrics import FAMILIES as OF_JOBS
from headgate.quota.metrics.metric_families import FAMILIES as OF_QUOTA

pytestmark = pytest.mark.real

PAGE = (REPOSITORY / "docs" / "gated-jobs.md").read_text()
EXAMPLES = REPOSITORY / "examples" / "kueue" / "jobs"
VERSIONS = ("v1beta1", "v1beta2")
METRICS = "127.0.0.1:10259"


class Cluster:
    def __init__(self, server: EmbeddedServer, programs: Path, metrics: str) -> None:
        self._server = server
        self._path = f"{HEADGATE.parent}:{programs}:{os.environ['PATH']}"
        self._metrics = metrics

    def type_in(self, command: str) -> str:
        environment = {**os.environ, "PATH": self._path, "KUBECONFIG": str(self._server.kubeconfig)}
        words = ["sh", "-c", command.replace(METRICS, self._metrics)]
        done = subprocess.run(
            words, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def items(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.type_in(f"kubectl get {kind} -o json"))["items"]
        return found

    def states(self) -> dict[str, str]:
        document = json.loads(self.type_in("headgate workloads -o json"))
        return {each["owners"][0]["name"]: each["state"] for each in document["workloads"]}

    def wait_until(self, states: dict[str, str]) -> None:
        wait_for(lambda: self.states() == states)


@pytest.fixture(scope="module")
def cluster(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    (port,) = free_ports(1)
    components = "apiserver,nodes,controllers,scheduler,quota,jobs"
    flags = ("--components", components, "--feature-gates", "SchedulingGatedBy=true")
    listen = ("--metrics-listen", f"127.0.0.1:{port}")
    server = EmbeddedServer(tmp_path_factory.mktemp("page") / "up", kube_binaries / "kubectl", (*flags, *listen))
    yield Cluster(server, kube_binaries, f"127.0.0.1:{port}")
    server.disconnect()
    server.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_samples_get_quota_and_run_with_queues_of_either_version(cluster: Cluster, version: str) -> None:
    queues = EXAMPLES / f"queues-{version}.yaml"
    cluster.type_in(f"kubectl apply -f {queues}")
    for sample, owners in {
        "job": {"three-at-a-time"},
        "single-pod": {"alone"},
        "pod-group": {"group-leader"},
    }.items():
        file = EXAMPLES / f"{sample}.yaml"
        cluster.type_in(f"kubectl apply -f {file}")
        cluster.wait_until(dict.fromkeys(owners, "finished"))
        cluster.type_in(f"kubectl delete --wait=true -f {file}")
        cluster.wait_until({})
    file = EXAMPLES / "deployment.yaml"
    cluster.type_in(f"kubectl apply -f {file}")
    wait_for(lambda: list(cluster.states().values()) == ["admitted", "admitted"])
    wait_for(lambda: all(pod["status"].get("phase") == "Running" for pod in cluster.items("pods")))
    cluster.type_in(f"kubectl delete -f {file}")
    wait_for(lambda: not cluster.items("pods"))
    cluster.type_in(f"kubectl delete -f {queues}")


def test_the_commands_of_the_page_show_the_job_its_gate_and_its_age(cluster: Cluster) -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    prepared, looks, lifted = ([line[2:] for line in block.splitlines() if line.startswith("$ ")] for block in blocks)
    for command in prepared:
        cluster.type_in(command)
    wait_for(lambda: "SchedulingGated" in cluster.type_in(looks[2]))
    wait_for(lambda: "1 job has no Workload because of a gate" in cluster.type_in(looks[3]))
    listed, explained, _, described, measured = (cluster.type_in(command) for command in looks)
    (message,) = re.findall(r"1 job has no Workload .*", described)
    assert f"LocalQueue default/our-queue: {message}" in cluster.type_in(looks[1])
    assert ["default", "job.batch", "needs-data", "example.com/data"] in [
        line.split()[:4] for line in listed.splitlines()
    ]
    assert explained.startswith("job default/needs-data: it has no Workload because the gate example.com/data is set")
    assert 'headgate_gated_jobs{kind="Job",gate="example.com/data"} 1' in measured
    assert 'headgate_gated_jobs_oldest_seconds{kind="Job",gate="example.com/data"}' in measured
    assert cluster.states() == {}
    away, look = lifted
    cluster.type_in(away)
    wait_for(lambda: "needs-data" in cluster.type_in(look))
    cluster.wait_until({"needs-data": "finished"})
    wait_for(lambda: "headgate_gated_jobs{" not in cluster.type_in(f"curl -s http://{METRICS}/metrics"))


def test_the_rules_of_the_page_ask_for_metrics_that_there_are() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    expressions = [rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    named = {name for each in expressions for name in re.findall(r"\b(?:headgate|kueue)_\w+", each)}
    assert len(named) == 3
    assert named <= {*OF_JOBS, *OF_QUOTA}
