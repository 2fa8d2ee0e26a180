"""A server of either make for suites that tell the same story on both, one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness.embedded_server import EmbeddedServer
from harness.real_server import RealServer

MAKES = ("embedded", "real")


@contextlib.contextmanager
def started(make: str, folder: Path, programs: Path) -> Iterator[EmbeddedServer | RealServer]:
    server = RealServer(folder, programs) if make == "real" else EmbeddedServer(folder, programs / "kubectl")
    try:
        yield server
    finally:
        server.disconnect()
        server.stop()
