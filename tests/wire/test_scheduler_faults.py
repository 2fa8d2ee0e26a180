"""A scheduler that is killed, cut off, lied to, or stopped and continued, on the embedded server.

The end is always the same: every pod has a node, it is the one that it got first, and no node ever had too much.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import a_pod
from harness.embedded_server import EmbeddedServer
from harness.faulty_proxy import FaultyProxy
from harness.scheduler_process import SchedulerProcess, create_pod, get_pod, scheduled_reason, wait_for
from torture import schedulers
from torture.scheduler_kills import late_writes

SHORT_LEASE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaseDuration: 6s
  renewDeadline: 4s
  retryPeriod: 500ms
profiles:
- schedulerName: headgate
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    made = EmbeddedServer(tmp_path / "server")
    yield made
    made.disconnect()
    made.stop()


def test_fifteen_kills_lose_no_pod_and_bind_none_twice(server: EmbeddedServer, tmp_path: Path) -> None:
    outcome = schedulers.run(server, tmp_path, kills=15)
    assert outcome.kills == 15
    assert outcome.under_way >= 8  # else the kills came when there was nothing to do


def test_restarts_of_the_server_cut_watches_and_answers_that_lie_change_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    proxy = FaultyProxy(server, tmp_path)
    with schedulers.load(server, 400) as made:
        scheduler = SchedulerProcess(proxy, tmp_path / "run.log")
        proxy.inject_faults(rate=0.02, longest_watch_s=2.0)
        try:
            for share in (0.25, 0.6):
                made.wait_until(int(share * made.count), scheduler)
                server.kill()
                server.restart()
            made.judge()
            huge = a_pod("huge", {"cpu": "1000"}, schedulerName="headgate")
            del huge["metadata"]["uid"]
            create_pod(server, huge)
            wait_for(lambda: scheduled_reason(get_pod(server, "huge")) == "Unschedulable", scheduler)
            assert scheduler.running()
        finally:
            scheduler.stop()
            proxy.close()
    for fault in ("error", "error after the act", "lost", "cut"):
        assert proxy.faults[fault] >= 3, proxy.faults


def test_a_paused_leader_writes_nothing_after_it_resumes(server: EmbeddedServer, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(SHORT_LEASE)
    proxies = [FaultyProxy(server, tmp_path) for _ in range(2)]
    with schedulers.load(server, 300, backlog=100) as made:
        made.allowed = 30  # else the first is done with all of them before the other has started
        leader = SchedulerProcess(proxies[0], tmp_path / "first.log", "--config", str(config))
        try:
            made.wait_until(30, leader)
            other = SchedulerProcess(proxies[1], tmp_path / "second.log", "--config", str(config))
            try:
                made.allowed = made.count
                made.wait_until(60, leader)

                def taken_over() -> None:
                    made.wait_until(made.audit.bound + 50, other)

                assert late_writes(leader, proxies[0], taken_over, made.judge) == []
            finally:
                other.stop()
        finally:
            leader.signal(signal.SIGCONT)
            leader.stop()
            for wire in proxies:
                wire.close()
