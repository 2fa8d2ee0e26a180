"""The units that match a query, in the order in which they began to wait, kept up to date by the changes of units.

A list is made once from all units. Afterwards each changed unit costs the logarithm of the list, and the lists that no
reader has asked for in a while are dropped. ``waiting_pages.py`` makes pages of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from headgate.views.rows import WaitingRow

Order = tuple[float, str]
"""Since when a unit waits, and the key of its row."""
Matches = Callable[[WaitingRow], bool]

_MAX_LISTS: Final = 16
_UNUSED_CHANGES: Final = 10_000
"""A list is dropped when so many units have changed since it was read."""


class OrderedUnits:
    """``matches``: whether a unit is in the list."""

    def __init__(self, matches: Matches) -> None:
        self.order: Final[list[Order]] = []
        self.changes_since_read = 0
        self._matches: Final = matches

    def fill(self, rows: Iterable[WaitingRow]) -> None:
        self.order[:] = sorted((row.since_s, row.key) for row in rows if self._matches(row))

    def put(self, before_s: float | None, row: WaitingRow) -> None:
        """``before_s``: since when the unit waited before the change; None if it is new."""
        if before_s is not None and before_s != row.since_s:
            self.discard(before_s, row.key)
        place = bisect_left(self.order, (row.since_s, row.key))
        is_listed = self.order[place : place + 1] == [(row.since_s, row.key)]
        matches = self._matches(row)
        if matches and not is_listed:
            self.order.insert(place, (row.since_s, row.key))
        elif is_listed and not matches:
            del self.order[place]

    def discard(self, since_s: float, key: str) -> None:
        place = bisect_left(self.order, (since_s, key))
        if self.order[place : place + 1] == [(since_s, key)]:
            del self.order[place]


class WaitingLists:
    """Lists by what they were asked for. ``rows``: all units that wait."""

    def __init__(self, rows: Callable[[], Iterable[WaitingRow]]) -> None:
        self._rows: Final = rows
        self._lists: Final[dict[Hashable, OrderedUnits]] = {}

    def get(self, criteria: Hashable, matches: Matches) -> list[Order]:
        found = self._lists.pop(criteria, None)
        if found is None:
            while len(self._lists) >= _MAX_LISTS:
                del self._lists[next(iter(self._lists))]
            found = OrderedUnits(matches)
            found.fill(self._rows())
        found.changes_since_read = 0
        self._lists[criteria] = found
        return found.order

    def put(self, before_s: float | None, row: WaitingRow) -> None:
        for each in self._each_used():
            each.put(before_s, row)

    def discard(self, since_s: float, key: str) -> None:
        for each in self._each_used():
            each.discard(since_s, key)

    def _each_used(self) -> list[OrderedUnits]:
        for criteria in [key for key, each in self._lists.items() if each.changes_since_read >= _UNUSED_CHANGES]:
            del self._lists[criteria]
        for each in self._lists.values():
            each.changes_since_read += 1
        return list(self._lists.values())

    def clear(self) -> None:
        self._lists.clear()
