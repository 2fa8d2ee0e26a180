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

NO_DOMAIN = 0

DomainIds = NDArray[np.int32]


class AffinityDomains:
    """The domains of one topology key."""

    def __init__(self, matrix: NodeMatrix, key: str) -> None:
        self._matrix = matrix
        self._column = matrix.labels.column(key)
        self.domain_of_row: DomainIds = self._column.ids + np.int32(1)
        """Per row."""
        self._row_counts: Ints = np.bincount(self.domain_of_row, minlength=self.count)

    @property
    def count(self) -> int:
        """The number of domains, including domain 0."""
        return len(self._column.values) + 1

    def move(self, row: int) -> tuple[int, int]:
        """Read a row's node again. Returns its old and new domain."""
        old, new = int(self.domain_of_row[row]), int(self._column.ids[row]) + 1
        if old != new:
            if self.count > len(self._row_counts):
                self._row_counts = _grow(self._row_counts, self.count)
            self.domain_of_row[row] = new
            self._row_counts[old] -= 1
            self._row_counts[new] += 1
        return old, new

    def rows(self, domain: int, excluded: int) -> Iterable[int] | None:
        """The rows of a domain, possibly without the row ``excluded``. ``None`` means all rows: the domain is large."""
        if domain == NO_DOMAIN:
            return ()
        count = int(self._row_counts[domain]) - int(self.domain_of_row[excluded] == domain)
        if not count:
            return ()
        if count * 4 > self._matrix.size:
            return None
        rows: list[int] = np.flatnonzero(self.domain_of_row == domain).tolist()
        return rows


class TopologyCounts:
    """Counts per domain of a topology key, and per row."""

    def __init__(self, domains: AffinityDomains) -> None:
        self.domains = domains
        self.total = 0
        """The sum over all domains, without rows in no domain."""
        self._by_row: dict[int, int] = {}
        self._by_domain: Ints = np.zeros(domains.count, np.int64)

    def fill(self, amounts: Mapping[int, int], factor: int = 1) -> None:
        """Add amounts of many rows at once."""
        for row, amount in amounts.items():
            self._by_row[row] = self._by_row.get(row, 0) + factor * amount
        rows = np.fromiter(amounts, np.intp, count=len(amounts))
        found = factor * np.fromiter(amounts.values(), np.int64, count=len(amounts))
        domains = self.domains.domain_of_row[rows]
        np.add.at(self._by_domain, domains, found)
        self._by_domain[NO_DOMAIN] = 0
        self.total = int(self._by_domain.sum())

    def add(self, row: int, amount: int) -> tuple[int, int]:
        """Returns the count of the row's domain before and after."""
        count = self._by_row.get(row, 0) + amount
        if count:
            self._by_row[row] = count
        else:
            self._by_row.pop(row, None)
        return self._add_to_domain(int(self.domains.domain_of_row[row]), amount)

    def _add_to_domain(self, domain: int, amount: int) -> tuple[int, int]:
        if domain == NO_DOMAIN:
            return 0, 0
        before = int(self._by_domain[domain])
        self._by_domain[domain] = before + amount
        self.total += amount
        return before, before + amount

    def move(self, row: int, old: int, new: int) -> int:
        """Move a row from one domain to another. Returns the amount of the row."""
        if new >= len(self._by_domain):
            self._by_domain = _grow(self._by_domain, self.domains.count)
        amount = self._by_row.get(row, 0)
        if amount:
            self._add_to_domain(old, -amount)
            self._add_to_domain(new, amount)
        return amount

    def at(self, rows: Rows | None, size: int) -> Ints:
        """The count of the domain of each row."""
        found: Ints = self._by_domain[
            self.domains.domain_of_row[:size] if rows is None else self.domains.domain_of_row[rows]
        ]
        return found


def _grow(table: Ints, number: int) -> Ints:
    return np.append(table, np.zeros(number - len(table), np.int64))
