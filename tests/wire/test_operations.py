"""docs/operations.md: its commands run as written, and the metrics that it names exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.render_monitoring import METRICS

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.server import JSON_TYPE

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
GATE = "example.com/dependency-ready"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, kube_binaries: Path) -> Iterator[EmbeddedServer]:
    started = EmbeddedServer(tmp_path_factory.mktemp("cluster"), kube_binaries / "kubectl")
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": GATE}]},
    }
    answer = started.request("POST", "/api/v1/namespaces/default/pods", JSON_TYPE, json.dumps(pod).encode())
    assert answer.status == 201
    yield started
    started.disconnect()
    started.stop()


def test_every_command_of_the_page_works_as_written(server: EmbeddedServer, kube_binaries: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 6
    path = f"{HEADGATE.parent}:{kube_binaries}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(server.kubeconfig)}
    printed: dict[str, str] = {}
    for command in commands:
        run = subprocess.run(
            shlex.split(command), env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert run.returncode == 0, (command, run.stderr)
        printed[command] = run.stdout
    assert GATE in printed["headgate gates list -A"]
    assert "lifted from 1 of 1 pods" in printed[f"headgate gates lift {GATE} --all -A"]


def test_every_metric_that_the_page_names_is_served() -> None:
    """`docs/observability.md` has all of them (`tests/unit/tools/test_render_monitoring.py`)."""
    found = re.findall(r"`((?:scheduler|headgate|kueue|volcano)_[a-z_]+)", PAGE)
    named = {re.sub("_(bucket|sum|count)$", "", each) for each in found}
    assert len(named) > 3
    assert named <= {name for families in METRICS.values() for name in families}
