"""Makes an SVG picture of a terminal's screen, from the text and the styles that tmux prints (``capture-pane -e``).

``tools/render_top.py`` uses it for the pictures of `headgate top` in the documentation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from html import escape
from typing import Final, NamedTuple

CELL: Final = (8.4, 18)
"""The width and the height of a character, at 14 pixels."""
MARGIN: Final = 12
BACKGROUND: Final = "#15181d"
FOREGROUND: Final = "#d7dbe0"
COLOURS: Final = {31: "#ff7b72", 32: "#5fd38d", 33: "#e3b341", 36: "#4cc9d8"}
_WORDS: Final = re.compile(r"\S+(?: \S+)*")
_SEQUENCE: Final = re.compile(r"\x1b\[([\d;]*)m|\x1b[()][0-9A-B]|[\x0e\x0f]")


class Style(NamedTuple):
    colour: str = FOREGROUND
    is_bold: bool = False
    is_dim: bool = False
    is_reversed: bool = False


class Run(NamedTuple):
    """Characters of one style, from a column on."""

    column: int
    text: str
    style: Style


def runs(line: str) -> Iterator[Run]:
    style, column, start = Style(), 0, 0
    for found in _SEQUENCE.finditer(line):
        text = line[start : found.start()]
        if text:
            yield Run(column, text, style)
            column += columns_of(text)
        start = found.end()
        if found[1] is not None:
            style = _styled(style, found[1])
    if line[start:]:
        yield Run(column, line[start:], style)


def columns_of(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _styled(style: Style, codes: str) -> Style:
    for code in (int(each or 0) for each in codes.split(";")):
        if code == 0:
            style = Style()
        elif code == 1:
            style = style._replace(is_bold=True)
        elif code == 2:
            style = style._replace(is_dim=True)
        elif code == 7:
            style = style._replace(is_reversed=True)
        elif code in COLOURS:
            style = style._replace(colour=COLOURS[code])
        elif code == 39:
            style = style._replace(colour=FOREGROUND)
    return style


def svg(screen: str, columns: int, title: str) -> str:
    """``title``: for readers who cannot see the picture."""
    lines = screen.rstrip("\n").split("\n")
    wide, high = round(columns * CELL[0] + 2 * MARGIN), len(lines) * CELL[1] + 2 * MARGIN
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{wide}" height="{high}" rx="8" fill="{BACKGROUND}"/>',
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
    ]
    for row, line in enumerate(lines):
        for run in runs(line):
            parts += _drawn(run, row)
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _drawn(run: Run, row: int) -> Iterator[str]:
    x, top = MARGIN + run.column * CELL[0], MARGIN + row * CELL[1]
    wide = columns_of(run.text) * CELL[0]
    style = run.style
    if style.is_reversed:
        yield f'<rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="{CELL[1]}" fill="{style.colour}"/>'
    fill = BACKGROUND if style.is_reversed else style.colour
    more = (' font-weight="bold"' if style.is_bold else "") + (' opacity="0.6"' if style.is_dim else "")
    for found in _WORDS.finditer(run.text):  # browsers draw several spaces as one
        at = x + columns_of(run.text[: found.start()]) * CELL[0]
        length = columns_of(found[0]) * CELL[0]
        yield (
            f'<text x="{at:.1f}" y="{top + 14}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" '
            f'fill="{fill}"{more}>{escape(found[0])}</text>'
        )
