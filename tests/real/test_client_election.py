"""Two processes and one Lease, on both servers: one leads, is stopped, is followed, wakes up, and never writes between.

What each process notes is compared afterwards; waiting is for what the files say, not for luck.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.embedded_server import EmbeddedServer
from harness.processes import Process
from harness.real_server import RealServer
from harness.server import Server
from real.election_candidate import TIMING

pytestmark = pytest.mark.real

CANDIDATE = Path(__file__).with_name("election_candidate.py")
LEASE = "client-election"
PATIENCE_S = 40.0


class Candidate:
    def __init__(self, server: Server, folder: Path, name: str) -> None:
        self.notes = folder / name
        self.notes.touch()
        command = [sys.executable, str(CANDIDATE), str(server.kubeconfig), LEASE, name, str(self.notes)]
        self.process = Process(command, folder / f"{name}.log")

    def times(self) -> list[float]:
        """When it might write, as far as whole lines tell."""
        return [float(line) for line in self.notes.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def signal(self, number: signal.Signals) -> None:
        self.process.signal(number)


def until(what: str, condition: Callable[[], bool], candidates: list[Candidate]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise AssertionError(what + "".join(f"\n{each.process.name}: {each.process.tail()}" for each in candidates))
        time.sleep(0.02)


def play(server: Server, folder: Path) -> None:
    pair = [Candidate(server, folder, name) for name in ("a", "b")]
    try:
        until("nobody leads", lambda: any(each.times() for each in pair), pair)
        first, second = sorted(pair, key=lambda each: not each.times())
        assert not second.times()
        first.signal(signal.SIGSTOP)
        before = first.times()
        until("nobody follows", lambda: len(second.times()) > 5, pair)
        assert second.times()[0] - before[-1] >= TIMING.lease_s - TIMING.renew_s - TIMING.retry_s
        first.signal(signal.SIGCONT)
        marked = len(second.times())
        until("the second does not go on", lambda: len(second.times()) > marked + 50, pair)
        assert first.times() == before, "it wrote though another one led"
        second.process.stop()
        stopped_s = second.times()[-1]
        until("the first does not lead again", lambda: len(first.times()) > len(before), pair)
        after_s = first.times()[len(before)]
        assert stopped_s < after_s < stopped_s + TIMING.lease_s, "a lease that was given back is taken at once"
    finally:
        for each in pair:
            if each.process.running():
                each.signal(signal.SIGCONT)
            each.process.stop()


def test_on_a_real_server_a_stopped_leader_is_followed_and_does_not_write(
    real_server: RealServer, tmp_path: Path
) -> None:
    play(real_server, tmp_path)


def test_on_the_embedded_server_a_stopped_leader_is_followed_and_does_not_write(
    embedded_server: EmbeddedServer, tmp_path: Path
) -> None:
    play(embedded_server, tmp_path)
