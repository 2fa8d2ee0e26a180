"""`headgate run` killed under load beside a real kube-apiserver; `tests/wire` has more of it, on the embedded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.real import RealServer
from torture import schedulers

pytestmark = pytest.mark.real


def test_kills_lose_no_pod_and_bind_none_twice(kube_binaries: Path, tmp_path: Path) -> None:
    server = RealServer(tmp_path / "server", kube_binaries)
    try:
        outcome = schedulers.run(server, tmp_path, kills=3)
        assert outcome.under_way >= 2
    finally:
        server.disconnect()
        server.stop()
