"""The process that outlives a test run and kills what the run left behind; `orphans.py` starts it as a script.

It gets the mark of the run as its argument and ends when there is no process with that mark. Standard library only.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "HEADGATE_TEST_RUN"
PROC: Final = Path("/proc")
EMPTY_SEARCHES: Final = 5
"""So many searches in a row find nothing before the watchdog ends: a process that is being started shows the
environment of its parent until it has called exec."""
PAUSE_S: Final = 0.1
LIMIT_S: Final = 30.0


def processes_of(mark: str) -> list[int]:
    """The running processes whose environment has the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                values = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # it ended meanwhile, or belongs to another user
                continue
            if wanted in values:
                found.append(int(entry.name))
    return found


def kill_all(mark: str) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    empty = 0
    while empty < EMPTY_SEARCHES and time.monotonic() < deadline_s:
        found = processes_of(mark)
        empty = 0 if found else empty + 1
        for pid in found:
            with suppress(ProcessLookupError):  # it ended by itself
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    os.chdir("/")
    while os.read(0, 1):  # the end of the pipe is the end of the run
        pass
    kill_all(sys.argv[1])
