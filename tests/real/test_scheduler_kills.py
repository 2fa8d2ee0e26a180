"""`headgate run` killed under load beside a real kube-apiserver, which then goes away itself and comes back.

`tests/wire/test_scheduler_faults.py` does more of it, on the embedded server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.real_server import RealServer
from torture import schedulers

pytestmark = pytest.mark.real


def test_kills_and_a_restart_of_the_server_lose_no_pod_and_bind_none_twice(kube_binaries: Path, tmp_path: Path) -> None:
    server = RealServer(tmp_path / "server", kube_binaries)

    def restart(made: schedulers.Load) -> None:
        assert made.audit.bound < made.count
        server.kill()
        server.restart()

    try:
        outcome = schedulers.run(server, tmp_path, kills=3, then=restart)
        assert outcome.under_way >= 2
    finally:
        server.disconnect()
        server.stop()
