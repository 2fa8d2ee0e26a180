"""Styled lines, and the control sequences that bring a screen from one picture to the next.

Only lines that changed are written. Every line is cleared to its end and starts at its own row, so a character that the
terminal draws wider than expected cannot move other lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from headgate.terminal.cells import cut, width

Style = Literal[
    "plain", "heading", "muted", "good", "warning", "error", "used", "reserved", "waiting", "free", "chosen"
]
_COLOURS: Final[dict[str, str]] = {
    "heading": "1",
    "muted": "2",
    "good": "32",
    "warning": "33",
    "error": "1;31",
    "used": "32",
    "reserved": "33",
    "waiting": "36",
    "free": "2",
    "chosen": "1;7",
}
_NO_COLOURS: Final[dict[str, str]] = {"heading": "1", "error": "1", "chosen": "7"}
"""Attributes that are not colours stay with ``NO_COLOR``."""
_RESET: Final = "\x1b[0m"
_REVERSED: Final = "\x1b[7m"


class Span(NamedTuple):
    """``text`` is of :func:`~headgate.terminal.cells.cell_text`: it has no control character."""

    text: str
    style: Style = "plain"


class ScreenLine(msgspec.Struct, frozen=True):
    """``is_selected``: the whole line is drawn in reverse."""

    spans: tuple[Span, ...] = ()
    is_selected: bool = False

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)

    def fitted(self, columns: int) -> ScreenLine:
        """At most so many columns."""
        if width(self.text) <= columns:
            return self
        spans: list[Span] = []
        room = columns
        for span in self.spans:
            taken = width(span.text)
            if taken > room:
                spans.append(Span(cut(span.text, room), span.style))
                break
            spans.append(span)
            room -= taken
        return ScreenLine(tuple(spans), self.is_selected)


def line(text: str, style: Style = "plain") -> ScreenLine:
    return ScreenLine((Span(text, style),))


def encode_line(shown: ScreenLine, columns: int, *, colour: bool) -> str:
    """The line with its styles, for a terminal."""
    styles = _COLOURS if colour else _NO_COLOURS
    parts: list[str] = []
    for text, style in shown.spans:
        code = styles.get(style, "")
        if shown.is_selected:
            parts.append(text)
        else:
            parts.append(f"\x1b[{code}m{text}{_RESET}" if code and text else text)
    if shown.is_selected:
        space = " " * max(columns - width(shown.text), 0)
        return f"{_REVERSED}{''.join(parts)}{space}{_RESET}"
    return "".join(parts)


def encode_changes(
    before: Sequence[ScreenLine] | None, now: Sequence[ScreenLine], columns: int, *, colour: bool
) -> str:
    """What to write so that the screen shows the lines. ``before``: what it shows; None if that is not known."""
    return "".join(_changes(before, now, columns, colour))


def _changes(
    before: Sequence[ScreenLine] | None, now: Sequence[ScreenLine], columns: int, colour: bool
) -> Iterable[str]:
    if before is None:
        yield f"{_RESET}\x1b[H\x1b[2J"
    for row, shown in enumerate(now):
        if before is None or row >= len(before) or before[row] != shown:
            yield f"\x1b[{row + 1};1H\x1b[K{encode_line(shown, columns, colour=colour)}"
