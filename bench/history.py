"""``bench/history.jsonl``: every measured table, one per line, and the differences of a new table from the last.

A line has the time, the commit (and whether the tree had other changes), the machine, how many cores other processes
used, the name of the table, and its rows as they are in ``docs/benchmarks.md``. Cells that begin with a number are
compared by that number.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).with_name("history.jsonl")
_NUMBER: Final = re.compile(r"^[≥≤]?\s*(\d[\d,]*(?:\.\d+)?)\s*(\S*)")


class Entry(msgspec.Struct, frozen=True):
    time: str
    commit: str
    changed: bool
    """Whether files of the tree differ from the commit."""
    python: str
    cpus: int
    busy_cores: float | None
    name: str
    heads: list[str]
    rows: list[list[str]]


def entry(name: str, lines: Sequence[str], busy_cores: float | None) -> Entry:
    """Parses the lines of a Markdown table."""
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")]
    return Entry(
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        commit=_git("rev-parse", "--short", "HEAD"),
        changed=bool(_git("status", "--porcelain", "--untracked-files=no")),
        python=platform.python_version(),
        cpus=os.cpu_count() or 0,
        busy_cores=busy_cores,
        name=name,
        heads=cells[0] if cells else [],
        rows=cells[2:],
    )


def append(new: Entry, file: Path) -> Entry | None:
    """Appends the table. Returns the last one of the same name, if there is one."""
    last = next((each for each in reversed(list(read(file))) if each.name == new.name), None)
    with file.open("ab") as history:
        history.write(msgspec.json.encode(new) + b"\n")
    return last


def read(file: Path = FILE) -> Iterator[Entry]:
    if file.exists():
        for line in file.read_bytes().splitlines():
            yield msgspec.json.decode(line, type=Entry)


def changes(last: Entry, new: Entry) -> list[str]:
    """The differences, as lines: cells of the same row and column whose numbers have the same unit."""
    before = {(_label(row), head): cell for row in last.rows for head, cell in zip(last.heads, row, strict=False)}
    lines = []
    for row in new.rows:
        for head, cell in list(zip(new.heads, row, strict=False))[1:]:
            was, now = _NUMBER.match(before.get((_label(row), head), "")), _NUMBER.match(cell)
            if was and now and was[2] == now[2] and float(was[1].replace(",", "")) and was[1] != now[1]:
                times = float(now[1].replace(",", "")) / float(was[1].replace(",", ""))
                lines.append(f"{_label(row)}, {head}: {was[0]} → {now[0]} ({times:.2f}×)")
    return lines


def _label(row: Sequence[str]) -> str:
    """The first cell, and also the second if it is a name."""
    return ", ".join(row[:2] if len(row) > 1 and row[1] and not _NUMBER.match(row[1]) else row[:1])


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(FILE.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
