"""``headgate run --config``: the file sets the options; changed log settings take effect, others need a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.embedded_server import EmbeddedServer
from harness.metrics_page import get
from harness.rights import json_lines
from harness.scheduler_process import SchedulerProcess, create_nodes, create_pod, get_pod, is_bound, wait_for
from harness.server import Server

TEXT = """
apiVersion: headgate.dev/v1alpha1
kind: Configuration
clientConnection: {kubeconfig: cluster.kubeconfig}
leaderElection: {leaderElect: false}
scheduler:
  configuration:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles: [{schedulerName: batch}]
metrics: {listen: "127.0.0.1:0"}
logging: {format: json, level: LEVEL}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    made = EmbeddedServer(tmp_path / "server", None)
    create_nodes(made, [a_node("node-a", cpu="4")])
    yield made
    made.disconnect()
    made.stop()


def lines_of(running: SchedulerProcess) -> list[dict[str, Any]]:
    """All lines: with the format of the file each of them is JSON."""
    return json_lines(running.log)


def _bind(server: Server, running: SchedulerProcess, name: str) -> None:
    create_pod(server, a_pod(name, {"cpu": "1"}, schedulerName="batch"))
    wait_for(lambda: is_bound(get_pod(server, name)), running)


def test_a_run_takes_its_options_from_the_file_and_reloads_log_settings(server: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "headgate.yaml"
    (tmp_path / "cluster.kubeconfig").write_text(server.kubeconfig.read_text())
    file.write_text(TEXT.replace("LEVEL", "warning"))
    running = SchedulerProcess(server, tmp_path / "run.log", "--config", str(file))
    try:
        (metrics,) = [each["msg"] for each in lines_of(running) if each["msg"].startswith("metrics: ")]
        assert get(metrics.removeprefix("metrics: "))[0] == 200
        _bind(server, running, "silent")
        assert not [each for each in lines_of(running) if each["msg"] == "bound"]
        file.write_text(TEXT.replace("LEVEL", "info") + "takeover: true\n")
        warning = f"{file}: a restart is needed for changes of takeover"
        wait_for(lambda: warning in [each["msg"] for each in lines_of(running)], running)
        _bind(server, running, "told")
        wait_for(lambda: "bound" in [each["msg"] for each in lines_of(running)], running)  # after the response
        bound = [each for each in lines_of(running) if each["msg"] == "bound"]
        assert [(each["name"], each["node"], each["logger"]) for each in bound] == [
            ("told", "node-a", "headgate.decisions")
        ]
    finally:
        running.stop()
    assert lines_of(running)[-1]["msg"] == "stopped"
