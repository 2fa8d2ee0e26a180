"""The progress of long work: a bar on a terminal, a line now and then elsewhere. Always on standard error.

It uses the standard library only, because ``tools/kube/build.py`` runs before there are other packages. ``NO_COLOR``
switches the colour off, and ``TERM=dumb`` the bar. Work that ends within ten seconds prints nothing into a pipe.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, TextIO

_BAR_CELLS: Final = 24
_REDRAW_S: Final = 0.1
_LINE_EVERY_S: Final = 10.0
_LATER_LINES_S: Final = 60.0
"""After the first minute: a log of hours stays short."""
_GREEN, _RESET = "\x1b[32m", "\x1b[0m"
_CLEAR: Final = "\r\x1b[K"


def is_live(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a line of the stream can be written again."""
    return stream.isatty() and environment.get("TERM", "dumb") not in ("", "dumb")


def describe(label: str, done: int, total: int | None, unit: str, elapsed_s: float) -> str:
    """``copying: 400 of 1000 rows, 40 %, 100/s, 6 s left``."""
    amount = f"{done} of {total}" if total else str(done)
    parts = [f"{label}: {amount}{f' {unit}' if unit else ''}"]
    if total:
        parts.append(f"{min(100 * done // total, 100)} %")
    if done and elapsed_s >= 1:
        rate = done / elapsed_s
        parts.append(f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if total and done < total:
            parts.append(f"{duration((total - done) / rate)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def draw(text: str, done: int, total: int | None, columns: int, *, colour: bool) -> str:
    """The bar and the text, at most as wide as the terminal."""
    if not total or columns < _BAR_CELLS + 12:
        return text[: max(columns - 1, 0)]
    filled = min(_BAR_CELLS * done // total, _BAR_CELLS)
    full, rest = "█" * filled, "░" * (_BAR_CELLS - filled)
    bar = f"{_GREEN}{full}{_RESET}{rest}" if colour else f"{full}{rest}"
    return f"{bar} {text}"[: columns - 1 + len(bar) - _BAR_CELLS]


class ProgressBar:
    """Call it with what is done; ``clear`` removes the bar before other lines are printed."""

    def __init__(
        self,
        label: str,
        total: int | None = None,
        unit: str = "",
        *,
        lines: bool = True,
        stream: TextIO | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``lines``: whether to print lines where there is no terminal; not for commands whose output says enough."""
        self._label = label
        self._total = total
        self._unit = unit
        self._stream: Final = sys.stderr if stream is None else stream
        self._clock: Final = clock
        self._is_live: Final = is_live(self._stream, environment)
        self._colour: Final = not environment.get("NO_COLOR")
        self._began_s: Final = clock()
        self._next_s = self._began_s + (0.0 if self._is_live else _LINE_EVERY_S if lines else math.inf)
        self._is_shown = False

    def __call__(self, done: int, total: int | None = None) -> None:
        """``total``: if it was not known before, or has changed."""
        self._total = self._total if total is None else total
        now_s = self._clock()
        if now_s < self._next_s:
            return
        later = _LATER_LINES_S if now_s - self._began_s >= _LATER_LINES_S else _LINE_EVERY_S
        self._next_s = now_s + (_REDRAW_S if self._is_live else later)
        text = describe(self._label, done, self._total, self._unit, now_s - self._began_s)
        if self._is_live:
            columns = shutil.get_terminal_size().columns
            text = _CLEAR + draw(text, done, self._total, columns, colour=self._colour)
        self._write(text if self._is_live else f"{text}\n")
        self._is_shown = self._is_live

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._next_s = 0.0
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            self._stream.write(text.replace("█", "#").replace("░", "."))
        self._stream.flush()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()
