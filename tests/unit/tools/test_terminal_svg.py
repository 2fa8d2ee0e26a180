"""Pictures of a terminal: the styles of its text, and text that is only text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tools.terminal_svg import BACKGROUND, CELL, COLOURS, FOREGROUND, Run, Style, columns_of, runs, svg


def test_styles_begin_and_end_where_the_sequences_say() -> None:
    line = "a\x1b[1;31mb\x1b[0mc\x1b[7md\x1b[39;2me"
    assert list(runs(line)) == [
        Run(0, "a", Style()),
        Run(1, "b", Style(COLOURS[31], True)),
        Run(2, "c", Style()),
        Run(3, "d", Style(is_reversed=True)),
        Run(4, "e", Style(FOREGROUND, is_dim=True, is_reversed=True)),
    ]


def test_wide_characters_take_two_columns() -> None:
    assert columns_of("日本") == 4
    assert list(runs("日\x1b[1mb"))[1].column == 2


def test_columns_keep_their_places() -> None:
    root = ElementTree.fromstring(svg("a b   c\n", 40, "title"))
    found = [(each.text, each.get("x")) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert found == [("a b", "12.0"), ("c", f"{12 + 6 * CELL[0]:.1f}")]


def test_the_picture_is_xml_with_the_text_in_it() -> None:
    picture = svg("a <b> & c\n\x1b[7m x \x1b[0m\n\n", 40, 'a "title"')
    root = ElementTree.fromstring(picture)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a <b> & c", "x"]
    fills = [each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert fills == [FOREGROUND, BACKGROUND]
