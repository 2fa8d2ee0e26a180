"""Quota and jobs whose process is killed, cut off from its server, or stopped and continued, on the embedded server.

No queue is ever over its limits, no workload is admitted twice, no job runs without its quota, and all jobs run to
their end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.embedded_server import EmbeddedServer
from harness.faulty_proxy import FaultyProxy
from torture import quota
from torture.scheduler_kills import late_writes

LEASES = 2
"""One for quota, one for jobs."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    made = EmbeddedServer(tmp_path / "server", flags=quota.COMPONENTS)
    yield made
    made.disconnect()
    made.stop()


def test_fifteen_kills_lose_no_job_and_give_no_quota_twice(server: EmbeddedServer, tmp_path: Path) -> None:
    outcome = quota.run(server, tmp_path, kills=15)
    assert outcome.kills == 15
    assert outcome.evictions > 0
    assert outcome.lifted > 0
    assert outcome.deleted + outcome.replaced > 0
    assert outcome.admissions >= outcome.jobs - outcome.deleted


def test_a_server_outage_loses_no_workload(server: EmbeddedServer, tmp_path: Path) -> None:
    assert quota.outage(server, tmp_path, seconds=4.0).admissions > 0


def test_a_paused_leader_reserves_no_quota_after_it_resumes(server: EmbeddedServer, tmp_path: Path) -> None:
    proxies = [FaultyProxy(server, tmp_path) for _ in range(2)]
    load = quota.Load(server)
    leader = quota.QuotaProcess(proxies[0], tmp_path / "first.log")
    try:
        quota.work_on(load, leader, 20)
        other = quota.QuotaProcess(proxies[1], tmp_path / "second.log")
        try:

            def taken_over() -> None:
                quota.work_on(load, other, 40, begin=lambda: other.log.read_text().count("elected: holds") == LEASES)

            assert late_writes(leader, proxies[0], taken_over, lambda: load.judge(other)) == []
        finally:
            other.stop()
    finally:
        leader.signal(signal.SIGCONT)
        leader.stop()
        for wire in proxies:
            wire.close()
