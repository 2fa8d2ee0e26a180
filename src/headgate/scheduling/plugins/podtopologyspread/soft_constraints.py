"""Soft spread constraints: prefers nodes in domains with fewer matching pods.

A node's raw score is the number of matching pods in its domain, summed over the constraints; lower is better. A
topology with many domains has a higher weight, by a logarithm, since its counts are small. The number of domains
depends on the feasible nodes, so the framework passes them to the state. Where the topology is the hostname, only pods
on that node count. Nodes that lack a topology key score nothing, unless the constraints are kube-scheduler's built-in
defaults.
"""

from __future__ import annotations

from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headgate.scheduling.cache.label_columns import ABSENT, Ids, Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod_fields import SpreadConstraint
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.plugins.podtopologyspread.constraints import HOSTNAME, SpreadConstraints
from headgate.scheduling.plugins.podtopologyspread.domains import EligibleNodes, SpreadDomains
from headgate.scheduling.plugins.podtopologyspread.pod_counts import MatchingPodCounts, SpreadState, matching_pod_counts

IGNORED: Final = -1
"""The raw score of a node that is not scored."""

Floats = NDArray[np.float64]


class SoftSpreadState(SpreadState["SoftConstraint"]):
    """All soft constraints of one shape.

    Pods are counted when scores are first requested: a pod with one feasible node needs no scores. Before that,
    the state ignores the pods that a dry run adds or removes, and also ignores when the dry run restores them."""

    def __init__(self, spread_constraints: SpreadConstraints, shape: PodShape, matrix: NodeMatrix) -> None:
        super().__init__(spread_constraints, shape, matrix)
        self._feasible: Mask = np.zeros(0, np.bool_)

    def see(self, mask: Mask, /) -> bool:
        self._feasible = mask.copy()
        self._update()
        return self._update_weights()

    def raw_scores(self, rows: Rows | None) -> Ints:
        self._update()
        where = slice(0, self._matrix.size) if rows is None else rows
        total: Floats = np.zeros(self._matrix.size if rows is None else len(rows))
        for each in self._constraints:
            total += each.scores(where)
        scores: Ints = np.floor(total + 0.5).astype(np.int64)
        if self._spread_constraints.needs_all_keys:
            for each in self._constraints:
                scores = np.where(each.labelled[where], scores, IGNORED)
        return scores

    def _update(self) -> None:
        """Count pods on the first call; later read changed nodes."""
        if not self._constraints:
            eligible = self._eligible(None)
            self._set_constraints(
                [
                    SoftConstraint(each, self._matrix, pod_counts, eligible)
                    for each, pod_counts in zip(
                        self._spread_constraints.constraints,
                        matching_pod_counts(self._spread_constraints, self._matrix),
                        strict=True,
                    )
                ]
            )
            self._update_weights()
        elif self._read_changed_nodes():
            self._update_weights()

    def _update_weights(self) -> bool:
        """Update the weights with the number of domains of the feasible nodes. Returns whether a weight changed."""
        rows = np.flatnonzero(self._feasible)
        if self._spread_constraints.needs_all_keys:
            for each in self._constraints:
                rows = rows[each.labelled[rows]]
        changed = [each for each in self._constraints if each.update_weight(rows)]
        return bool(changed)


class SoftConstraint:
    """One constraint."""

    def __init__(
        self, constraint: SpreadConstraint, matrix: NodeMatrix, pod_counts: MatchingPodCounts, eligible: EligibleNodes
    ) -> None:
        self.pods = pod_counts
        self._matrix = matrix
        self._key = constraint.topology_key
        self._tolerance = float(constraint.max_skew - 1)
        self._weight = 0.0
        # Rows without the label are then one domain, and have no score.
        self._has_empty_domain = not eligible.needs_all_keys
        self._domains = None if self._key == HOSTNAME else SpreadDomains(constraint, matrix)
        self.labelled: Mask = np.zeros(matrix.capacity, np.bool_)
        self.read(eligible)

    def read(self, eligible: EligibleNodes, /) -> None:
        where = eligible.where
        ids: Ids = self._matrix.labels.column(self._key).ids[where]
        self.labelled[where] = ids != ABSENT
        if self._domains is not None:
            self._domains.read(eligible, self.pods.on_row)

    def add(self, row: int, sign: int, /) -> list[int] | None:
        domains = self._domains
        if domains is None:
            return [row]
        if not domains.counted[row]:
            return []
        domain = int(domains.ids[row])
        domains.counts[domain] += sign
        return domains.rows(domain, row)

    def update_weight(self, feasible: Rows) -> bool:
        number = len(feasible) if self._domains is None else self._domains.count_domains(feasible)
        weight = log(number + 2)
        changed = weight != self._weight
        self._weight = weight
        return changed

    def scores(self, where: slice | Rows) -> Floats:
        """The scores of these rows; 0 where the label is missing."""
        domains = self._domains
        if domains is None:
            counts = self.pods.on_row[where].astype(np.float64)
            return np.where(self.labelled[where], counts * self._weight + self._tolerance, 0.0)
        # Rows without a domain have id -1, which reads the last element of the table.
        table: Floats = np.append(domains.counts * self._weight + self._tolerance, 0.0)
        scores = table.take(domains.ids[where])
        return np.where(self.labelled[where], scores, 0.0) if self._has_empty_domain else scores
