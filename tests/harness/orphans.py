"""A pytest plugin: the processes that a test run started end with the run, however it ends.

Each pytest process (the controller and every xdist worker) puts a mark into its environment, which its child processes
inherit, and starts one watchdog (`watchdog.py`). The watchdog reads from a pipe whose writing end only the pytest
process has. The pipe closes when that process ends, also by SIGKILL; the watchdog then kills every process whose
environment has the mark. The mark reaches grandchildren and processes in sessions of their own, which a process group
does not. PR_SET_PDEATHSIG would kill a server as soon as the thread that started it ends.

`bench` and `torture` call `watch_over` themselves. Without `/proc` (macOS) there is no watchdog.
PYTEST_DONT_REWRITE: other modules of the harness import this one before pytest does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.watchdog import MARK, PROC


def marked(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the mark of this run, for a child that does not inherit ours."""
    mark = os.environ.get(MARK)
    return {**environment, MARK: mark} if mark else dict(environment)


def watch_over() -> None:
    """Mark the children that this process starts from now on; a watchdog kills them when this process has ended."""
    if not (PROC / "self" / "environ").exists():
        return
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    mark = f"{os.getpid()}-{time.time_ns()}"
    reading, _ = os.pipe()  # neither end is inherited; the writing end stays open as long as this process runs
    watchdog = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("watchdog.py")), mark],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=unmarked,  # the watchdog of an outer run must not kill this one before it has done its work
        start_new_session=True,  # signals to the terminal's process group do not reach it
    )
    watchdog.returncode = 0  # it outlives this process: that is no reason for a ResourceWarning
    os.close(reading)
    os.environ[MARK] = mark


def pytest_configure(config: pytest.Config) -> None:
    watch_over()
