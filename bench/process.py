"""CPU time and memory of a process, from ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_runnable(pid: int) -> bool:
    """Whether any of its threads runs, or waits for a core."""
    states = (_read_stat(task) for task in Path(f"/proc/{pid}/task").iterdir())
    return any(fields[0] == "R" for fields in states if fields)


def _read_stat(task: Path) -> list[str]:
    try:
        return (task / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []  # it ended in the meantime


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Cpu:
    """The CPU seconds of several processes since this object was created."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = {name: cpu_s(pid) for name, pid in pids.items()}

    def used_s(self) -> dict[str, float]:
        return {name: cpu_s(pid) - self._before[name] for name, pid in self._pids.items()}


def add(each: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for one in each:
        for name, value in one.items():
            total[name] = total.get(name, 0.0) + value
    return total
