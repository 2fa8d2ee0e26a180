"""How many columns of a terminal a text takes, and texts that are cut, filled up or wrapped to a number of columns.

A character may take two columns (wide East Asian letters, emoji) or none (combining marks). Characters that a terminal
does not draw as themselves, or that join others to one sign, are shown as escapes: otherwise the columns after them
would move, and a control sequence in a name would be obeyed.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

from headgate.terminal.safe_text import escaped

_NOT_DRAWN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS: Final = frozenset({"Mn", "Me"})
_MAX_MARKS: Final = 2
"""In a row, on one character. More are shown as escapes: they would be drawn over the lines above."""
_VARIATIONS: Final = range(0xFE00, 0xFE10)
"""They change the width of the character before them on some terminals only."""
ELLIPSIS: Final = "…"


def cell_text(text: str) -> str:
    """The text as one line of characters that a terminal draws one after the other."""
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        is_mark = category in _MARKS
        marks = marks + 1 if is_mark else 0
        is_first = not shown  # a mark would be drawn on the column before the text
        if category in _NOT_DRAWN or ord(character) in _VARIATIONS or (is_mark and (is_first or marks > _MAX_MARKS)):
            shown.append("\\n" if character == "\n" else escaped(character))
        else:
            shown.append(character)
    return "".join(shown)


def width(text: str) -> int:
    """Of a text of :func:`cell_text`, in columns."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


@lru_cache(4096)
def _character_width(character: str) -> int:
    if unicodedata.category(character) in _MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """At most so many columns; a text that was cut ends with an ellipsis."""
    if len(text) <= columns and text.isascii():
        return text
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    head, _ = split_at(text, columns - 1)
    return head + ELLIPSIS


def split_at(text: str, columns: int) -> tuple[str, str]:
    """The part of the text that fits, and the rest."""
    if text.isascii():
        return text[: max(columns, 0)], text[max(columns, 0) :]
    used = 0
    for index, character in enumerate(text):
        used += _character_width(character)
        if used > columns:
            return text[:index], text[index:]
    return text, ""


def fit(text: str, columns: int, *, right: bool = False) -> str:
    """Exactly so many columns."""
    shown = cut(text, columns)
    space = " " * (columns - width(shown))
    return space + shown if right else shown + space


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most so many columns, broken at spaces where that is possible. Following lines are indented like the
    first one, and two columns more."""
    columns = max(columns, 8)
    indent = len(text) - len(text.lstrip(" "))
    lines: list[str] = []
    rest, lead = text.strip(" "), " " * min(indent, columns // 3)
    while True:
        room = columns - len(lead)
        head, tail = split_at(rest, room)
        if not tail:
            return [*lines, lead + head]
        space = head.rfind(" ") if tail[0] != " " else len(head)
        if space > room // 3:
            head, tail = rest[:space], rest[space:]
        lines.append(lead + head)
        rest, lead = tail.lstrip(" "), " " * (min(indent, columns // 3) + 2)
