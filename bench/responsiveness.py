"""How long a small read takes while eight clients send bodies of the maximum size.

One round for each kind of body, and one with all of them. Writes the table in ``docs/benchmarks.md``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from bench import report
from harness.embedded_server import EmbeddedServer
from large_bodies import Client, bodies, measure, prepare

CLIENTS: Final = 8
ROUND_S: Final = 4.0


def main() -> None:
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedServer(Path(folder))
        try:
            client = Client(server.url, server.token, str(server.ca))
            prepare(client)
            client.close()
            for kind in (*bodies(), ""):
                kinds = (kind,) if kind else ()
                measured = measure(server.url, server.token, server.ca, clients=CLIENTS, seconds=ROUND_S, kinds=kinds)
                row = [kind or "all of them", str(sum(measured.answers.values())), str(len(measured.latencies_s))]
                rows.append(row + [f"{measured.percentile_s(percent) * 1000:.0f} ms" for percent in (50, 99, 100)])
        finally:
            server.stop()
    heads = (f"{CLIENTS} clients send", "large requests", "small reads", "median", "p99", "longest")
    report.write("responsiveness", report.table(heads, rows))
