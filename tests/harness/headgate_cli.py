"""The output of `headgate` commands, run against a server or against files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.embedded_server import HEADGATE
from harness.server import Server


def headgate(*arguments: str | Path) -> tuple[int, str, str]:
    """How it ended, what it printed, and what it complained of."""
    run = subprocess.run(
        [str(HEADGATE), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return run.returncode, run.stdout, run.stderr


def output_lines(server: Server, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
    """The same, asked about a server."""
    return headgate(*arguments, "--kubeconfig", kubeconfig or server.kubeconfig)
