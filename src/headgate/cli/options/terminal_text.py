"""Text that is safe on a terminal: names and messages of files and clusters may contain control sequences.

``headgate`` prints through :class:`PrintableStream`, so that no command can be forgotten: control characters and
characters that reverse the direction of text are printed as ``\\u001b``. In JSON that is the same string. A line break
inside a name would begin a new line, which the stream cannot know: :func:`one_line` is for texts that are one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final, TextIO

import click

from headgate.terminal.safe_text import one_line, printable


def echo_lines(lines: Iterable[str]) -> None:
    """Prints each text as one line."""
    for line in lines:
        click.echo(one_line(line))


def send_sequence(sequence: str) -> None:
    """Sends a control sequence of a command itself to standard output, such as the one that clears the screen."""
    stdout = sys.stdout
    (stdout.below if isinstance(stdout, PrintableStream) else stdout).write(sequence)


class PrintableStream:
    """A text stream to which only printable text is written. All else is that of the stream."""

    def __init__(self, stream: TextIO) -> None:
        self.below: Final = stream

    def write(self, text: str) -> int:
        self.below.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)
