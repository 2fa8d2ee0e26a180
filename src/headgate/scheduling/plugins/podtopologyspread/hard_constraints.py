"""Hard spread constraints: rejects nodes where one more pod would exceed ``maxSkew``.

A node is rejected when its domain would have ``maxSkew`` more pods than the smallest domain, and when it has no domain.
Results are kept per domain in a table that is indexed by the domain of a row; an added or removed pod changes the
result of its own domain or, when the smallest domain changes, of all domains.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod_fields import SpreadConstraint
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.plugins.podtopologyspread.constraints import SpreadConstraints
from headgate.scheduling.plugins.podtopologyspread.domains import EligibleNodes, SpreadDomains
from headgate.scheduling.plugins.podtopologyspread.pod_counts import MatchingPodCounts, SpreadState, matching_pod_counts

UNEVEN: Final = 1
MISSING: Final = 2


class HardSpreadState(SpreadState["HardConstraint"]):
    """All hard constraints of one shape."""

    def __init__(self, spread_constraints: SpreadConstraints, shape: PodShape, matrix: NodeMatrix) -> None:
        super().__init__(spread_constraints, shape, matrix)
        eligible = self._eligible(None)
        self._set_constraints(
            [
                HardConstraint(
                    each,
                    SpreadDomains(each, matrix),
                    pod_counts,
                    eligible,
                    is_member=each.selector.matches(spread_constraints.labels),
                )
                for each, pod_counts in zip(
                    spread_constraints.constraints, matching_pod_counts(spread_constraints, matrix), strict=True
                )
            ]
        )

    def filter(self, rows: Rows | None) -> Ints:
        """Per row the reason of the first constraint that is not met; 0 if all are met."""
        self._read_changed_nodes()
        where = slice(0, self._matrix.size) if rows is None else rows
        first, *others = self._constraints
        bits = first.result_at(where)
        for each in others:
            bits = np.where(bits == 0, each.result_at(where), bits)
        return bits


class HardConstraint:
    """One constraint: the maximum number of pods per domain, and the result of each domain."""

    def __init__(
        self,
        constraint: SpreadConstraint,
        domains: SpreadDomains,
        pod_counts: MatchingPodCounts,
        eligible: EligibleNodes,
        *,
        is_member: bool,
    ) -> None:
        self.pods = pod_counts
        self._domains = domains
        self._skew = constraint.max_skew - is_member
        self._min_domains = constraint.min_domains
        self._min_count = 0
        self._smallest_domains = 0
        """The number of domains with the minimum count: while there is another one, the minimum stays."""
        self._has_min_domains = False
        """Whether there are at least ``minDomains`` domains; otherwise the minimum count is 0."""
        self._result: Ints = np.zeros(0, np.int64)
        self.read(eligible)

    def result_at(self, where: slice | Rows) -> Ints:
        # A row without the label has id -1, which reads the last element of the table.
        return self._result.take(self._domains.ids[where])

    def read(self, eligible: EligibleNodes, /) -> None:
        self._domains.read(eligible, self.pods.on_row)
        self._find_min_count()
        self._compute_result()

    def add(self, row: int, sign: int, /) -> list[int] | None:
        """Returns the rows whose result changed."""
        domains = self._domains
        if not domains.counted[row]:
            return []
        domain = int(domains.ids[row])
        before, max_count = int(domains.counts[domain]), self._max_count
        domains.counts[domain] = after = before + sign
        self._update_min_count(before, after)
        if self._max_count != max_count:
            return self._recompute_result()
        result = UNEVEN if after > max_count else 0
        if self._result[domain] == result:
            return []
        self._result[domain] = result
        return domains.rows(domain, row)

    @property
    def _max_count(self) -> int:
        return self._skew + self._min_count if self._has_min_domains else self._skew

    def _update_min_count(self, before: int, after: int) -> None:
        if after < self._min_count:
            self._min_count, self._smallest_domains = after, 1
        elif after == self._min_count:
            self._smallest_domains += 1
        elif before == self._min_count:
            self._smallest_domains -= 1
            if not self._smallest_domains:
                self._find_min_count()

    def _find_min_count(self) -> None:
        counts = self._domains.counts[self._domains.is_domain]
        self._has_min_domains = len(counts) >= self._min_domains
        self._min_count = int(counts.min()) if len(counts) else 0
        self._smallest_domains = int(np.count_nonzero(counts == self._min_count))

    def _compute_result(self) -> None:
        counts = self._domains.counts
        result: Ints = np.full(len(counts) + 1, MISSING, np.int64)
        result[:-1] = counts > self._max_count
        self._result = result

    def _recompute_result(self) -> list[int] | None:
        before = self._result
        self._compute_result()
        return self._domains.rows_in_any(before != self._result)
