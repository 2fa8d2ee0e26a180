"""Makes the lines of the screen of the state in ``top_screen.py``, for any size of the terminal.

From the top: the title with the state of the connection, the views, what restricts or hides rows, on the overview its
summary, then the table with its heading, and the keys. Only the visible rows are formatted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headgate.kube.timestamps import human_duration
from headgate.terminal.bars import Glyphs
from headgate.terminal.cells import cell_text, cut, width, wrap
from headgate.terminal.key_bindings import NUMBERS, help_lines
from headgate.terminal.overview import right_aligned, summary_lines, table_room
from headgate.terminal.screen_text import ScreenLine, Span, line
from headgate.terminal.tables import Context, heading, lay_out, table_line
from headgate.terminal.top_screen import TopScreen
from headgate.terminal.view_rows import query_text
from headgate.terminal.view_tables import TABLES

_KEYS: Final = {
    "list": "Enter details   l line   / filter   s sort   p pause   ? help   q quit",
    "detail": "j k scroll   p pause   ? help   Esc back   q quit",
    "help": "Esc back   q quit",
}


def draw(screen: TopScreen, columns: int, rows: int, now_s: float, glyphs: Glyphs) -> list[ScreenLine]:
    """Exactly ``rows`` lines of at most ``columns`` columns."""
    columns, rows = max(columns, 1), max(rows, 1)
    head = [_title(screen, columns, now_s), _tabs(screen, columns), *_notes(screen, columns, now_s)]
    footer = _footer(screen, columns)
    if rows < len(head) + 4:  # so few lines are for rows
        head = head[: max(rows - 3, 0)]
    room = max(rows - len(head) - 1, 0)
    if screen.mode == "help":
        body = _text_body(screen, tuple(help_lines()), columns, room)
    elif screen.mode == "detail":
        body = _text_body(screen, screen.detail, columns, room)
    else:
        body = _table_body(screen, columns, room, now_s, glyphs)
    body = body[:room]
    lines = [*head, *body, *[ScreenLine()] * (room - len(body)), footer]
    return [each.fitted(columns) for each in lines[:rows]]


def _title(screen: TopScreen, columns: int, now_s: float) -> ScreenLine:
    left = ScreenLine((Span("headgate top", "heading"), Span("  "), Span(cell_text(screen.server), "muted")))
    return right_aligned(left, _status(screen, now_s), columns)


def _status(screen: TopScreen, now_s: float) -> ScreenLine:
    if screen.connection.problem:
        return line(f"reconnecting for {human_duration(now_s - screen.connection.since_s)}", "error")
    if not screen.is_complete:
        return line("reading the cluster", "warning")
    return line("paused", "warning") if screen.is_paused else line("live", "good")


def _tabs(screen: TopScreen, columns: int) -> ScreenLine:
    full = [(f"{number} {TABLES[name].title}", name) for number, name in NUMBERS.items()]
    counted = [(f"{text} {screen.rows.counts[name]}" if name != "overview" else text, name) for text, name in full]
    for tabs in (counted, full):
        if sum(len(text) + 3 for text, _ in tabs) <= columns:
            spans = [Span(f" {text} ", "chosen" if name == screen.view else "muted") for text, name in tabs]
            return ScreenLine(tuple(spans))
    number = next(key for key, name in NUMBERS.items() if name == screen.view)
    title = TABLES[screen.view].title
    return ScreenLine((Span(f" {title} ", "chosen"), Span(f" {number} of {len(NUMBERS)}, Tab: the next", "muted")))


def _notes(screen: TopScreen, columns: int, now_s: float) -> Iterator[ScreenLine]:
    """What the user has to know about the rows that are shown, and about those that are not."""
    if screen.connection.problem:
        yield line(cell_text(f"no connection: {screen.connection.problem}"), "error")
    for each in screen.rows.missing_rights(screen.view):
        yield line(cell_text(f"{each}; what is shown is incomplete"), "error")
    if screen.mode in ("detail", "help"):
        return
    parts: list[Span] = []
    if screen.query is not None:
        parts.append(Span(cell_text(f"units of {query_text(screen.query)}, in order; Esc: all   "), "warning"))
    if screen.place.text and screen.mode != "filter":
        parts.append(Span(cell_text(f"filter: {screen.place.text}; Esc: none   "), "warning"))
    if parts:
        _, total = screen.settle()
        yield ScreenLine((*parts, Span(f"{total} {'line' if total == 1 else 'lines'}", "muted")))


def _footer(screen: TopScreen, columns: int) -> ScreenLine:
    if screen.mode == "filter":
        return ScreenLine((Span("filter: ", "heading"), Span(cell_text(screen.place.text)), Span("_", "waiting")))
    if screen.remark and not screen.connection.problem:
        return line(cut(cell_text(screen.remark), columns), "warning")
    keys = _KEYS[screen.mode]
    while width(keys) > columns and "   " in keys:
        keys = keys.split("   ", 1)[1]  # the last ones, how to leave, are needed most
    return line(keys, "muted")


def _text_body(screen: TopScreen, lines: tuple[str, ...], columns: int, room: int) -> list[ScreenLine]:
    wrapped = [part for each in lines for part in wrap(cell_text(each), columns)]
    screen.page, screen.text_lines = max(room, 1), len(wrapped)
    screen.scrolled = max(0, min(screen.scrolled, len(wrapped) - room))
    shown = wrapped[screen.scrolled : screen.scrolled + room]
    return [line(each, "plain" if each.startswith(" ") else "heading") for each in shown]


def _table_body(screen: TopScreen, columns: int, room: int, now_s: float, glyphs: Glyphs) -> list[ScreenLine]:
    table = TABLES[screen.view]
    above: list[ScreenLine] = []
    if screen.view == "overview":
        rows = screen.rows
        found = summary_lines(
            rows.totals, screen.rates, rows.first_problems(3), rows.counts["problems"], columns, glyphs
        )
        above = table_room(list(found), room)
    screen.page = max(room - len(above) - 1, 1)
    first, total = screen.settle()
    source = screen.source
    context = Context(now_s, glyphs, bar_columns(columns))
    shown = source.shown(first, first + screen.page)
    cells = [[column.make(each.value, context) for column in table.columns] for each in shown]
    place = screen.place
    sorted_by = -1 if screen.query is not None else place.sorted_by
    layout = lay_out(table.columns, cells, columns, place.layout, sorted_by)
    place.layout = layout
    title = heading(table.columns, layout, sorted_by, f" {glyphs.down if place.is_reversed else glyphs.up}")
    lines = [*above, _with_legend(title, screen, columns, glyphs)]
    for index, row in enumerate(cells, first):
        lines.append(table_line(table.columns, layout, row, is_selected=index == place.index))
    if not total:
        lines.append(line(nothing_text(screen), "muted"))
    return lines


def _with_legend(title: ScreenLine, screen: TopScreen, columns: int, glyphs: Glyphs) -> ScreenLine:
    """The signs of bars, at the end of the heading, where there is room."""
    signs = {"used": glyphs.used, "reserved": glyphs.reserved, "waiting": glyphs.waiting}
    legend: list[Span] = []
    for text, style in TABLES[screen.view].legend:
        legend += [Span(" "), Span(signs[style], style), Span(f" {text}", "muted")]
    right = ScreenLine(tuple(legend))
    if not legend or width(title.text.rstrip()) + width(right.text) + 2 > columns:
        return title
    return right_aligned(title, right, columns)


def nothing_text(screen: TopScreen) -> str:
    """Why a table has no rows."""
    if not screen.is_complete:
        return "reading the cluster …"
    if screen.place.text:
        return "no row has these words"
    if screen.rows.missing_rights(screen.view):
        return "nothing can be shown without the missing right"
    return "no unit waits there" if screen.query is not None else TABLES[screen.view].nothing


def bar_columns(columns: int) -> int:
    return 8 if columns < 70 else 16 if columns < 130 else 24
