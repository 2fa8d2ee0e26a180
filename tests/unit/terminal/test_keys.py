"""Bytes of a terminal become names of keys, however they are split."""

from __future__ import annotations

import pytest

from headgate.terminal.keys import KeyDecoder


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"abc", ["a", "b", "c"]),
        ("é日".encode(), ["é", "日"]),
        (b"\x1b[A\x1b[B\x1bOC\x1bOD", ["up", "down", "right", "left"]),
        (b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~\x1b[H\x1b[F\x1b[3~", ["pgup", "pgdn", "home", "end", "home", "end", "delete"]),
        (b"\x1b[1;5A", ["up"]),
        (b"\t\x1b[Z\r\n\x7f\x08", ["tab", "backtab", "enter", "enter", "backspace", "backspace"]),
        (b"\x03\x1a\x0c\x15\x04", ["ctrl-c", "ctrl-z", "ctrl-l", "ctrl-u", "ctrl-d"]),
        (b"\x1b[200~x\x1b[201~", ["x"]),
        (b"\xff\xfea", ["a"]),
        (b"\x01\x02", []),
        (b"\x1bx", ["esc", "x"]),
    ],
)
def test_bytes_become_names_of_keys(data: bytes, keys: list[str]) -> None:
    assert KeyDecoder().feed(data) == keys
    decoder = KeyDecoder()
    assert [key for each in data for key in decoder.feed(bytes([each]))] == keys


def test_a_lone_escape_is_a_key_when_nothing_follows() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.is_pending
    assert decoder.flush() == ["esc"]
    assert not decoder.is_pending


def test_a_sequence_that_never_ends_is_dropped() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[" + b"1" * 100) == []
    assert not decoder.is_pending
    assert decoder.feed(b"q") == ["q"]
    decoder.feed(b"\x1b[1")
    assert decoder.flush() == []
    assert decoder.feed(b"q") == ["q"]
