"""A real pseudo-terminal: its modes come back, and nothing of the program stays on it."""

from __future__ import annotations

import os
import pty
import termios

import pytest

from headgate.terminal.io.tty import Terminal


def read_all(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    found = b""
    while True:
        try:
            found += os.read(descriptor, 4096)
        except BlockingIOError:
            return found


@pytest.mark.parametrize("error", [None, ValueError("a defect")])
def test_the_modes_of_the_terminal_come_back_however_the_program_ends(error: Exception | None) -> None:
    outer, inner = pty.openpty()
    try:
        before = termios.tcgetattr(inner)
        terminal = Terminal(inner, inner)
        try:
            with terminal.opened():
                assert not termios.tcgetattr(inner)[3] & termios.ECHO
                terminal.write("picture")
                if error is not None:
                    raise error
        except ValueError:
            assert error is not None
        assert termios.tcgetattr(inner) == before
        sent = read_all(outer)
        assert sent.startswith(b"\x1b[?1049h")
        assert b"picture" in sent
        assert sent.endswith(b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l")
    finally:
        os.close(outer)
        os.close(inner)


def test_keys_arrive_one_by_one() -> None:
    outer, inner = pty.openpty()
    try:
        terminal = Terminal(inner, inner)
        with terminal.opened():
            os.write(outer, b"q")
            assert terminal.read() == b"q"
    finally:
        os.close(outer)
        os.close(inner)


def test_a_terminal_that_is_gone_ends_the_keys() -> None:
    outer, inner = pty.openpty()
    terminal = Terminal(inner, inner)
    os.close(outer)
    assert terminal.read() == b""
    os.close(inner)


def test_characters_that_the_terminal_lacks_are_replaced() -> None:
    outer, inner = pty.openpty()
    try:
        Terminal(inner, inner, "ascii").write("a…b")
        assert read_all(outer) == b"a?b"
    finally:
        os.close(outer)
        os.close(inner)
