"""Topology domains of one constraint: the domain of each node, and the number of pods in each domain.

Nodes with equal values of the topology label are one domain. Nodes that lack one of the pod's topology keys, or that
the constraint's policies exclude, do not count; their pods do not count either. After changes of nodes the sums are
computed again once, however many nodes changed; added and removed pods update their domain. What all constraints of a
pod require of nodes is computed once (:class:`EligibleNodes`), because a pod may have any number of constraints.
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
"""If more than 1/4 of the rows are affected, all rows are evaluated."""


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
        """The nodes with all topology keys that the constraint's policies include. The mask is shared."""
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
    """The domains of one constraint. ``ids`` is a copy of the label column, because the matrix may already include
    changes that the state has not processed yet."""

    def __init__(self, constraint: SpreadConstraint, matrix: NodeMatrix) -> None:
        self._constraint = constraint
        self._matrix = matrix
        capacity = matrix.capacity
        self.ids: Rows = np.full(capacity, ABSENT, np.intp)
        self.counted: Mask = np.zeros(capacity, np.bool_)
        """Rows that count for the constraint."""
        self.counts: Ints = np.zeros(0, np.int64)
        self.is_domain: Mask = np.zeros(0, np.bool_)
        """The domain ids that a counted row has."""
        self._rows_in: Ints = np.zeros(0, np.int64)
        self._column: LabelColumn | None = None

    def read(self, eligible: EligibleNodes, on_row: Ints) -> None:
        """Read the nodes again and compute the counts per domain."""
        where = eligible.where
        column = self._matrix.labels.column(self._constraint.topology_key)
        ids = column.ids[where]
        if not eligible.needs_all_keys:
            self._column = column  # keeps the id of the empty value valid
            # If keys may be missing, all nodes without the key form one domain: that of the empty value.
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
        """All rows of a domain, of which ``row`` is one. ``None`` means all rows: the domain is large."""
        number = int(self._rows_in[domain])
        if number == 1:
            return [row]
        if number * _FULL_FRACTION > self._matrix.size:
            return None
        found: list[int] = np.flatnonzero(self.ids[: self._matrix.size] == domain).tolist()
        return found

    def count_domains(self, rows: Rows) -> int:
        """The number of domains of these rows."""
        return int(np.count_nonzero(np.bincount(self.ids[rows])))

    def rows_in_any(self, domains: Mask) -> list[int] | None:
        """As :meth:`rows`, for several domains; the last element of the mask is for rows without the label."""
        if not domains.any():
            return []
        found = domains[self.ids[: self._matrix.size]]
        return None if np.count_nonzero(found) * _FULL_FRACTION > self._matrix.size else np.flatnonzero(found).tolist()
