"""One picture of a view as plain text: all rows, uncut unless a width is given, without colours."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.terminal.bars import Glyphs
from headgate.terminal.drawing import bar_columns, nothing_text
from headgate.terminal.overview import summary_lines
from headgate.terminal.tables import Context, heading, lay_out, table_line
from headgate.terminal.top_screen import TopScreen
from headgate.terminal.view_tables import TABLES

_WIDE: int = 120
"""Bars and sparklines are made for so many columns if the width is not given."""


def snapshot_lines(screen: TopScreen, columns: int | None, now_s: float, glyphs: Glyphs) -> Iterator[str]:
    """``columns``: None for lines as long as their texts."""
    table, wide = TABLES[screen.view], columns or _WIDE
    if screen.view == "overview":
        rows = screen.rows
        for each in summary_lines(rows.totals, None, rows.first_problems(3), rows.counts["problems"], wide, glyphs):
            yield (each if columns is None else each.fitted(columns)).text.rstrip()
        yield ""
    context = Context(now_s, glyphs, bar_columns(wide))
    source = screen.source
    shown = source.shown(0, len(source))
    cells = [[column.make(each.value, context) for column in table.columns] for each in shown]
    if not cells:
        yield nothing_text(screen)
        return
    layout = lay_out(table.columns, cells, columns)
    yield heading(table.columns, layout).text.rstrip()
    for row in cells:
        yield table_line(table.columns, layout, row).text.rstrip()
