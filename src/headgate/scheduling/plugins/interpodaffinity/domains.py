"""Topology domains for InterPodAffinity: the domain of each node, and the counts in each domain.

``pre_filter`` or ``pre_score`` makes these counts once for a shape (pods with equal requirements on nodes share one);
each node change then updates them (``IncrementalState.follow`` in ``scheduling/framework/interface.py``). The matrix
may be ahead of the counts, so the domain of each row (a row is one node) is copied here and re-read only when the
change of that row is applied. Domain 0 is for rows without the topology label; nothing is counted there.
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
        """The domain of each row."""
        self._row_counts: Ints = np.bincount(self.domain_of_row, minlength=self.count)

    @property
    def count(self) -> int:
        """The number of domains, including domain 0."""
        return len(self._column.values) + 1

    def refresh_row(self, row: int) -> tuple[int, int]:
        """Read the label of a row's node again. Returns its old and new domain."""
        old, new = int(self.domain_of_row[row]), int(self._column.ids[row]) + 1
        if old != new:
            if self.count > len(self._row_counts):
                self._row_counts = _grow(self._row_counts, self.count)
            self.domain_of_row[row] = new
            self._row_counts[old] -= 1
            self._row_counts[new] += 1
        return old, new

    def other_rows(self, domain: int, row: int) -> Iterable[int] | None:
        """The rows to evaluate again besides ``row``; ``row`` may be among them. ``None``: all rows, because more than
        a quarter are in the domain."""
        if domain == NO_DOMAIN:
            return ()
        count_of_others = int(self._row_counts[domain]) - int(self.domain_of_row[row] == domain)
        if not count_of_others:
            return ()
        if count_of_others * 4 > self._matrix.size:
            return None
        rows: list[int] = np.flatnonzero(self.domain_of_row == domain).tolist()
        return rows


class TopologyCounts:
    """Counts (of pods, or their weights) for each row, and their sums for each domain of one topology key."""

    def __init__(self, domains: AffinityDomains) -> None:
        self.domains = domains
        self.total = 0
        """The sum over all domains; rows without a domain are not included."""
        self._by_row: dict[int, int] = {}
        self._by_domain: Ints = np.zeros(domains.count, np.int64)

    def fill(self, pods_by_row: Mapping[int, int], weight: int = 1) -> None:
        """Add the pods of many rows at once: ``weight`` for each pod."""
        for row, pod_count in pods_by_row.items():
            self._by_row[row] = self._by_row.get(row, 0) + weight * pod_count
        rows = np.fromiter(pods_by_row, np.intp, count=len(pods_by_row))
        weights = weight * np.fromiter(pods_by_row.values(), np.int64, count=len(pods_by_row))
        domains = self.domains.domain_of_row[rows]
        np.add.at(self._by_domain, domains, weights)
        self._by_domain[NO_DOMAIN] = 0
        self.total = int(self._by_domain.sum())

    def add(self, row: int, amount: int) -> tuple[int, int]:
        """Add an amount to a row. Returns the count of the row's domain before and after."""
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

    def move_row(self, row: int, old: int, new: int) -> int:
        """Move the count of a row from one domain to another. Returns that count."""
        if new >= len(self._by_domain):
            self._by_domain = _grow(self._by_domain, self.domains.count)
        amount = self._by_row.get(row, 0)
        if amount:
            self._add_to_domain(old, -amount)
            self._add_to_domain(new, amount)
        return amount

    def at(self, rows: Rows | None, size: int) -> Ints:
        """For each of ``rows`` (None: the first ``size`` rows) the count of its domain."""
        found: Ints = self._by_domain[
            self.domains.domain_of_row[:size] if rows is None else self.domains.domain_of_row[rows]
        ]
        return found


def _grow(table: Ints, length: int) -> Ints:
    """The table with zeros appended up to this length."""
    return np.append(table, np.zeros(length - len(table), np.int64))
