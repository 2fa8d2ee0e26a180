"""Who gives quota in a benchmark, and on what: Headgate in the embedded server, Headgate beside a real kube-apiserver,
and Kueue's minimalkueue beside one.

A place starts without its giver, so that there is something to give when it begins. minimalkueue is Kueue's scheduler
and core controllers without webhooks and jobs; its client is limited to 50 requests a second by its own code.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from harness.embedded import HEADGATE, EmbeddedServer
from harness.processes import Process
from harness.real import RealServer

MINIMAL_KUEUE: Final = "HEADGATE_MINIMALKUEUE"
"""The environment variable that names the binary."""
_FLAGS: Final = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=5000",
    "--max-mutating-requests-inflight=2500",
)


class Place(Protocol):
    """An API server, and who gives quota on it once he was told to begin."""

    def begin(self) -> None: ...

    @property
    def kubeconfig(self) -> str: ...

    def pids(self) -> dict[str, int]: ...

    def stop(self) -> None: ...


class Embedded:
    """Server and giver are one process: it starts anew with the giver in it."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._server = EmbeddedServer(folder, programs / "kubectl")
        _install(self.kubeconfig)

    def begin(self) -> None:
        self._server.restart(("--components", "apiserver,quota"))

    @property
    def kubeconfig(self) -> str:
        return str(self._server.kubeconfig)

    def pids(self) -> dict[str, int]:
        return self._server.pids()

    def stop(self) -> None:
        self._server.stop()


class Beside:
    """A real kube-apiserver, and a process beside it."""

    def __init__(self, folder: Path, programs: Path, command: Callable[[str], list[str]]) -> None:
        self._folder = folder
        self._command = command
        self._giver: Process | None = None
        self._server = RealServer(folder, programs, flags=_FLAGS)
        _install(self.kubeconfig)

    def begin(self) -> None:
        self._giver = Process(self._command(self.kubeconfig), self._folder / "giver.log")

    @property
    def kubeconfig(self) -> str:
        return str(self._server.kubeconfig)

    def pids(self) -> dict[str, int]:
        giver = {} if self._giver is None else {self._giver.name: self._giver.pid}
        return {**giver, **self._server.pids()}

    def stop(self) -> None:
        if self._giver is not None:
            self._giver.stop()
        self._server.disconnect()
        self._server.stop()


def _install(kubeconfig: str) -> None:
    subprocess.run([str(HEADGATE), "install-crds", "--kubeconfig", kubeconfig], check=True, capture_output=True)


def _headgate(kubeconfig: str) -> list[str]:
    return [str(HEADGATE), "run", "--kubeconfig", kubeconfig, "--components", "quota", "--no-leader-elect"]


def _minimal_kueue(kubeconfig: str) -> list[str]:
    return [os.environ[MINIMAL_KUEUE], "--kubeconfig", kubeconfig]


class Giver(msgspec.Struct, frozen=True):
    name: str
    open: Callable[[Path, Path], Place]
    """From a folder for its files and the folder of the real binaries."""


def _beside(command: Callable[[str], list[str]]) -> Callable[[Path, Path], Place]:
    return lambda folder, programs: Beside(folder, programs, command)


EMBEDDED: Final = Giver("embedded", Embedded)
REAL: Final = Giver("real", _beside(_headgate))
KUEUE: Final = Giver("minimalkueue", _beside(_minimal_kueue))
GIVERS: Final = {each.name: each for each in (EMBEDDED, REAL, KUEUE)}
