"""Names of the keys that a terminal sends as bytes.

A key is a printable character, or a name such as ``up`` or ``ctrl-c``. A lone escape is the key ``esc``, or the
beginning of a sequence that has not arrived: :meth:`KeyDecoder.flush` says that nothing more came. Sequences that are
not known are left out, and so is text that is not UTF-8.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final

_ESC: Final = "\x1b"
_CONTROLS: Final = {
    "\x03": "ctrl-c",
    "\x04": "ctrl-d",
    "\x08": "backspace",
    "\t": "tab",
    "\n": "enter",
    "\x0c": "ctrl-l",
    "\r": "enter",
    "\x15": "ctrl-u",
    "\x1a": "ctrl-z",
    "\x7f": "backspace",
}
_FINAL: Final = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "F": "end",
    "H": "home",
    "Z": "backtab",
    "M": "enter",
}
_NUMBERED: Final = {"1": "home", "3": "delete", "4": "end", "5": "pgup", "6": "pgdn", "7": "home", "8": "end"}
_MAX_SEQUENCE: Final = 32


class KeyDecoder:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._pending = ""

    @property
    def is_pending(self) -> bool:
        """Whether a sequence has begun and not ended."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[str]:
        self._pending += self._decoder.decode(data)
        return list(self._keys())

    def flush(self) -> list[str]:
        """The keys of what is pending, because no more bytes came for a while."""
        pending, self._pending = self._pending, ""
        return ["esc"] if pending == _ESC else []

    def _keys(self) -> Iterator[str]:
        while self._pending:
            first = self._pending[0]
            if first != _ESC:
                self._pending = self._pending[1:]
                yield from _key_of(first)
                continue
            if len(self._pending) == 1:
                return
            second = self._pending[1]
            if second not in "[O":
                self._pending = self._pending[1:]
                yield "esc"
                continue
            end = _end_of_sequence(self._pending)
            if end is None:
                if len(self._pending) > _MAX_SEQUENCE:
                    self._pending = ""
                return
            sequence, self._pending = self._pending[2:end], self._pending[end:]
            yield from _key_of_sequence(sequence)


def _key_of(character: str) -> Iterator[str]:
    if character in _CONTROLS:
        yield _CONTROLS[character]
    elif character.isprintable():
        yield character


def _end_of_sequence(text: str) -> int | None:
    """After ``ESC [`` or ``ESC O``: the index after the letter that ends the sequence; None if it has not arrived."""
    for index in range(2, min(len(text), _MAX_SEQUENCE)):
        if "@" <= text[index] <= "~":
            return index + 1
    return None


def _key_of_sequence(sequence: str) -> Iterator[str]:
    final, parameters = sequence[-1], sequence[:-1]
    name = _NUMBERED.get(parameters.split(";")[0], "") if final == "~" else _FINAL.get(final, "")
    if name:
        yield name
