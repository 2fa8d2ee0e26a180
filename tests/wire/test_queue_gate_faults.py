"""A scheduler with queues that is killed, cut off from its server, or stopped and continued, on the embedded server.

No queue is ever over its limit, no gate is removed twice, and in the end all pods that fit are bound.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.embedded_server import EmbeddedServer
from harness.faulty_proxy import FaultyProxy
from harness.scheduler_process import SchedulerProcess, wait_for
from torture import queues
from torture.scheduler_kills import late_writes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    made = EmbeddedServer(tmp_path / "server")
    yield made
    made.disconnect()
    made.stop()


def test_fifteen_kills_lose_no_pod_break_no_limit_and_leave_no_promise_behind(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """And then the server stands still for a while."""
    outcome = queues.run(server, tmp_path, kills=15, then=lambda made: queues.hang(server, made, 4.0))
    assert outcome.kills == 15
    assert outcome.under_way >= 8  # else the kills came when there was nothing to do
    assert outcome.replaced >= 10


def test_promises_in_flight_when_the_server_stops_are_kept_when_it_is_back(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    assert queues.outage(server, tmp_path, seconds=8.0) >= queues.AT_ONCE


def test_a_paused_leader_admits_no_pod_after_it_resumes(server: EmbeddedServer, tmp_path: Path) -> None:
    proxies = [FaultyProxy(server, tmp_path) for _ in range(2)]
    with queues.load(server, 120) as made:
        made.allowed = 40  # what is left for the other one must not be done before it is there
        leader = SchedulerProcess(proxies[0], tmp_path / "first.log")
        try:
            made.wait_until(10, leader)
            other = SchedulerProcess(proxies[1], tmp_path / "second.log")
            try:
                made.allowed = made.count
                made.wait_for_work(promised=False)

                def taken_over() -> None:
                    made.wait_until(made.audit.bound + 20, other)

                assert late_writes(leader, proxies[0], taken_over, lambda: made.judge(other)) == []
            finally:
                other.stop()
        finally:
            leader.signal(signal.SIGCONT)
            leader.stop()
            for wire in proxies:
                wire.close()


def test_replicas_of_which_one_has_the_feature_off_lose_no_pod_and_break_no_limit(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It takes over from the one that is stopped, lifts what waits, and is followed by one that promises again."""
    with queues.load(server, 110) as made:
        made.allowed = 40
        first = SchedulerProcess(server, tmp_path / "on.log")
        try:
            made.wait_until(10, first)
            off = SchedulerProcess(server, tmp_path / "off.log", "--feature-gates", "QueueAllocationGate=false")
            made.audit.switched_off = True
        finally:
            first.stop()
        try:
            made.allowed = 80
            wait_for(lambda: made.audit.problems or made.is_released, off, queues.PATIENCE_S)
            made.wait_until(made.allowed, off)  # all of them, in their turns
        finally:
            off.stop()
        assert any(not made.audit.stamp(uid) for uid in made.audit.lifted)  # gates of some went without a promise
        again = SchedulerProcess(server, tmp_path / "again.log")
        try:
            made.allowed = made.count
            made.judge(again)
        finally:
            again.stop()
