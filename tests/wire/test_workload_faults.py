"""Workload controllers that are killed while they work, on the embedded server: what owners promise always holds."""

from __future__ import annotations

from pathlib import Path

from harness.embedded_server import EmbeddedServer
from torture import workloads


def test_twelve_kills_break_no_promise_and_lose_no_job(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "server", flags=("--components", "apiserver,nodes,scheduler"))
    try:
        outcome = workloads.run(server, tmp_path, kills=12)
    finally:
        server.disconnect()
        server.stop()
    assert outcome.under_way >= 8  # else the kills came when there was nothing to do
    assert outcome.jobs >= 4
