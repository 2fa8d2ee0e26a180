"""Tables of a screen: columns with cells of styled text, and the widths that fit the terminal.

Columns of a lower rank are left out first on a narrow terminal; the last column takes what is left. Only the rows that
are visible are formatted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from headgate.terminal.bars import Glyphs
from headgate.terminal.cells import cell_text, cut, fit, width
from headgate.terminal.screen_text import ScreenLine, Span, Style

T = TypeVar("T")
GAP: Final = "  "
_ARROW: Final = 2
"""The columns of the sign after the title of the column by which rows are sorted."""


class Context(msgspec.Struct, frozen=True):
    """What cells depend on besides their row. ``bar``: the columns of a bar."""

    now_s: float
    glyphs: Glyphs
    bar: int = 16


class Cell(msgspec.Struct, frozen=True):
    """``text`` may be anything; :func:`cell` makes it harmless. ``spans``: in place of the text, for bars."""

    text: str
    style: Style = "plain"
    spans: tuple[Span, ...] = ()


def cell(text: str, style: Style = "plain") -> Cell:
    return Cell(cell_text(text), style)


class Column(msgspec.Struct, Generic[T], frozen=True):
    """``least`` and ``most``: how wide it may be. ``rank``: columns with a lower one are left out later; those of rank
    0 never are. ``sort``: the key of the row; None if rows cannot be sorted by it. ``is_reversed``: whether the largest
    comes first when the user sorts by it."""

    title: str
    make: Callable[[T, Context], Cell]
    least: int
    most: int
    rank: int = 0
    sort: Callable[[Any], Any] | None = None
    right: bool = False
    is_reversed: bool = False


def chosen_columns(columns: Sequence[Column[T]], room: int) -> list[int]:
    """The columns that fit with their least widths."""
    chosen = list(range(len(columns)))
    while len(chosen) > 1 and sum(columns[each].least + len(GAP) for each in chosen) - len(GAP) > room:
        highest = max(columns[each].rank for each in chosen)
        if highest == 0:
            break
        chosen.remove(next(each for each in reversed(chosen) if columns[each].rank == highest))
    return chosen


def column_widths(columns: Sequence[Column[T]], wanted: Sequence[int], room: int) -> list[int]:
    """``wanted``: how wide their texts are. What is missing is taken from the last column, which has sentences, until
    it has a third of the room; then from the widest columns, not below their least widths; then from the last."""
    most = [min(max(each.least, want), each.most) for each, want in zip(columns, wanted, strict=True)]
    room -= len(GAP) * (len(columns) - 1)

    def widths_below(limit: int) -> list[int]:
        return [max(min(each, limit), column.least) for each, column in zip(most, columns, strict=True)]

    excess = sum(most) - room
    if excess <= 0:
        return most
    most[-1] = max(most[-1] - excess, min(most[-1], max(columns[-1].least, room // 3)))
    if sum(most) <= room:
        return most
    # The largest limit whose widths fit; what is left of the room goes to the first columns that are cut by it.
    limit = bisect_right(range(max(most)), room, key=lambda each: sum(widths_below(each))) - 1
    widths = widths_below(max(limit, 0))
    for index, wider in enumerate(widths_below(limit + 1)):
        if sum(widths) < room:
            widths[index] = wider
    widths[-1] = max(widths[-1] - max(sum(widths) - room, 0), 0)
    return widths


class TableLayout(msgspec.Struct, frozen=True):
    """``columns``: the indexes of those that are shown; ``widths``: theirs."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]


def lay_out(
    columns: Sequence[Column[T]],
    rows: Sequence[Sequence[Cell]],
    room: int | None,
    before: TableLayout | None = None,
    sorted_by: int = -1,
) -> TableLayout:
    """``rows``: all cells of the visible rows. ``room``: None: as wide as the texts. ``before``: the layout of the last
    picture, whose columns do not become narrower, so that they do not move while the user scrolls."""
    chosen = list(range(len(columns))) if room is None else chosen_columns(columns, room)
    titles = {each: len(columns[each].title) + (_ARROW if each == sorted_by else 0) for each in chosen}
    wanted = [max([titles[each], *(width(row[each].text) for row in rows)]) for each in chosen]
    if room is None:
        return TableLayout(tuple(chosen), tuple(wanted))
    if before is not None and before.columns == tuple(chosen):
        wanted = [max(pair) for pair in zip(wanted[:-1], before.widths[:-1], strict=True)] + wanted[-1:]
    widths = column_widths([columns[each] for each in chosen], wanted, room)
    return TableLayout(tuple(chosen), tuple(widths))


def heading(columns: Sequence[Column[T]], layout: TableLayout, sorted_by: int = -1, arrow: str = "") -> ScreenLine:
    spans: list[Span] = []
    for index, room in zip(layout.columns, layout.widths, strict=True):
        column = columns[index]
        title = f"{column.title}{arrow}" if index == sorted_by else column.title
        is_last = index == layout.columns[-1] and not column.right
        shown = cut(title, room) if is_last else fit(title, room, right=column.right)
        spans += [Span(shown, "heading"), Span(GAP)]
    return ScreenLine(tuple(spans[:-1]))


def table_line(
    columns: Sequence[Column[T]], layout: TableLayout, cells: Sequence[Cell], *, is_selected: bool = False
) -> ScreenLine:
    spans: list[Span] = []
    last = layout.columns[-1]
    for index, room in zip(layout.columns, layout.widths, strict=True):
        found = cells[index]
        if found.spans:
            spans += [*found.spans, Span(" " * max(room - width(found.text), 0))]
        elif index == last and not columns[index].right:
            spans.append(Span(cut(found.text, room), found.style))
        else:
            spans.append(Span(fit(found.text, room, right=columns[index].right), found.style))
        spans.append(Span(GAP))
    return ScreenLine(tuple(spans[:-1]), is_selected)
