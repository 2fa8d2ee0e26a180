"""Helm beside a server: `make helm` builds it, and each command has a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.orphans import marked
from harness.real_server import REPOSITORY
from harness.server import Result

HOW_TO_GET_HELM = "run `make helm` (needs Go), or set HEADGATE_KUBE_BIN to a folder that has it"
CHART = REPOSITORY / "deploy" / "helm" / "headgate"
_TIMEOUT_S = 240.0


def helm_program() -> Path | None:
    """What `make helm` has built, or None if it did not."""
    command = [sys.executable, str(REPOSITORY / "tools" / "kube" / "build.py"), "helm", "--print-dir"]
    folder = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    return folder / "helm" if os.access(folder / "helm", os.X_OK) else None


class Helm:
    """`kubeconfig`: None for commands that ask no server."""

    def __init__(self, program: Path, home: Path, kubeconfig: Path | None = None) -> None:
        self._program, self._kubeconfig = program, kubeconfig
        own = {"HOME": str(home), "PATH": os.environ["PATH"], "HELM_NAMESPACE": "headgate-system"}
        self._environment = marked(own)

    def run(self, *words: str) -> Result:
        access = () if self._kubeconfig is None else ("--kubeconfig", str(self._kubeconfig))
        done = subprocess.run(
            [str(self._program), *words, *access],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=self._environment,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def said(self, *words: str) -> str:
        """What a command says that succeeds."""
        done = self.run(*words)
        assert done.exit == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout
