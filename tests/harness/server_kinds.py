"""Starts a server of either kind, embedded or real, for suites that run the same tests on one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness.embedded_server import EmbeddedServer
from harness.real_server import RealServer

SERVER_KINDS = ("embedded", "real")


@contextlib.contextmanager
def running_server(kind: str, folder: Path, programs: Path) -> Iterator[EmbeddedServer | RealServer]:
    server = RealServer(folder, programs) if kind == "real" else EmbeddedServer(folder, programs / "kubectl")
    try:
        yield server
    finally:
        server.disconnect()
        server.stop()
