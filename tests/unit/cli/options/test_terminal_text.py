"""Text of files and clusters on a terminal: no control sequences, no forged lines, and JSON keeps its content."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner

from headgate.cli.main import main
from headgate.cli.options.listing import table_text
from headgate.cli.options.terminal_text import PrintableStream
from headgate.terminal.safe_text import one_line, printable


@pytest.mark.parametrize("character", ["\x1b", "\r", "\x00", "\x7f", "\x9b", "\u202e", "\u2066", "\u2028"])
def test_control_characters_are_printed_as_escapes(character: str) -> None:
    assert printable(f"a{character}b") == f"a\\u{ord(character):04x}b"


def test_usual_text_stays() -> None:
    assert printable("Zürich\t… 東京\n") == "Zürich\t… 東京\n"


def test_a_line_break_in_a_name_begins_no_line() -> None:
    assert one_line("a\nb") == "a\\nb"


def test_a_stream_prints_no_control_characters_and_json_keeps_its_content() -> None:
    below = io.StringIO()
    text = json.dumps({"name": "\x1b[31m\x9b\u202e"}, ensure_ascii=False)
    assert PrintableStream(below).write(text) == len(text)
    assert "\x9b" not in below.getvalue()
    assert json.loads(below.getvalue()) == json.loads(text)


def test_a_cell_of_a_table_is_one_line() -> None:
    assert table_text([("NAME",), ("a\nforged \x1b[2J",)]) == "NAME\na\\nforged \\u001b[2J"


def test_every_command_prints_through_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.__version__", "1\u202e31")
    found = CliRunner().invoke(main, ["version"])
    assert (found.exit_code, "1\\u202e31" in found.output) == (0, True), found.output
