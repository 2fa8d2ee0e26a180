"""Invalid webhook options are refused before any request is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.commands.run import command
from headgate.cli.commands.up import command as up

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "needs either --webhook-url or --webhook-service"),
        (("--webhook-url", "https://h", "--webhook-service", "a/b"), "needs either"),
        (("--webhook-url", "http://h"), "over TLS only"),
        (("--webhook-service", "name"), "NAMESPACE/NAME"),
        (("--webhook-url", "https://h", "--webhook-secret", "x"), "--webhook-secret 'x' is not NAMESPACE/NAME"),
        (("--webhook-url", "https://h", "--webhook-listen", "h"), "--webhook-listen 'h' is not HOST:PORT"),
        (("--webhook-url", "https://h", "--shutdown-delay", "soon"), "'soon' is not a duration"),
        (("--webhook-url", "https://h", "--shutdown-delay", "-1s"), "'-1s' is not a duration"),
        (("--webhook-url", "https://h", "--dry-run"), "--dry-run is for the scheduler"),
        (("--webhook-url", "https://h", "--scheduler-name", "batch"), "profiles that use queues"),
        (("--webhook-url", "https://h", "--feature-gates", "PodSchedulingReadiness=false"), "QueueAllocationGate"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(tmp_path: Path, flags: tuple[str, ...], says: str) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    ended = CliRunner().invoke(
        command, ["--kubeconfig", str(tmp_path / "kubeconfig"), "--components", "webhooks", *flags]
    )
    assert ended.exit_code != 0
    assert says in " ".join(ended.output.split())


def test_pods_are_not_queued_where_nothing_could_hold_them(tmp_path: Path) -> None:
    gates = "PodSchedulingReadiness=false,QueueAllocationGate=false"
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    flags = ["--kubeconfig", str(tmp_path / "kubeconfig"), "--components", "jobs", "--feature-gates", gates]
    ended = CliRunner().invoke(command, flags)
    assert ended.exit_code == 2
    assert "leave PodSchedulingReadiness on" in " ".join(ended.output.split())


def test_a_cluster_is_not_started_with_queue_gates_and_without_scheduling_gates(tmp_path: Path) -> None:
    flags = ["--data", str(tmp_path / "data"), "--feature-gates", "PodSchedulingReadiness=false"]
    ended = CliRunner().invoke(up, flags)
    assert ended.exit_code == 2
    assert "add QueueAllocationGate=false" in " ".join(ended.output.split())
    assert not (tmp_path / "data").exists()
