"""A pytest plugin: workers of their own for the test files that mostly wait.

Many files with real servers wait for back-offs, Leases and time limits and leave the CPU idle. `--waiting-workers N`
gives them to the last N workers of `-n`, which take no other file; the other workers begin with the files that compute,
and take files that wait only when none of those is left. With one computing worker for each core, files that compute
are not slowed down, and the waits of the others cost no time. `tests/file_seconds.json` says which files wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # no types
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # no types
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # no types

from harness.tiers import recorded

WAITING_SHARE: Final = 0.35
"""A file waits if it uses less CPU than this share of its time."""
WAITING_LEAST_S: Final = 5.0
"""Shorter files are not worth a place."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("headgate").addoption(
        "--waiting-workers", type=int, default=0, help="how many of the workers run only files that mostly wait"
    )


def files_that_wait(wall_s: dict[str, float], cpu_s: dict[str, float]) -> frozenset[str]:
    return frozenset(
        name for name, wall in wall_s.items() if wall >= WAITING_LEAST_S and cpu_s[name] < WAITING_SHARE * wall
    )


def next_file(queue: Iterable[str], waiting: Collection[str], *, is_waiting_worker: bool) -> str | None:
    """The file that a worker runs next, or None if there is none for it."""
    files = list(queue)
    wanted = next((file for file in files if (file in waiting) == is_waiting_worker), None)
    return wanted if wanted or is_waiting_worker else next(iter(files), None)


class WaitingFileScheduling(LoadFileScheduling):  # type: ignore[misc]  # its base has no types
    """Each file to one worker, and files that wait to the last workers first."""

    def __init__(self, config: pytest.Config, log: Producer, waiting: frozenset[str], waiting_workers: int) -> None:
        super().__init__(config, log)
        self._waiting = waiting
        self._waiting_workers = waiting_workers

    def _is_waiting_worker(self, node: WorkerController) -> bool:
        number, workers = int(node.gateway.id.removeprefix("gw")), int(self.numnodes)
        return workers - self._waiting_workers <= number < workers

    def _assign_work_unit(self, node: WorkerController) -> None:
        chosen = next_file(self.workqueue, self._waiting, is_waiting_worker=self._is_waiting_worker(node))
        if chosen is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WaitingFileScheduling | None:
    """Only with `--dist loadfile`: otherwise xdist chooses its own."""
    waiting_workers = config.getoption("waiting_workers")
    if not waiting_workers or config.getoption("dist") != "loadfile":
        return None
    waiting = files_that_wait(recorded("wall_s"), recorded("cpu_s"))
    return WaitingFileScheduling(config, log, waiting, waiting_workers)
