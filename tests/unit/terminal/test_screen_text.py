"""Styled lines as control sequences: only what changed is written, and colours can be left out."""

from __future__ import annotations

from headgate.terminal.screen_text import ScreenLine, Span, encode_changes, encode_line, line


def test_only_lines_that_changed_are_written() -> None:
    before = [line("one"), line("two"), line("three")]
    now = [line("one"), line("TWO"), line("three")]
    assert encode_changes(before, now, 10, colour=True) == "\x1b[2;1H\x1b[KTWO"
    assert encode_changes(now, now, 10, colour=True) == ""


def test_a_screen_that_is_not_known_is_cleared_and_written_in_full() -> None:
    text = encode_changes(None, [line("one"), line("two")], 10, colour=True)
    assert text.startswith("\x1b[0m\x1b[H\x1b[2J")
    assert "\x1b[1;1H\x1b[Kone" in text
    assert "\x1b[2;1H\x1b[Ktwo" in text


def test_styles_are_colours_or_without_them_attributes() -> None:
    shown = ScreenLine((Span("a", "good"), Span("b", "heading"), Span("c")))
    assert encode_line(shown, 10, colour=True) == "\x1b[32ma\x1b[0m\x1b[1mb\x1b[0mc"
    assert encode_line(shown, 10, colour=False) == "a\x1b[1mb\x1b[0mc"


def test_a_selected_line_is_reversed_over_the_whole_width() -> None:
    shown = ScreenLine((Span("ab", "error"),), is_selected=True)
    assert encode_line(shown, 5, colour=True) == "\x1b[7mab   \x1b[0m"
    assert encode_line(shown, 5, colour=False) == "\x1b[7mab   \x1b[0m"


def test_a_line_is_cut_within_its_spans() -> None:
    shown = ScreenLine((Span("abc", "good"), Span("def", "error"), Span("ghi"))).fitted(5)
    assert [each.text for each in shown.spans] == ["abc", "d…"]
    assert line("abc").fitted(3) == line("abc")
