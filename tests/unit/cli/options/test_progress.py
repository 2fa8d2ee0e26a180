"""Progress bars: what they say, and where they are drawn."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.options.progress import ProgressBar, describe, draw, duration, is_live

ROOT = Path(__file__).parents[4]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def run(stream: io.StringIO, environment: dict[str, str], *, each_s: float, steps: int = 4) -> str:
    clock = Clock()
    with ProgressBar("copying", 100, "rows", stream=stream, environment=environment, clock=clock) as bar:
        for step in range(1, steps + 1):
            clock.now_s += each_s
            bar(25 * step)
    return stream.getvalue()


def test_it_says_how_much_is_done_how_fast_and_how_long_it_takes_still() -> None:
    assert describe("copying", 400, 1000, "rows", 4.0) == "copying: 400 of 1000 rows, 40 %, 100/s, 6 s left"
    assert describe("events", 30, None, "", 10.0) == "events: 30, 3.0/s"
    assert describe("copying", 0, 1000, "rows", 0.0) == "copying: 0 of 1000 rows, 0 %"
    assert describe("copying", 1000, 1000, "rows", 0.5) == "copying: 1000 of 1000 rows, 100 %"


@pytest.mark.parametrize(("seconds", "text"), [(59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")])
def test_times_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_bar_is_as_wide_as_the_terminal_at_most() -> None:
    bar = draw("x" * 100, 50, 100, 60, colour=False)
    assert len(bar) == 59
    assert bar.startswith("█" * 12 + "░" * 12 + " x")
    assert draw("x" * 100, 50, 100, 20, colour=False) == "x" * 19
    assert draw("events: 3", 3, None, 80, colour=False) == "events: 3"
    assert "\x1b[32m" in draw("x", 50, 100, 60, colour=True)


def test_a_terminal_shows_one_line_that_is_removed_at_the_end() -> None:
    text = run(Terminal(), {"TERM": "xterm"}, each_s=1.0)
    assert "\n" not in text
    assert text.count("\r\x1b[K") == 5
    assert text.endswith("\r\x1b[K")


def test_without_colour_there_is_no_colour() -> None:
    assert "\x1b[3" not in run(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, each_s=1.0)


@pytest.mark.parametrize(("stream", "environment"), [(io.StringIO, {"TERM": "xterm"}), (Terminal, {"TERM": "dumb"})])
def test_elsewhere_long_work_prints_a_line_now_and_then(stream: type[io.StringIO], environment: dict[str, str]) -> None:
    assert run(stream(), environment, each_s=1.0) == ""
    lines = run(stream(), environment, each_s=6.0).splitlines()
    assert lines == ["copying: 50 of 100 rows, 50 %, 4.2/s, 12 s left", "copying: 100 of 100 rows, 100 %, 4.2/s"]


def test_a_command_whose_output_says_enough_prints_no_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    bar = ProgressBar("demo", 2, lines=False, stream=stream, environment={}, clock=clock)
    clock.now_s = 1000.0
    bar(1)
    assert stream.getvalue() == ""


def test_the_log_of_a_run_of_hours_has_a_line_each_minute() -> None:
    lines = run(io.StringIO(), {}, each_s=1.0, steps=600).splitlines()
    assert len(lines) == 6 + 9


def test_a_terminal_without_a_type_counts_as_dumb() -> None:
    assert not is_live(Terminal(), {})


def test_a_terminal_that_cannot_show_the_blocks_gets_other_characters() -> None:
    raw = io.BytesIO()

    class Ascii(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    stream = Ascii(raw, encoding="ascii")
    with ProgressBar("copying", 2, stream=stream, environment={"TERM": "xterm", "NO_COLOR": "1"}) as bar:
        bar(1)
    assert b"############............ copying: 1 of 2" in raw.getvalue()


def test_the_tools_can_import_it_without_other_packages() -> None:
    code = "import sys; sys.path.insert(0, 'src'); from headgate.cli.options import progress"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
