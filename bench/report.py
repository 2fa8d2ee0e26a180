"""Results as text: progress lines, and tables for ``docs/benchmarks.md``.

The text of the page is written by hand. Each table is between two marks that name it, and only the lines between them
are replaced.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import platform
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from bench import history

FILE: Final = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
T = TypeVar("T")


class Row(msgspec.Struct, frozen=True):
    """One thing measured on both servers."""

    title: str
    unit: str
    real: float
    ours: float
    ratio: float
    bar: float
    met: bool
    more_is_better: bool
    real_cpu_us: Mapping[str, float]
    our_cpu_us: Mapping[str, float]

    def line(self) -> str:
        cells = self.cells()
        return f"{cells[0]:44} real {cells[1]:>12}  ours {cells[2]:>12}  {cells[3]}"

    def cells(self) -> list[str]:
        sign = "≥" if self.more_is_better else "≤"
        verdict = f"{self.ratio:.2f}× (bar {sign} {self.bar:.1f}×{'' if self.met else ', **missed**'})"
        return [
            self.title,
            _figure(self.real, self.unit),
            _figure(self.ours, self.unit),
            verdict,
            _cpu(self.real_cpu_us),
            _cpu(self.our_cpu_us),
        ]


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f}{unit}" if unit.startswith("/") else f"{value:,.1f} {unit}"


def _cpu(each: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:,.0f} µs" for name, value in each.items())


def comparison_table(rows: Sequence[Row]) -> list[str]:
    return table(
        ("what", "real", "ours", "ours / real", "CPU each, real", "CPU each, ours"), [row.cells() for row in rows]
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_line(heads), _line(["---"] * len(heads)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def machine() -> str:
    today = datetime.datetime.now(datetime.UTC).date()
    load = os.getloadavg()[0]
    return f"{today}, Python {platform.python_version()}, {os.cpu_count()} CPUs, load {load:.1f} when written."


def write(name: str, lines: Sequence[str], file: Path | None = None) -> None:
    """``file``: the page with the place for the table; docs/benchmarks.md without it."""
    file = file or FILE
    begin, end = f"<!-- measured: {name} -->", "<!-- end -->"
    text = file.read_text()
    if begin not in text:
        raise ValueError(f"{file} has no place for {name!r}: add the marks {begin} and {end}")
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    file.write_text(before + "\n".join((begin, machine(), "", *lines, end)) + after)
    record(name, lines)


_busy_cores: list[float] = []


def busy(cores: float) -> None:
    """The result of `quiet` before the first measurement; it is part of every line of the history."""
    _busy_cores[:] = [cores]


def record(name: str, lines: Sequence[str]) -> None:
    """Appends the table to ``bench/history.jsonl`` and prints how it differs from the last one."""
    new = history.entry(name, lines, _busy_cores[0] if _busy_cores else None)
    last = history.append(new, history.FILE)
    if last is not None:
        print(f"{name}, since {last.commit} of {last.time}:")
        print("\n".join(f"  {each}" for each in history.changes(last, new)) or "  no figure changed")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Uses uvloop if it is installed, because the client should use little CPU."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(coroutine)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)
