"""Bars and sparklines: amounts as characters."""

from __future__ import annotations

import pytest

from headgate.terminal.bars import ASCII, UNICODE, Part, bar, sparkline


def text(limit: int | None, *parts: Part, columns: int = 8) -> str:
    return "".join(span.text for span in bar(limit, parts, columns, ASCII))


@pytest.mark.parametrize(
    ("limit", "parts", "shown"),
    [
        (8, (("used", 4), ("reserved", 2), ("waiting", 1)), "####==-."),
        (8, (("used", 8), ("waiting", 90)), "########"),
        (8, (), "........"),
        (1000, (("used", 1),), "#......."),
        (8, (("used", 9),), "#######!"),
        (0, (("used", 1),), "#######!"),
        (0, (), "........"),
        (None, (("used", 1), ("waiting", 1)), "####----"),
    ],
)
def test_a_bar_shows_the_parts_of_the_limit(limit: int | None, parts: tuple[Part, ...], shown: str) -> None:
    assert text(limit, *parts) == shown


@pytest.mark.parametrize("columns", [1, 2, 5, 24])
def test_a_bar_has_as_many_columns_as_it_should(columns: int) -> None:
    for limit in (None, 0, 3, 10_000):
        shown = text(limit, ("used", 2), ("reserved", 3), ("waiting", 7), columns=columns)
        assert len(shown) == columns


def test_a_sparkline_shows_the_newest_values() -> None:
    assert sparkline([0, 5, 10], 3, UNICODE) == "▁▅█"
    assert sparkline([9, 9, 0, 0], 2, UNICODE) == "▁▁"
    assert sparkline([1], 3, ASCII) == "  @"
    assert sparkline([], 3, ASCII) == "   "
