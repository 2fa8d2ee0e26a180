"""Change logs: a bounded list of changes, in order, for readers that keep results. The node matrix has one.

A reader keeps the position it has read and asks for the entries after it. The log is bounded: a reader that is too far
behind gets None and recomputes everything, which is then cheaper. In the log of the node matrix there is one entry per
change of one row (:class:`NodeChange`).
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from headgate.scheduling.cache.pod import PodInfo

_MAX_ENTRIES: Final = 8192

Entry = TypeVar("Entry")


class NodeChange(msgspec.Struct, frozen=True, gc=False):
    """``pod`` was added (``sign`` +1) or removed (-1); without a pod the node itself was added, removed or updated.

    ``relabels``: labels or taints of the node changed, so it may be in other topology domains."""

    row: int
    pod: PodInfo | None = None
    sign: int = 0
    relabels: bool = True


class ChangeLog(Generic[Entry]):
    """``position``: the number of entries that were ever added."""

    def __init__(self, kept: int = _MAX_ENTRIES) -> None:
        self._max_entries = kept
        self._entries: list[Entry] = []
        self._first = 0  # the position of the first entry that is kept

    @property
    def position(self) -> int:
        return self._first + len(self._entries)

    def add(self, change: Entry) -> None:
        self._entries.append(change)
        if len(self._entries) > 2 * self._max_entries:
            del self._entries[: self._max_entries]
            self._first += self._max_entries

    def since(self, position: int) -> list[Entry] | None:
        """The entries after this position; ``None`` if the log does not reach back that far."""
        return self._entries[position - self._first :] if position >= self._first else None
