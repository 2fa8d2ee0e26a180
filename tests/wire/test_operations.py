"""docs/operations.md: its commands run as written, its alert rules are YAML of the right form."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.server import JSON_TYPE
from headgate.scheduling.metrics.scheduler_metrics import FAMILIES

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


def test_the_alert_rules_are_rules() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (group,) = yaml.safe_load(block)["groups"]
    assert len(group["rules"]) == 5
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "annotations"}


def test_every_metric_that_the_page_names_is_served() -> None:
    names = re.findall(r"\b(?:scheduler|headgate|volcano)_(?:[a-z_]|(?<=_)\{[a-z_]+(?:,[a-z_]+)+\})+", PAGE)
    named = {re.sub("_(bucket|sum)$", "", each) for name in names for each in _spelled_out(name)}
    assert named == set(FAMILIES)


def _spelled_out(name: str) -> list[str]:
    """``a_{b,c}`` is ``a_b`` and ``a_c``."""
    parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\})", name) if part]
    return ["".join(words) for words in itertools.product(*parts)]
