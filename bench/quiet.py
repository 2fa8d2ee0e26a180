"""Whether the machine is quiet enough to measure on: how many cores other processes keep busy, from ``/proc/stat``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

STAT: Final = Path("/proc/stat")
WINDOW_S: Final = 3.0
LIMIT_CORES: Final = 0.2
"""If other processes use a fifth of a core, a rate changes by a tenth when two processes are compared on two cores."""
_IDLE: Final = slice(3, 5)  # idle, and waiting for I/O
ANYWAY: Final = "HEADGATE_BENCH_ANYWAY"


class Busy(Exception):
    """The machine is not quiet; the text says by how much, and what to do."""


def busy_s(text: str) -> float:
    """Seconds that all cores together were not idle since the start of the machine, by the text of ``/proc/stat``."""
    ticks = [int(each) for each in text.splitlines()[0].split()[1:9]]
    return (sum(ticks) - sum(ticks[_IDLE])) / os.sysconf("SC_CLK_TCK")


def busy_cores(window_s: float = WINDOW_S) -> float:
    """How many cores were busy in the next few seconds, in which this process sleeps."""
    before_s, began_s = busy_s(STAT.read_text()), time.perf_counter()
    time.sleep(window_s)
    return (busy_s(STAT.read_text()) - before_s) / (time.perf_counter() - began_s)


def check(cores: float, *, anyway: bool) -> str:
    """A sentence about the machine. Raises if other processes use it, unless figures are wanted anyway."""
    found = f"other processes keep {cores:.2f} of {os.cpu_count()} cores busy (limit {LIMIT_CORES:g})"
    if cores <= LIMIT_CORES:
        return f"quiet: {found}"
    if anyway:
        return f"WARNING: not quiet: {found}; these figures can be compared with no others"
    raise Busy(f"not quiet: {found}; stop them, or set {ANYWAY}=1 to measure all the same")
