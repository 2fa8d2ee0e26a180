"""Topology domains of one plugin state: the domain of each row, and what was counted in each domain.

The matrix is ahead of the changes that a state has followed, so the domain of a row is kept here and read again when a
change replaces its node. Domain 0 is for rows without the label; nothing is counted there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.resource_columns import Ints, Rows

NOWHERE = 0

Places = NDArray[np.int32]


class AffinityDomains:
    """The domains of one topology key."""

    def __init__(self, matrix: NodeMatrix, key: str) -> None:
        self._matrix = matrix
        self._column = matrix.labels.column(key)
        self.place: Places = self._column.ids + np.int32(1)
        """Per row."""
        self._population: Ints = np.bincount(self.place, minlength=self.number)

    @property
    def number(self) -> int:
        """Of places, with the one for rows that are in no domain."""
        return len(self._column.values) + 1

    def move(self, row: int) -> tuple[int, int]:
        """Read a row's node again; returns where it was and where it is."""
        old, new = int(self.place[row]), int(self._column.ids[row]) + 1
        if old != new:
            if self.number > len(self._population):
                self._population = _grown(self._population, self.number)
            self.place[row] = new
            self._population[old] -= 1
            self._population[new] += 1
        return old, new

    def rows(self, place: int, besides: int) -> Iterable[int] | None:
        """The rows of a domain; one row may be left out. ``None`` if they are so many that it may as well be all."""
        if place == NOWHERE:
            return ()
        count = int(self._population[place]) - int(self.place[besides] == place)
        if not count:
            return ()
        if count * 4 > self._matrix.size:
            return None
        rows: list[int] = np.flatnonzero(self.place == place).tolist()
        return rows


class TopologyCounts:
    """What was counted in each domain of a key, and on which row it was."""

    def __init__(self, domains: AffinityDomains) -> None:
        self.domains = domains
        self.total = 0
        """Over all domains, so without what is on rows that are in none."""
        self._by_row: dict[int, int] = {}
        self._by_place: Ints = np.zeros(domains.number, np.int64)

    def fill(self, amounts: Mapping[int, int], factor: int = 1) -> None:
        """Add what is on many rows at once."""
        for row, amount in amounts.items():
            self._by_row[row] = self._by_row.get(row, 0) + factor * amount
        rows = np.fromiter(amounts, np.intp, count=len(amounts))
        found = factor * np.fromiter(amounts.values(), np.int64, count=len(amounts))
        places = self.domains.place[rows]
        np.add.at(self._by_place, places, found)
        self._by_place[NOWHERE] = 0
        self.total = int(self._by_place.sum())

    def add(self, row: int, amount: int) -> tuple[int, int]:
        """Returns what was in that row's domain before, and what is now."""
        count = self._by_row.get(row, 0) + amount
        if count:
            self._by_row[row] = count
        else:
            self._by_row.pop(row, None)
        return self._shift(int(self.domains.place[row]), amount)

    def _shift(self, place: int, amount: int) -> tuple[int, int]:
        if place == NOWHERE:
            return 0, 0
        before = int(self._by_place[place])
        self._by_place[place] = before + amount
        self.total += amount
        return before, before + amount

    def move(self, row: int, old: int, new: int) -> int:
        """A row went from one domain to another; returns how much went with it."""
        if new >= len(self._by_place):
            self._by_place = _grown(self._by_place, self.domains.number)
        amount = self._by_row.get(row, 0)
        if amount:
            self._shift(old, -amount)
            self._shift(new, amount)
        return amount

    def at(self, rows: Rows | None, size: int) -> Ints:
        """What is in the domain of each row."""
        found: Ints = self._by_place[self.domains.place[:size] if rows is None else self.domains.place[rows]]
        return found


def _grown(table: Ints, number: int) -> Ints:
    return np.append(table, np.zeros(number - len(table), np.int64))
