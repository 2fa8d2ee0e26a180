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

    def __init__(self, rules: SpreadConstraints, shape: PodShape, matrix: NodeMatrix) -> None:
        super().__init__(rules, shape, matrix)
        eligible = self._eligible(None)
        self._carry(
            [
                HardConstraint(
                    each, SpreadDomains(each, matrix), tally, eligible, is_member=each.selector.matches(rules.labels)
                )
                for each, tally in zip(rules.constraints, matching_pod_counts(rules, matrix), strict=True)
            ]
        )

    def filter(self, rows: Rows | None) -> Ints:
        """Per row zero, or what the first constraint that is not met complains of."""
        self._read_nodes()
        where = slice(0, self._matrix.size) if rows is None else rows
        first, *others = self._constraints
        bits = first.verdict_at(where)
        for each in others:
            bits = np.where(bits == 0, each.verdict_at(where), bits)
        return bits


class HardConstraint:
    """One constraint: how many pods a domain may have, and which domains have too many."""

    def __init__(
        self,
        constraint: SpreadConstraint,
        domains: SpreadDomains,
        tally: MatchingPodCounts,
        eligible: EligibleNodes,
        *,
        is_member: bool,
    ) -> None:
        self.pods = tally
        self._domains = domains
        self._skew = constraint.max_skew - is_member
        self._min_domains = constraint.min_domains
        self._least = 0
        self._holders = 0
        """Domains that have the least pods: while there is another one, the least stays."""
        self._is_enough = False
        """Whether there are as many domains as were asked for; else an empty one is taken to be there."""
        self._verdict: Ints = np.zeros(0, np.int64)
        self.read(eligible)

    def verdict_at(self, where: slice | Rows) -> Ints:
        # A row without the label has id -1, which reads the last place of the table.
        return self._verdict.take(self._domains.ids[where])

    def read(self, eligible: EligibleNodes, /) -> None:
        self._domains.read(eligible, self.pods.on_row)
        self._find_least()
        self._judge()

    def add(self, row: int, sign: int, /) -> list[int] | None:
        """Returns the rows with another verdict than before."""
        domains = self._domains
        if not domains.counted[row]:
            return []
        domain = int(domains.ids[row])
        before, most = int(domains.counts[domain]), self._most
        domains.counts[domain] = after = before + sign
        self._shift_least(before, after)
        if self._most != most:
            return self._judge_again()
        verdict = UNEVEN if after > most else 0
        if self._verdict[domain] == verdict:
            return []
        self._verdict[domain] = verdict
        return domains.rows(domain, row)

    @property
    def _most(self) -> int:
        return self._skew + self._least if self._is_enough else self._skew

    def _shift_least(self, before: int, after: int) -> None:
        if after < self._least:
            self._least, self._holders = after, 1
        elif after == self._least:
            self._holders += 1
        elif before == self._least:
            self._holders -= 1
            if not self._holders:
                self._find_least()

    def _find_least(self) -> None:
        counts = self._domains.counts[self._domains.is_domain]
        self._is_enough = len(counts) >= self._min_domains
        self._least = int(counts.min()) if len(counts) else 0
        self._holders = int(np.count_nonzero(counts == self._least))

    def _judge(self) -> None:
        counts = self._domains.counts
        verdict: Ints = np.full(len(counts) + 1, MISSING, np.int64)
        verdict[:-1] = counts > self._most
        self._verdict = verdict

    def _judge_again(self) -> list[int] | None:
        before = self._verdict
        self._judge()
        return self._domains.rows_in_any(before != self._verdict)
