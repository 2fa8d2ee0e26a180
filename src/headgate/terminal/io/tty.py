"""The terminal: its modes, its size, keys from it and text to it.

While it is open, keys arrive one by one and are not echoed, and the screen is the alternate one, so that what was there
before comes back at the end, however the program ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import termios
import tty
from collections.abc import Iterator
from typing import Final

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[0m\x1b[2J"
"""The alternate screen, no cursor, no wrapping of long lines."""
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_READ_BYTES: Final = 4096


class Terminal:
    """``keys`` and ``screen``: file descriptors of the same terminal. ``encoding``: characters that it lacks are
    written as question marks."""

    def __init__(self, keys: int, screen: int, encoding: str = "utf-8") -> None:
        self.keys: Final = keys
        self._screen: Final = screen
        self._encoding: Final = encoding
        self._modes = termios.tcgetattr(keys)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        self._modes = termios.tcgetattr(self.keys)
        tty.setraw(self.keys, termios.TCSANOW)
        self.write(_ENTER)

    def _leave(self) -> None:
        # A terminal that was closed has no modes any more.
        with contextlib.suppress(OSError, termios.error):
            self.write(_LEAVE)
            termios.tcsetattr(self.keys, termios.TCSADRAIN, self._modes)

    def suspend(self) -> None:
        """Gives the terminal back to the shell, and returns when the shell continues the process."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()

    def read(self) -> bytes:
        """Empty if the terminal is gone."""
        try:
            return os.read(self.keys, _READ_BYTES)
        except OSError:
            return b""

    def write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._screen, data) :]

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            found = os.get_terminal_size(self._screen)
        except OSError:
            found = shutil.get_terminal_size()
        return max(found.columns, 1), max(found.lines, 1)
