"""An interrupted test run leaves no process behind: `tests/harness/orphans.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.orphans import marked
from harness.processes import Process
from harness.watchdog import MARK

TESTS = Path(__file__).parents[2]
LIMIT_S = 60.0
# A server that ignores SIGINT and has a child in another session, which ignores SIGTERM, too.
SERVER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
    print(os.getpid(), child.pid, flush=True)
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""
SUITE = """
import os, sys, threading, time
from pathlib import Path
import pytest
from harness.processes import Process
HERE = Path(__file__).parent
@pytest.fixture(scope="session")
def server():
    started = []
    thread = threading.Thread(target=lambda: started.append(
        Process([sys.executable, str(HERE / "server.py")], HERE / f"server-{os.getpid()}.log")))
    thread.start()
    thread.join()
    yield started[0]
    started[0].stop()
@pytest.mark.parametrize("number", range(2))
def test_a_long_one(server, number):
    server.wait_until(lambda: len(server.log.read_text().split()) == 2, 30)
    ready = HERE / f"ready-{os.getpid()}"
    ready.with_suffix(".new").write_text(f"{os.getpid()} {server.log.read_text()}")
    ready.with_suffix(".new").rename(ready)
    time.sleep(0 if (HERE / "go").exists() else 600)
"""


# A shell starts background commands with SIGINT ignored, and their children inherit that.
RUN = """\
import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main(sys.argv[1:]))
"""


class Suite:
    """A test run with a server for each of its pytest processes, in the middle of its tests."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._ready = max(workers, 1)
        (folder / "server.py").write_text(SERVER)
        (folder / "test_suite.py").write_text(SUITE)
        (folder / "conftest.py").write_text('pytest_plugins = ["harness.orphans"]\n')
        flags = ("-n", str(workers)) if workers else ()
        command = [sys.executable, "-c", RUN, *flags, "-p", "no:cacheprovider", str(folder)]
        environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""}
        self.run = Process(command, folder / "run.log", environment)
        self.run.wait_until(lambda: len(self._ready_files()) >= self._ready, LIMIT_S)

    def _ready_files(self) -> list[Path]:
        return [each for each in self._folder.glob("ready-*") if not each.suffix]

    def workers(self) -> dict[int, list[int]]:
        """The processes of each server, by the pytest process that started it."""
        told = [[int(word) for word in each.read_text().split()] for each in self._ready_files()]
        return {pytest_pid: servers for pytest_pid, *servers in told}

    def let_go(self) -> None:
        (self._folder / "go").touch()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], Suite]]:
    suites: list[Suite] = []

    def start(workers: int) -> Suite:
        suites.append(Suite(tmp_path, workers))
        return suites[-1]

    yield start
    for each in suites:
        each.run.kill()


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def all_end(pids: list[int]) -> bool:
    deadline_s = time.monotonic() + LIMIT_S
    while any(map(running, pids)):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupted_run_leaves_no_process(start: Callable[[int], Suite], workers: int, number: int) -> None:
    suite = start(workers)
    started = [pid for pair in suite.workers().items() for pid in (pair[0], *pair[1])]
    assert len(started) == 3 * max(workers, 1)
    assert all(map(running, started))
    suite.run.signal(number)
    suite.run.wait(LIMIT_S)
    assert all_end(started), [pid for pid in started if running(pid)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_a_killed_xdist_worker_leaves_no_process_and_the_others_keep_theirs(
    start: Callable[[int], Suite], number: int
) -> None:
    suite = start(2)
    (killed, servers), (other, others) = suite.workers().items()
    suite.let_go()
    os.kill(killed, number)
    assert all_end([killed, *servers])
    assert all(map(running, [other, *others]))


def test_a_child_that_does_not_inherit_the_environment_is_marked() -> None:
    assert marked({"A": "1"}) == {"A": "1", MARK: os.environ[MARK]}
    printed = subprocess.run(
        [sys.executable, "-c", f"import os; print(os.environ[{MARK!r}])"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == os.environ[MARK]


def test_a_process_with_an_environment_of_its_own_is_marked(tmp_path: Path) -> None:
    process = Process(["env"], tmp_path / "env.log", {"A": "1"})
    process.wait()
    assert set(process.log.read_text().split()) == {"A=1", f"{MARK}={os.environ[MARK]}"}
