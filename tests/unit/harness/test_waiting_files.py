"""Which worker runs which test file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # xdist has no types

from harness.waiting_files import WaitingFileScheduling, files_that_wait, next_file

WAITING = frozenset({"tests/wait_a.py", "tests/wait_b.py"})
FILES = ("tests/compute_a.py", "tests/wait_a.py", "tests/compute_b.py", "tests/wait_b.py")
TESTS = [f"{file}::test_{number}" for file in FILES for number in range(3)]


class Worker:
    """A worker of xdist as its scheduler sees it: runs what it is sent, when a test says so."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.to_run: list[int] = []
        self.files: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.to_run += indices
        self.files += [file for file in (TESTS[indices[0]].partition("::")[0],) if file not in self.files]

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduling(workers: int, waiting_workers: int) -> tuple[WaitingFileScheduling, list[Worker]]:
    options: Any = SimpleNamespace(
        option=SimpleNamespace(loadscopereorder=False, maxschedchunk=None), getvalue=lambda _name: ["popen"] * workers
    )
    made = WaitingFileScheduling(options, Producer("test", enabled=False), WAITING, waiting_workers)
    made.numnodes = workers
    nodes = [Worker(number) for number in range(workers)]
    for node in nodes:
        made.add_node(node)
        made.add_node_collection(node, TESTS)
    made.schedule()
    return made, nodes


def finish(made: WaitingFileScheduling, node: Worker) -> None:
    while node.to_run:
        made.mark_test_complete(node, node.to_run.pop(0))


def test_the_last_worker_gets_the_files_that_wait_and_the_other_one_the_rest() -> None:
    made, (computing, waiting) = scheduling(2, 1)
    finish(made, waiting)
    assert waiting.files == ["tests/wait_a.py", "tests/wait_b.py"]
    assert waiting.shutting_down
    finish(made, computing)
    assert computing.files == ["tests/compute_a.py", "tests/compute_b.py"]
    assert made.tests_finished
    assert not made.has_pending


def test_a_computing_worker_takes_files_that_wait_when_nothing_else_is_left() -> None:
    made, (computing, waiting) = scheduling(2, 1)
    finish(made, computing)
    assert computing.files == ["tests/compute_a.py", "tests/compute_b.py", "tests/wait_b.py"]
    finish(made, waiting)
    assert waiting.files == ["tests/wait_a.py"]
    assert made.tests_finished


def test_a_file_waits_if_it_uses_less_than_a_third_of_its_time() -> None:
    wall_s = {"short": 4.0, "waits": 60.0, "computes": 60.0}
    assert files_that_wait(wall_s, {"short": 0.0, "waits": 20.0, "computes": 22.0}) == {"waits"}


@pytest.mark.parametrize(("is_waiting_worker", "expected"), [(False, "tests/wait_a.py"), (True, "tests/wait_a.py")])
def test_files_are_taken_in_the_order_of_the_queue(is_waiting_worker: bool, expected: str) -> None:
    assert next_file(["tests/wait_a.py", "tests/wait_b.py"], WAITING, is_waiting_worker=is_waiting_worker) == expected


def test_a_waiting_worker_runs_nothing_that_computes() -> None:
    assert next_file(["tests/compute_a.py"], WAITING, is_waiting_worker=True) is None
