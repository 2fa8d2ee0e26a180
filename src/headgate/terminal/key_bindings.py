"""Which key does what, in which mode. The help lists these tables, so that it cannot differ.

The modes: a list of rows, the details of one row, the typing of a filter, and the help.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from headgate.terminal.view_tables import TABLES, VIEWS, ViewName

Mode = Literal["list", "detail", "filter", "help"]
Action = Literal[
    "quit",
    "suspend",
    "redraw",
    "up",
    "down",
    "page_up",
    "page_down",
    "top",
    "bottom",
    "next_view",
    "previous_view",
    "open",
    "back",
    "line",
    "filter",
    "apply_filter",
    "drop_filter",
    "delete",
    "clear",
    "sort_next",
    "sort_previous",
    "reverse",
    "pause",
    "help",
]
PREFIX: Final = "g"
"""Before the letter of a view, as on the page."""


class Binding(msgspec.Struct, frozen=True):
    """``text``: for the help; empty for a key that needs none."""

    keys: tuple[str, ...]
    action: Action
    text: str = ""


_ALWAYS: Final = (
    Binding(("ctrl-c",), "quit"),
    Binding(("ctrl-z",), "suspend", "stop the program; fg continues it"),
    Binding(("ctrl-l",), "redraw", "draw the screen again"),
)
_MOVES: Final = (
    Binding(("j", "down"), "down", "the next row"),
    Binding(("k", "up"), "up", "the row before"),
    Binding(("pgdn", "ctrl-d"), "page_down", "a page down"),
    Binding(("pgup", "ctrl-u"), "page_up", "a page up"),
    Binding(("home",), "top", "the first row; also g g"),
    Binding(("end", "G"), "bottom", "the last row"),
)
_COMMON: Final = (
    Binding(("q",), "quit", "quit; also Ctrl-C"),
    Binding(("p", " "), "pause", "pause the updates, and go on"),
    Binding(("?",), "help", "this help"),
)
BINDINGS: Final[dict[Mode, tuple[Binding, ...]]] = {
    "list": (
        *_COMMON,
        Binding(("tab", "right"), "next_view", "the next view; also its number, or g and its letter"),
        Binding(("backtab", "left"), "previous_view", "the view before"),
        *_MOVES,
        Binding(("enter",), "open", "the details of the row: the explanation and the history of a unit"),
        Binding(("l",), "line", "the line of the queue; the units of the namespace or of the gate"),
        Binding(("/",), "filter", "show only rows with these words"),
        Binding(("s",), "sort_next", "sort by the next column"),
        Binding(("S",), "sort_previous", "sort by the column before"),
        Binding(("r",), "reverse", "reverse the order"),
        Binding(("esc", "backspace"), "back", "back; without the filter"),
        *_ALWAYS,
    ),
    "detail": (*_COMMON, *_MOVES, Binding(("esc", "backspace", "left", "enter"), "back"), *_ALWAYS),
    "help": (*_COMMON, *_MOVES, Binding(("esc", "backspace", "enter"), "back"), *_ALWAYS),
    "filter": (
        Binding(("enter",), "apply_filter"),
        Binding(("esc",), "drop_filter"),
        Binding(("backspace",), "delete"),
        Binding(("ctrl-u",), "clear"),
        *_ALWAYS,
    ),
}
ACTIONS: Final[dict[Mode, dict[str, Action]]] = {
    mode: {key: each.action for each in bindings for key in each.keys} for mode, bindings in BINDINGS.items()
}
NUMBERS: Final[dict[str, ViewName]] = {str(number): name for number, name in enumerate(VIEWS, 1)}
LETTERS: Final[dict[str, ViewName]] = {table.letter: name for name, table in TABLES.items()}
_NAMES: Final = {" ": "Space", "enter": "Enter", "esc": "Esc", "pgdn": "PgDn", "pgup": "PgUp", "backtab": "Shift-Tab"}


def key_name(key: str) -> str:
    if key in _NAMES:
        return _NAMES[key]
    return key if len(key) == 1 else "-".join(part.capitalize() for part in key.split("-"))


def help_lines() -> list[str]:
    views = [f"{number} or g {TABLES[name].letter}" for number, name in NUMBERS.items()]
    keys = [" ".join(map(key_name, each.keys)) for each in BINDINGS["list"] if each.text]
    texts = [each.text for each in BINDINGS["list"] if each.text]
    wide = max(map(len, (*keys, *views)))
    return [
        "Views",
        *(f"  {view.ljust(wide)}  {TABLES[name].title}" for view, name in zip(views, NUMBERS.values(), strict=True)),
        "",
        "Keys",
        *(f"  {key.ljust(wide)}  {text}" for key, text in zip(keys, texts, strict=True)),
    ]
