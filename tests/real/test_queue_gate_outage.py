"""A real kube-apiserver goes away while removals of gates are on their way to it, and comes back.

`tests/wire/test_queue_gate_faults.py` does more of it, on the embedded server; `make torture ARGS=queues` for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.real_server import RealServer
from torture import queues

pytestmark = pytest.mark.real


def test_promises_in_flight_when_the_server_stops_are_kept_when_it_is_back(kube_binaries: Path, tmp_path: Path) -> None:
    server = RealServer(tmp_path / "server", kube_binaries)
    try:
        assert queues.outage(server, tmp_path, seconds=2.0, pods=40) >= queues.AT_ONCE
    finally:
        server.disconnect()
        server.stop()
