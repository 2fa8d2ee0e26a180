"""Plots as SVG text: lines, steps, stacked areas and bars, with linear, logarithmic and time axes.

Labels are ``<text>`` elements, not outlines; there is no script, and the same values give the same bytes. Coordinates
are rounded to a tenth of a pixel, and a line has at most two points per pixel. Names are escaped here, so callers pass
them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final, Literal

import msgspec

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
"""In the order of use. The first six are Okabe and Ito's, which people with colour blindness can tell apart; then a
brown and a grey."""
DASHES: Final = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4", "4 2 1 2", "3 6")
WIDTH: Final = 760
HEIGHT: Final = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 40
_TICKS: Final = 6
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS: Final = (
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 21_600.0, 43_200.0),
    *(86_400.0 * days for days in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)

_LOG_TICKS_S: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 86_400.0, 864_000.0, 8_640_000.0)
"""About ten times as much each, and round in a unit of time."""

Scale = Literal["linear", "log", "time"]
"""``log`` and ``time``: the values are seconds, and ticks are durations."""


class Series(msgspec.Struct, frozen=True):
    """One line or area. ``number``: the index of its colour and dash pattern."""

    name: str
    values: Sequence[float]
    number: int


class Axis(msgspec.Struct, frozen=True):
    """``low`` and ``high``: the values at its ends."""

    title: str
    low: float
    high: float
    scale: Scale = "linear"

    def position(self, value: float) -> float:
        """The place of ``value`` on the axis: 0 at ``low``, 1 at ``high``."""
        if self.scale == "log":
            value = max(value, self.low)
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        if self.scale == "log":
            return [(each, duration_text(each)) for each in _LOG_TICKS_S if self.low <= each <= self.high]
        span = self.high - self.low
        if self.scale == "time":
            step = next((each for each in _TIME_STEPS if span / each <= _TICKS), _TIME_STEPS[-1])
        else:
            size = 10.0 ** math.floor(math.log10(span / _TICKS))
            step = next(each * size for each in _STEPS if span / (each * size) <= _TICKS)
        found, number = [], math.ceil(self.low / step)
        while number * step <= self.high + step / 1e6:
            value = number * step
            found.append((value, duration_text(value) if self.scale == "time" else f"{value:,.10g}"))
            number += 1
        return found


def duration_text(value_s: float) -> str:
    for limit_s, unit_s, name in ((60.0, 1.0, "s"), (3600.0, 60.0, "min"), (86_400.0, 3600.0, "h")):
        if value_s < limit_s:
            return f"{value_s / unit_s:.3g} {name}" if value_s else "0"
    return f"{value_s / 86_400:.3g} d"


def axis_for(title: str, values: Iterable[float], scale: Scale = "linear", low: float | None = None) -> Axis:
    """An axis whose range covers all finite values; ``low`` replaces the smallest one."""
    listed = [each for each in values if math.isfinite(each)]
    high = max(listed, default=1.0)
    if scale == "log":
        least = min((each for each in listed if each > 0), default=1.0) if low is None else low
        return Axis(title, least, max(high, least * 10), "log")
    start = (min(listed, default=0.0) if low is None else low) if listed else 0.0
    return Axis(title, start, high if high > start else start + 1.0, scale)


class Plot:
    """Collects the parts of a plot; :meth:`text` is the SVG element."""

    def __init__(self, title: str, x: Axis, y: Axis) -> None:
        self._title = title
        self._x = x
        self._y = y
        self._parts: list[str] = []
        self._legend: list[tuple[str, int, bool]] = []

    def _px(self, value: float) -> float:
        return _LEFT + self._x.position(value) * (WIDTH - _LEFT - _RIGHT)

    def _py(self, value: float) -> float:
        return HEIGHT - _BOTTOM - self._y.position(value) * (HEIGHT - _TOP - _BOTTOM)

    def lines(self, xs: Sequence[float], series: Iterable[Series], *, steps: bool = False) -> None:
        for each in series:
            points = self._thinned(list(zip(xs, each.values, strict=True)))
            self._line(points, each.number, steps)
            self._legend.append((each.name, each.number, True))

    def curves(self, series: Iterable[tuple[Sequence[tuple[float, float]], str, int]]) -> None:
        """Lines with x values of their own."""
        for points, name, number in series:
            self._line(self._thinned(list(points)), number, False)
            self._legend.append((name, number, True))

    def _line(self, points: Sequence[tuple[float, float]], number: int, steps: bool) -> None:
        commands: list[str] = []
        for index, (x, y) in enumerate(points):
            if index and steps:
                commands.append(f"H{_r(self._px(x))}")
            commands.append(f"{'L' if index else 'M'}{_r(self._px(x))} {_r(self._py(y))}")
        dashes = DASHES[number % len(DASHES)]
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        colour = COLOURS[number % len(COLOURS)]
        self._parts.append(f'<path d="{"".join(commands)}" fill="none" stroke="{colour}" stroke-width="1.6"{dashed}/>')

    def areas(self, xs: Sequence[float], series: Sequence[Series]) -> None:
        """Stacked areas, the first one at the bottom."""
        rows = self._thinned_rows(xs, series)
        below = [0.0] * len(rows)
        for index, each in enumerate(series):
            above = [low + values[index] for low, (_, values) in zip(below, rows, strict=True)]
            top = [f"{_r(self._px(x))} {_r(self._py(y))}" for (x, _), y in zip(rows, above, strict=True)]
            bottom = [f"{_r(self._px(x))} {_r(self._py(y))}" for (x, _), y in zip(rows, below, strict=True)]
            outline = "L".join((*top, *reversed(bottom)))
            self._parts.append(f'<path d="M{outline}Z" fill="{COLOURS[each.number % len(COLOURS)]}" opacity="0.85"/>')
            self._legend.append((each.name, each.number, False))
            below = above

    def bars(self, rows: Sequence[tuple[str, Sequence[float]]], numbers: Sequence[int]) -> None:
        """Groups of bars side by side; the x axis must go from 0 to the number of groups."""
        width = 0.8 / max(len(numbers), 1)
        for index, (name, values) in enumerate(rows):
            for place, (value, number) in enumerate(zip(values, numbers, strict=True)):
                left, right = self._px(index + 0.1 + place * width), self._px(index + 0.1 + (place + 1) * width)
                top, bottom = self._py(value), self._py(self._y.low)
                self._parts.append(
                    f'<rect x="{_r(left)}" y="{_r(top)}" width="{_r(right - left)}" height="{_r(bottom - top)}" '
                    f'fill="{COLOURS[number % len(COLOURS)]}"><title>{escape(name)}: {value:,.6g}</title></rect>'
                )
            if len(rows) <= 20:
                at = _r(self._px(index + 0.5))
                self._parts.append(
                    f'<text x="{at}" y="{HEIGHT - _BOTTOM + 14}" text-anchor="middle">{escape(_short(name))}</text>'
                )

    def legend(self, names: Iterable[tuple[str, int]]) -> None:
        self._legend += [(name, number, False) for name, number in names]

    def tooltips(self, xs: Sequence[float], describe: Callable[[int], Sequence[str]], most: int = 160) -> None:
        """The values of one moment, which are shown while the pointer is over its column. They need no script."""
        if len(xs) < 2:
            return
        step = max(1, -(-len(xs) // most))
        for index in range(0, len(xs), step):
            left = self._px(xs[index])
            right = self._px(xs[min(index + step, len(xs) - 1)])
            if right <= left:
                continue
            lines = "".join(f'<tspan x="{_LEFT + 8}" dy="13">{escape(line)}</tspan>' for line in describe(index))
            self._parts.append(
                f'<g class="c"><rect class="h" x="{_r(left)}" y="{_TOP}" width="{_r(right - left)}" '
                f'height="{HEIGHT - _TOP - _BOTTOM}"/><g class="t"><path class="cursor" d="M{_r(left)} {_TOP}'
                f'V{HEIGHT - _BOTTOM}"/><text class="tip" y="{_TOP}">{lines}</text></g></g>'
            )

    def _thinned(self, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        step = max(1, -(-len(points) // (2 * WIDTH)))
        return points[::step] + ([points[-1]] if points and (len(points) - 1) % step else [])

    def _thinned_rows(self, xs: Sequence[float], series: Sequence[Series]) -> list[tuple[float, tuple[float, ...]]]:
        rows = [(x, tuple(each.values[index] for each in series)) for index, x in enumerate(xs)]
        step = max(1, -(-len(rows) // (2 * WIDTH)))
        return rows[::step] + ([rows[-1]] if rows and (len(rows) - 1) % step else [])

    def text(self) -> str:
        legend_lines = -(-len(self._legend) // 4)
        height = HEIGHT + 16 * legend_lines
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(self._title)}">',
            *self._grid(),
            *self._parts,
            *self._legend_parts(),
            "</svg>",
        ]
        return "".join(parts)

    def _grid(self) -> Iterable[str]:
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        for value, text in self._y.ticks():
            at = _r(self._py(value))
            yield f'<path class="grid" d="M{_LEFT} {at}H{right}"/>'
            yield f'<text x="{_LEFT - 6}" y="{at}" text-anchor="end" dominant-baseline="middle">{escape(text)}</text>'
        for value, text in self._x.ticks() if self._x.title else ():
            at = _r(self._px(value))
            yield f'<path class="grid" d="M{at} {_TOP}V{bottom}"/>'
            yield f'<text x="{at}" y="{bottom + 14}" text-anchor="middle">{escape(text)}</text>'
        yield f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>'
        if self._x.title:
            middle = (_LEFT + right) // 2
            yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(self._x.title)}</text>'
        middle = (_TOP + bottom) // 2
        yield (
            f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
            f"{escape(self._y.title)}</text>"
        )

    def _legend_parts(self) -> Iterable[str]:
        width = (WIDTH - _LEFT) // 4
        for index, (name, number, is_line) in enumerate(self._legend):
            x, y = _LEFT + index % 4 * width, HEIGHT + 4 + 16 * (index // 4)
            colour = COLOURS[number % len(COLOURS)]
            if is_line:
                dashes = DASHES[number % len(DASHES)]
                dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
                yield f'<path d="M{x} {y}h18" stroke="{colour}" stroke-width="2"{dashed}/>'
            else:
                yield f'<rect x="{x}" y="{y - 5}" width="18" height="10" fill="{colour}"/>'
            yield f'<text x="{x + 24}" y="{y}" dominant-baseline="middle">{escape(_short(name, 22))}</text>'


def _short(name: str, most: int = 12) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _r(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
