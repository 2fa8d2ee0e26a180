"""Text that is safe on a terminal: names and messages of files and clusters may contain control sequences.

Control characters and characters that reverse the direction of text become ``\\u001b``, which is the same string in
JSON. :func:`one_line` is for texts that are one line. ``cells.py`` is for texts that are put into columns.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 without tab and line feed, C1, and the characters that change the direction of text or break lines."""


def printable(text: str) -> str:
    """Tabs and line feeds stay."""
    return _CONTROLS.sub(lambda found: escaped(found[0]), text)


def one_line(text: str) -> str:
    return printable(text).replace("\n", r"\n")


def escaped(character: str) -> str:
    return f"\\u{ord(character):04x}"
