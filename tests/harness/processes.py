"""Child processes of a test session: started with a log file, watched until they are ready, stopped by process id.

The kernel chooses free ports. Another process may take a port before ours binds it, so the callers (`real_server.py`,
`embedded_server.py`) repeat a start that fails at once with other ports.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class NotReady(Exception):
    """A server that did not start; the text holds the end of its log."""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Process:
    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def running(self) -> bool:
        return self._child.poll() is None

    def wait_until(self, ready: Callable[[], bool], limit_s: float) -> None:
        deadline_s = time.monotonic() + limit_s
        while not ready():
            if not self.running():
                raise NotReady(f"{self.name} ended with {self._child.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline_s:
                raise NotReady(f"{self.name} was not ready in {limit_s:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        if self.running():
            self._child.terminate()
            try:
                self._child.wait(20)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def wait(self, limit_s: float = 20.0) -> int:
        """Until it has ended; its exit code."""
        return self._child.wait(limit_s)
