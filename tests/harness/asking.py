"""What `headgate` answers when it is asked about a server, as a user types it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.embedded import HEADGATE
from harness.server import Server


def asked(server: Server, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
    """How it ended, what it printed, and what it complained of."""
    run = subprocess.run(
        [str(HEADGATE), *arguments, "--kubeconfig", str(kubeconfig or server.kubeconfig)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.returncode, run.stdout, run.stderr
