"""Columns of tables: which are shown, and how wide."""

from __future__ import annotations

import pytest

from headgate.terminal.bars import ASCII
from headgate.terminal.cells import width
from headgate.terminal.tables import (
    GAP,
    Column,
    Context,
    cell,
    chosen_columns,
    column_widths,
    heading,
    lay_out,
    table_line,
)

CONTEXT = Context(0.0, ASCII)


def a_column(title: str, least: int, most: int = 50, rank: int = 0, *, right: bool = False) -> Column[str]:
    return Column(title, lambda text, _: cell(text), least, most, rank, right=right)


COLUMNS = (a_column("A", 4), a_column("B", 6, rank=2), a_column("C", 5, rank=1), a_column("D", 10, rank=2))


def test_columns_of_a_high_rank_are_left_out_first_and_the_later_of_two() -> None:
    assert chosen_columns(COLUMNS, 31) == [0, 1, 2, 3]
    assert chosen_columns(COLUMNS, 30) == [0, 1, 2]
    assert chosen_columns(COLUMNS, 18) == [0, 2]
    assert chosen_columns(COLUMNS, 10) == [0]
    assert chosen_columns(COLUMNS, 1) == [0]


@pytest.mark.parametrize("room", [10, 25, 31, 40, 60, 200])
@pytest.mark.parametrize("wanted", [(4, 6, 5, 10), (40, 6, 5, 300), (50, 50, 50, 50), (1, 1, 1, 1)])
def test_widths_fit_the_room_and_nothing_is_cut_without_need(room: int, wanted: tuple[int, ...]) -> None:
    widths = column_widths(COLUMNS, wanted, room)
    gaps = len(GAP) * 3
    full = [min(max(column.least, want), column.most) for column, want in zip(COLUMNS, wanted, strict=True)]
    assert sum(widths) <= max(room - gaps, 15)
    assert all(found <= most for found, most in zip(widths, full, strict=True))
    if sum(full) + gaps <= room:
        assert widths == full
    elif room >= 31:
        assert sum(widths) + gaps == room
        assert all(found >= column.least for found, column in zip(widths, COLUMNS, strict=True))


def test_equally_wide_columns_are_cut_equally() -> None:
    columns = (a_column("A", 4), a_column("B", 4), a_column("C", 4))
    assert column_widths(columns, (40, 40, 4), 48) == [20, 20, 4]
    assert column_widths(columns, (8, 40, 4), 36) == [8, 20, 4]
    assert column_widths(columns, (40, 40, 4), 49) == [21, 20, 4]


def test_sentences_are_cut_before_names_until_they_have_a_third() -> None:
    columns = (a_column("NAME", 4), a_column("IN WORDS", 4, 400))
    assert column_widths(columns, (30, 300), 92) == [30, 60]
    assert column_widths(columns, (50, 300), 62) == [40, 20]


def test_columns_do_not_become_narrower_while_the_user_scrolls() -> None:
    columns = (a_column("A", 4), a_column("B", 4))
    wide = lay_out(columns, [[cell("x" * 20), cell("y")]], 60)
    later = lay_out(columns, [[cell("x"), cell("y")]], 60, wide)
    assert later.widths[0] == 20
    assert lay_out(columns, [[cell("x"), cell("y")]], 60).widths[0] == 4


def test_without_a_width_nothing_is_cut() -> None:
    layout = lay_out(COLUMNS, [[cell("x" * 90), cell(""), cell(""), cell("")]], None)
    assert layout.columns == (0, 1, 2, 3)
    assert layout.widths[0] == 90


def test_headings_and_cells_are_aligned() -> None:
    columns = (a_column("NAME", 6), a_column("PODS", 6, right=True), a_column("WHY", 4))
    cells = [cell("a"), cell("12"), cell("because")]
    layout = lay_out(columns, [cells], 60)
    assert heading(columns, layout, 1, " v").text == "NAME    PODS v  WHY"
    assert table_line(columns, layout, cells).text == "a           12  because"
    assert table_line(columns, layout, cells, is_selected=True).is_selected


def test_hostile_text_in_a_cell_is_shown_as_text() -> None:
    columns = (a_column("NAME", 6),)
    cells = [cell("\x1b[2J\u202egnp\n日本")]
    line = table_line(columns, lay_out(columns, [cells], 40), cells)
    assert line.text == "\\u001b[2J\\u202egnp\\n日本"
    assert width(line.text) == 24
