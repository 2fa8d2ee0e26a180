"""Shared parts of the runs that kill a scheduler again and again under load and start another one.

Each run chooses the load, the time of the next kill and the checks (``schedulers.py``, ``queues.py``).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from harness.faulty_proxy import FaultyProxy
from harness.processes import Process
from harness.scheduler_audit import SchedulerAudit
from harness.scheduler_process import SchedulerProcess, wait_for
from harness.server import Server

ALONE = "--no-leader-elect"


class Load(Protocol):
    @property
    def audit(self) -> SchedulerAudit: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


L = TypeVar("L", bound=Load)


@contextmanager
def under(made: L) -> Iterator[L]:
    """Judged from its first pod on."""
    made.audit.start()
    made.start()
    try:
        yield made
    finally:
        made.close()


def kill_often(
    server: Server,
    folder: Path,
    kills: int,
    until_the_next: Callable[[SchedulerProcess], None],
    killed: Callable[[int], None],
) -> SchedulerProcess:
    """The scheduler that runs after the last kill."""
    scheduler = SchedulerProcess(server, folder / "run.log", ALONE)
    try:
        for kill in range(1, kills + 1):
            until_the_next(scheduler)
            scheduler.kill()
            killed(kill)
            scheduler = SchedulerProcess(server, folder / f"run-{kill}.log", ALONE)
    except BaseException:
        scheduler.stop()
        raise
    return scheduler


def late_writes(
    leader: Process, proxy: FaultyProxy, while_stopped: Callable[[], None], afterwards: Callable[[], None]
) -> list[str]:
    """What a leader writes, Leases aside, that was stopped while another one took over and then goes on."""
    leader.signal(signal.SIGSTOP)
    while_stopped()
    written = len(proxy.writes)
    leader.signal(signal.SIGCONT)
    afterwards()
    wait_for(lambda: "no longer elected" in leader.log.read_text(), leader)
    return [path for _, _, path in proxy.writes[written:] if "/leases/" not in path]
