"""Bars and sparklines of characters. Parts of a bar differ by character and by colour, so no colour is needed.

``ASCII`` has signs for terminals without Unicode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headgate.terminal.screen_text import Span, Style


class Glyphs(msgspec.Struct, frozen=True):
    """``steps``: of a sparkline, from the lowest to the highest."""

    used: str
    reserved: str
    waiting: str
    free: str
    over: str
    steps: str
    up: str
    down: str


UNICODE: Final = Glyphs("█", "▓", "░", "·", "!", "▁▂▃▄▅▆▇█", "↑", "↓")
ASCII: Final = Glyphs("#", "=", "-", ".", "!", "_.-=+*#@", "^", "v")
Part = tuple[Style, int]
"""A style of a bar (``used``, ``reserved`` or ``waiting``) and an amount."""


def bar(limit: int | None, parts: Sequence[Part], columns: int, glyphs: Glyphs) -> tuple[Span, ...]:
    """``limit``: the amount of the whole bar; None: the sum of the parts. A part that is not 0 has at least one column
    while there is room. What does not fit is marked at the end."""
    total = sum(amount for _, amount in parts)
    whole = total if limit is None else limit
    signs = {"used": glyphs.used, "reserved": glyphs.reserved, "waiting": glyphs.waiting}
    spans: list[Span] = []
    done, filled = 0, 0
    for style, amount in parts:
        if amount <= 0:
            continue
        done += amount
        end = columns if whole <= 0 else round(columns * min(done, whole) / whole)
        cells = min(max(end - filled, 1), columns - filled)
        if cells > 0:
            spans.append(Span(signs[style] * cells, style))
            filled += cells
    if filled < columns:
        spans.append(Span(glyphs.free * (columns - filled), "free"))
    held = sum(amount for style, amount in parts if style != "waiting")
    if limit is not None and held > limit and spans:
        last = spans.pop()
        spans += [Span(last.text[:-1], last.style), Span(glyphs.over, "error")]
    return tuple(spans)


def sparkline(values: Iterable[float], columns: int, glyphs: Glyphs) -> str:
    """The newest values, one for each column, the largest as the highest step. All are the lowest if all are 0."""
    shown = list(values)[-columns:] if columns > 0 else []
    most = max(shown, default=0.0)
    last = len(glyphs.steps) - 1
    return "".join(glyphs.steps[0 if most <= 0 else round(last * each / most)] for each in shown).rjust(columns)
