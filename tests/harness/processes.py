"""Child processes of a test session: started with a log file, watched until they are ready, stopped by process id.

A program gets its port before it binds it, and a server that is restarted binds the same port again. Meanwhile the
kernel must not give the port to an outgoing connection, nor another test process to its own servers. So each test
process has a block of ports below those that the kernel chooses from.
"""

from __future__ import annotations

import atexit
import errno
import functools
import itertools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.orphans import marked


class NotReady(Exception):
    """A server that did not start; the text holds the end of its log."""


FIRST_PORT, LAST_PORT = 20_000, 29_999
"""Below 32768, where the ports of outgoing connections begin by default."""
PORTS_OF_A_BLOCK = 200


class PortBlock:
    """Consecutive ports of one test process. It has the block as long as it keeps the first port bound."""

    def __init__(self) -> None:
        self._claim, first = _claimed_block()
        self._ports = itertools.cycle(range(first + 1, first + PORTS_OF_A_BLOCK))

    def close(self) -> None:
        self._claim.close()

    def next_free(self) -> int:
        """The port that was given out longest ago, if no program uses it."""
        for port in itertools.islice(self._ports, PORTS_OF_A_BLOCK):
            if (probe := _bound(port)) is not None:
                probe.close()
                return port
        raise NotReady(f"no free port among the {PORTS_OF_A_BLOCK} of this process")


def _claimed_block() -> tuple[socket.socket, int]:
    for first in range(FIRST_PORT, LAST_PORT, PORTS_OF_A_BLOCK):
        if (claim := _bound(first)) is not None:
            return claim, first
    raise NotReady(f"no free block between the ports {FIRST_PORT} and {LAST_PORT}")


def _bound(port: int) -> socket.socket | None:
    """A socket at this port of all addresses; None if a program uses the port at any address."""
    made = socket.socket()
    try:
        made.bind(("", port))
    except OSError as refused:
        made.close()
        if refused.errno != errno.EADDRINUSE:
            raise
        return None
    return made


@functools.cache
def _own_block() -> PortBlock:
    block = PortBlock()
    atexit.register(block.close)
    return block


def free_ports(count: int) -> list[int]:
    """Ports that only this test process gives to its programs."""
    return [_own_block().next_free() for _ in range(count)]


class Process:
    """`environment`: that of this process if absent, and always with the mark of the test run. `user`: the uid and the
    gid that it runs as, without other groups; those of this process if absent."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        user: int | None = None,
    ) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else marked(environment),
                user=user,
                group=user,
                extra_groups=None if user is None else [],
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
            self.signal(signal.SIGTERM)
            try:
                self._child.wait(20)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()

    def signal(self, number: int) -> None:
        """After SIGSTOP it has stopped: until then it may write."""
        self._child.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wait(self, limit_s: float = 60.0) -> int:
        """Until it has ended; its exit code."""
        return self._child.wait(limit_s)
