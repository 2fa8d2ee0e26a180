"""Widths of texts on a terminal, and texts that cannot do anything but be read."""

from __future__ import annotations

import pytest

from headgate.terminal.cells import cell_text, cut, fit, width, wrap


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("日本", 4), ("😀", 2), ("e\u0301", 1), ("Zürich", 6), ("", 0), ("█░", 2)],
)
def test_the_width_is_that_of_the_characters_on_a_terminal(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    "character",
    ["\x1b", "\x00", "\x07", "\r", "\t", "\x7f", "\x9b", "\u202e", "\u2066", "\u200d", "\u200b", "\ufe0f", "\u2028"],
)
def test_characters_that_are_not_drawn_become_escapes(character: str) -> None:
    assert cell_text(f"a{character}b") == f"a\\u{ord(character):04x}b"


def test_a_line_break_begins_no_line() -> None:
    assert cell_text("a\nb") == "a\\nb"


def test_letters_and_emoji_stay() -> None:
    assert cell_text("Zürich 日本語 שלום 😀") == "Zürich 日本語 שלום 😀"


def test_many_marks_on_one_character_become_escapes() -> None:
    assert cell_text("e" + "\u0301" * 4) == "e\u0301\u0301\\u0301\\u0301"
    assert cell_text("\u0301e").startswith("\\u0301")


def test_a_text_that_is_cut_ends_with_an_ellipsis_and_never_exceeds_the_columns() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("日本語日本語", 4) == "日…"
    assert cut("abc", 0) == ""
    for columns in range(8):
        assert width(cut("日a本b語", columns)) <= columns


def test_a_text_is_filled_up_on_the_side_that_is_free() -> None:
    assert fit("ab", 4) == "ab  "
    assert fit("ab", 4, right=True) == "  ab"
    assert width(fit("日本語", 4)) == 4


def test_long_texts_are_broken_at_spaces_with_an_indent() -> None:
    assert wrap("  one two three four", 12) == ["  one two", "    three", "    four"]
    assert wrap("a" * 25, 10) == ["a" * 10, "  " + "a" * 8, "  " + "a" * 7]
    assert wrap("", 10) == [""]


@pytest.mark.parametrize("columns", [8, 13, 40])
def test_wrapped_lines_have_all_words_and_fit(columns: int) -> None:
    text = "    held by 日本語 pod default/a-0 in queue eng: cpu 1, memory 1Gi " + "x" * 60
    lines = wrap(text, columns)
    assert all(width(line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
