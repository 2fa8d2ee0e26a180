"""The embedded Headgate API server as a subprocess: `headgate up --components apiserver`, exactly as a user starts it.

The admission plugin ServiceAccount is off unless a test asks for it, as on the real server: most tests run no
controller that makes service accounts. The server is ready when it prints the line `ready`; the address and the token
are in the kubeconfig it writes. `restart` keeps the data folder, for tests of what a server finds again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.certificate_authority import trusted
from harness.processes import NotReady, Process
from harness.server import Server
from harness.users import TOKENS

HEADGATE = Path(sys.executable).with_name("headgate")


class EmbeddedServer(Server):
    def __init__(
        self,
        folder: Path,
        kubectl_binary: Path | None = None,
        flags: Sequence[str] = (),
        name: str = "embedded",
        *,
        disabled_plugins: str = "ServiceAccount",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._kubectl = kubectl_binary
        self._name = name
        self._disabled_plugins = disabled_plugins
        self._starts = 0
        self._process = self._start(flags)

    def _start(self, flags: Sequence[str]) -> Process:
        if not HEADGATE.exists():
            raise NotReady(f"{HEADGATE} is absent: install the package (`make venv`)")
        self._starts += 1
        kubeconfig = self._folder / f"kubeconfig-{self._starts}"
        tokens = self._folder / "tokens.csv"
        tokens.write_text(TOKENS)
        clients = self._folder / "clients.crt"
        clients.write_bytes(trusted().pem)
        self.account_key = self._folder / "data" / "pki" / "sa.key"
        process = Process(
            [
                str(HEADGATE),
                *("up", "--components", "apiserver", "--data", str(self._folder / "data")),
                *("--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig)),
                *("--token-auth-file", str(tokens), "--client-ca", str(clients)),
                *("--allow-privileged=false", f"--disable-admission-plugins={self._disabled_plugins}", *flags),
            ],
            self._folder / f"headgate-{self._starts}.log",
        )
        try:
            process.wait_until(lambda: kubeconfig.exists() and _said_ready(process.log), 60)
        except NotReady:
            process.stop()
            raise
        Server.__init__(self, self._name, kubeconfig, self._kubectl, self._folder / "home")
        return process

    def restart(self, flags: Sequence[str] = ()) -> None:
        self._process.stop()
        left_open = self._open
        self._process = self._start(flags)
        self._open |= left_open

    def log(self) -> str:
        return f"--- headgate (end of {self._process.log})\n{self._process.tail()}"

    def pids(self) -> dict[str, int]:
        """Its one process."""
        return {self._process.name: self._process.pid}

    def kill(self) -> None:
        """No goodbye; `restart` starts the next one."""
        self._process.kill()

    def stop(self) -> None:
        self._process.stop()


def _said_ready(log: Path) -> bool:
    return any(line.strip() == "ready" for line in log.read_text(errors="replace").splitlines())
