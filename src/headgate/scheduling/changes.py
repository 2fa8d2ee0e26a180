"""What happened to the rows of a node matrix, in order, so that whoever remembers something can catch up.

A reader keeps the position it has seen and asks for the rest. The log is bounded: a reader that fell too far behind is
told so, and looks at everything anew, which is then the cheaper way. One entry per change of one row.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from headgate.scheduling.pod import Pod

_KEPT: Final = 8192

Entry = TypeVar("Entry")


class Change(msgspec.Struct, frozen=True, gc=False):
    """``pod`` came (``sign`` +1) or went (-1); without a pod the node itself came, went or changed.

    ``relabels``: not only its amounts or images did, so it may be in other domains than before.
    """

    row: int
    pod: Pod | None = None
    sign: int = 0
    relabels: bool = True


class ChangeLog(Generic[Entry]):
    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._entries: list[Entry] = []
        self._first = 0

    @property
    def position(self) -> int:
        return self._first + len(self._entries)

    def add(self, change: Entry) -> None:
        self._entries.append(change)
        if len(self._entries) > 2 * self._kept:
            del self._entries[: self._kept]
            self._first += self._kept

    def since(self, position: int) -> list[Entry] | None:
        """``None``: too long ago to tell."""
        return self._entries[position - self._first :] if position >= self._first else None
