"""docs/gate-policies.md on a cluster in one process: what it says to type does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.page_sessions import page_steps
from harness.real_server import REPOSITORY
from harness.scheduler_process import wait_for

pytestmark = pytest.mark.real

PAGE = (REPOSITORY / "docs" / "gate-policies.md").read_text()
EXPORTED, APPLY, ACCEPTED, POD, LIST, LIFT, *LOOKS = (step.command for step in page_steps(PAGE))


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[EmbeddedServer]:
    flags = ("--components", "apiserver,controllers,scheduler", "--feature-gates", "GateOwnership=true")
    made = EmbeddedServer(tmp_path / "up", kube_binaries / "kubectl", flags)
    yield made
    made.disconnect()
    made.stop()


def test_the_commands_of_the_page_do_what_it_says(server: EmbeddedServer, kube_binaries: Path) -> None:
    path = f"{HEADGATE.parent}:{kube_binaries}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(server.kubeconfig)}

    def type_in(command: str) -> subprocess.CompletedProcess[str]:
        words = ["sh", "-c", command]
        return subprocess.run(
            words, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    assert EXPORTED == "export KUBECONFIG=.headgate/kubeconfig"
    for command in (APPLY, ACCEPTED, POD):
        done = type_in(command)
        assert done.returncode == 0, (command, done.stderr)
    wait_for(lambda: "LeaseNotFound" in type_in(LIST).stdout)
    refused = type_in(LIFT)
    assert refused.returncode == 1
    says = re.search(r"The last command fails, because you are not the owner: `(.*?)`", " ".join(PAGE.split()))
    assert says is not None
    assert says[1] in refused.stderr
    for command in LOOKS:
        done = type_in(command)
        assert done.returncode == 0, (command, done.stderr)
        assert "dependency-ready" in done.stdout


def test_a_policy_says_whether_the_feature_is_on(server: EmbeddedServer) -> None:
    def accepted() -> str:
        columns = "jsonpath={.status.conditions[?(@.type=='Accepted')].reason}"
        return server.kubectl(["get", "gatepolicy", "p", "-o", columns]).stdout

    policy = {"apiVersion": "headgate.dev/v1alpha1", "kind": "GatePolicy", "metadata": {"name": "p"}}
    made = server.kubectl(["create", "-f", "-"], json.dumps({**policy, "spec": {"gates": ["x.io/a"]}}))
    assert made.exit == 0, made.stderr
    wait_for(lambda: accepted() == "Accepted")
    components = ("--components", "apiserver,controllers,scheduler")
    server.restart((*components, "--feature-gates", "GateOwnership=false"))
    assert accepted() == "FeatureGateOff"
    server.restart((*components, "--feature-gates", "GateOwnership=true"))
    wait_for(lambda: accepted() == "Accepted")


def test_the_policy_of_the_page_is_the_example() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    example = (REPOSITORY / "examples" / "gate-policy.yaml").read_text()
    assert yaml.safe_load(block) == yaml.safe_load(example)
