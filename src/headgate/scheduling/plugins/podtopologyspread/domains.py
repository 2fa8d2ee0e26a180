"""Topology domains of one constraint: the domain of each node, and the number of pods in each domain.

Nodes with equal values of the topology label are one domain. Nodes that lack one of the pod's topology keys, or that
the constraint's policies exclude, do not count, and neither do their pods. After changes of nodes the sums are computed
again once, however many nodes changed; added and removed pods update their domain. What all constraints of a pod
require of nodes alike is computed once (:class:`EligibleNodes`), because a pod may have any number of constraints.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.scheduling.cache.label_columns import ABSENT, LabelColumn, Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod_fields import SpreadConstraint
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.plugins.podtopologyspread.constraints import SpreadConstraints
from headgate.scheduling.plugins.taint_toleration import untolerated

_FULL_FRACTION: Final = 4
"""One in so many rows: looking at all rows is then as well."""


class EligibleNodes:
    """Which of some rows (``None``: all) are eligible by the criteria that all constraints of one pod share."""

    def __init__(
        self, spread_constraints: SpreadConstraints, shape: PodShape, matrix: NodeMatrix, rows: Rows | None
    ) -> None:
        self._shape = shape
        self._matrix = matrix
        self.rows = rows
        self.needs_all_keys = spread_constraints.needs_all_keys
        self.where: slice | Rows = slice(0, matrix.size) if rows is None else rows
        self._labelled: Mask = matrix.is_node[self.where].copy()
        if spread_constraints.needs_all_keys:
            for key in dict.fromkeys(each.topology_key for each in spread_constraints.constraints):
                self._labelled &= matrix.labels.column(key).ids[self.where] != ABSENT
        self._by_policies: dict[tuple[bool, bool], Mask] = {}

    def for_constraint(self, constraint: SpreadConstraint) -> Mask:
        """Nodes with all topology keys that the constraint's policies leave in. The mask is shared."""
        policies = (constraint.honours_node_affinity, constraint.honours_node_taints)
        found = self._by_policies.get(policies)
        if found is None:
            found = self._labelled.copy()
            if constraint.honours_node_affinity:
                found &= self._matrix.labels.required(self._shape.required, self.rows, self._matrix.size)
            if constraint.honours_node_taints:
                found &= untolerated(self._shape, self._matrix, self.rows) == 0
            self._by_policies[policies] = found
        return found


class SpreadDomains:
    """The domains of one constraint. ``ids`` copy the label column, because the matrix is ahead of the followed
    changes."""

    def __init__(self, constraint: SpreadConstraint, matrix: NodeMatrix) -> None:
        self._constraint = constraint
        self._matrix = matrix
        capacity = matrix.capacity
        self.ids: Rows = np.full(capacity, ABSENT, np.intp)
        self.counted: Mask = np.zeros(capacity, np.bool_)
        """Rows whose pods and whose domain count."""
        self.counts: Ints = np.zeros(0, np.int64)
        self.is_domain: Mask = np.zeros(0, np.bool_)
        """Of the numbers of domains, those that a counted row has."""
        self._rows_in: Ints = np.zeros(0, np.int64)
        self._column: LabelColumn | None = None

    def read(self, eligible: EligibleNodes, on_row: Ints) -> None:
        """Look at nodes anew, and sum up."""
        where = eligible.where
        column = self._matrix.labels.column(self._constraint.topology_key)
        ids = column.ids[where]
        if not eligible.needs_all_keys:
            self._column = column  # the number that it gives to the empty value has to stay
            # Where keys may be missing, all nodes that lack one are a domain together: that of the empty value.
            ids = np.where(ids == ABSENT, column.number(""), ids)
        self.ids[where] = ids
        self.counted[where] = eligible.for_constraint(self._constraint) & (ids != ABSENT)
        self._count_domains(on_row, len(column.values))

    def _count_domains(self, on_row: Ints, length: int) -> None:
        domain_ids = self.ids[self.counted]
        self.counts = np.bincount(domain_ids, weights=on_row[self.counted], minlength=length).astype(np.int64)
        self.is_domain = np.bincount(domain_ids, minlength=length) > 0
        self._rows_in = np.bincount(self.ids[self.ids != ABSENT], minlength=length)

    def rows(self, domain: int, row: int) -> list[int] | None:
        """All rows in a domain, one of which is known; ``None`` if they are many: then all rows may be looked at."""
        number = int(self._rows_in[domain])
        if number == 1:
            return [row]
        if number * _FULL_FRACTION > self._matrix.size:
            return None
        found: list[int] = np.flatnonzero(self.ids[: self._matrix.size] == domain).tolist()
        return found

    def count_domains(self, rows: Rows) -> int:
        """How many domains these rows have between them."""
        return int(np.count_nonzero(np.bincount(self.ids[rows])))

    def rows_in_any(self, domains: Mask) -> list[int] | None:
        """The same for several domains; the last place of the mask stands for rows without the label."""
        if not domains.any():
            return []
        found = domains[self.ids[: self._matrix.size]]
        return None if np.count_nonzero(found) * _FULL_FRACTION > self._matrix.size else np.flatnonzero(found).tolist()
