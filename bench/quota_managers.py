"""The quota managers of a benchmark: Headgate in the embedded server, Headgate with a real kube-apiserver, and Kueue's
minimalkueue with one.

The server starts without the quota manager, so that Workloads exist when the manager starts. minimalkueue is Kueue's
scheduler and core controllers without webhooks and jobs; its own code limits its client to 50 requests per second.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.kueue import HOW_TO_GET_KUEUE, define_kueue, kueue_folder
from harness.processes import NotReady, Process
from harness.real_server import RealServer
from harness.server import Server

Command = Callable[[str, str], list[str]]
"""Arguments: a kubeconfig and the components."""

QUOTA: Final = "quota"
_FLAGS: Final = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=5000",
    "--max-mutating-requests-inflight=2500",
)


class Place(Protocol):
    """An API server, and the quota manager that starts on it when the benchmark says so."""

    def begin(self, components: str = QUOTA) -> None: ...

    @property
    def kubeconfig(self) -> str: ...

    def pids(self) -> dict[str, int]: ...

    def stop(self) -> None: ...


class Embedded:
    """Server and quota manager are one process: it is started again with the quota manager in it."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._server = EmbeddedServer(folder, programs / "kubectl")
        _install(self._server)

    def begin(self, components: str = QUOTA) -> None:
        self._server.restart(("--components", f"apiserver,{components}"))

    @property
    def kubeconfig(self) -> str:
        return str(self._server.kubeconfig)

    def pids(self) -> dict[str, int]:
        return self._server.pids()

    def stop(self) -> None:
        self._server.stop()


class Beside:
    """A real kube-apiserver, and a quota manager as a separate process."""

    def __init__(self, folder: Path, programs: Path, command: Command, define: Callable[[Server], None]) -> None:
        self._folder = folder
        self._command = command
        self._manager: Process | None = None
        self._server = RealServer(folder, programs, flags=_FLAGS)
        define(self._server)

    def begin(self, components: str = QUOTA) -> None:
        self._manager = Process(self._command(self.kubeconfig, components), self._folder / "quota-manager.log")

    @property
    def kubeconfig(self) -> str:
        return str(self._server.kubeconfig)

    def pids(self) -> dict[str, int]:
        manager = {} if self._manager is None else {self._manager.name: self._manager.pid}
        return {**manager, **self._server.pids()}

    def stop(self) -> None:
        if self._manager is not None:
            self._manager.stop()
        self._server.disconnect()
        self._server.stop()


def _install(server: Server) -> None:
    command = [str(HEADGATE), "install-crds", "--kubeconfig", str(server.kubeconfig)]
    subprocess.run(command, check=True, capture_output=True)


def _headgate(kubeconfig: str, components: str) -> list[str]:
    return [str(HEADGATE), "run", "--kubeconfig", kubeconfig, "--components", components, "--no-leader-elect"]


def _minimal_kueue(kubeconfig: str, components: str) -> list[str]:
    return [str(_kueue() / "minimalkueue"), "--kubeconfig", kubeconfig]


def _kueue() -> Path:
    folder = kueue_folder()
    if folder is None:
        raise NotReady(HOW_TO_GET_KUEUE)
    return folder


class QuotaManager(msgspec.Struct, frozen=True):
    name: str
    open: Callable[[Path, Path], Place]
    """Arguments: a folder for its files and the folder of the real binaries."""


def _beside(command: Command, define: Callable[[Server], None]) -> Callable[[Path, Path], Place]:
    return lambda folder, programs: Beside(folder, programs, command, define)


EMBEDDED: Final = QuotaManager("embedded", Embedded)
REAL: Final = QuotaManager("real", _beside(_headgate, _install))
KUEUE: Final = QuotaManager("minimalkueue", _beside(_minimal_kueue, lambda server: define_kueue(server, _kueue())))
QUOTA_MANAGERS: Final = {each.name: each for each in (EMBEDDED, REAL, KUEUE)}
