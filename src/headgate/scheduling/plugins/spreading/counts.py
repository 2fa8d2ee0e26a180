"""How many pods a constraint counts: on each node, and in each topology domain.

:class:`Tally` counts on nodes by namespace and labels, and :class:`Domains` sums that up over the nodes that the
constraint looks at, where equal values of a label are one domain. Both are made once per shape from the cohorts of one
namespace and then told of every pod that comes or goes; a pod then costs one node and one domain. Pods that are being
deleted count no more. When nodes themselves change, sums are made anew, once, however many of them did.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.kube.labels import Selector
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.labels import ABSENT, Ids, Mask
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.parts import SpreadConstraint
from headgate.scheduling.plugins.spreading.rules import Rules
from headgate.scheduling.plugins.taint_toleration import repelled
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape

MANY: Final = 4
"""One in so many rows: looking at all rows is then as well."""


class Tally:
    """Pods that match, per row."""

    def __init__(self, namespace: str, selector: Selector, matrix: NodeMatrix) -> None:
        self._namespace = namespace
        self._selector = selector
        # A selector that selects every pod counts none, as in Kubernetes.
        self._counts_nothing = selector.nothing or selector.is_everything
        self.on_row: Ints = np.zeros(matrix.capacity, np.int64)
        for cohort in () if self._counts_nothing else matrix.cohorts.within((namespace,)):
            if not cohort.deleting and selector.matches(cohort.labels):
                for row, count in cohort.rows.items():
                    self.on_row[row] += count

    def counts(self, pod: Pod) -> bool:
        if self._counts_nothing or pod.deleting or pod.namespace != self._namespace:
            return False
        return self._selector.matches(pod.labels)


def tallies(rules: Rules, matrix: NodeMatrix) -> list[Tally]:
    """One for each constraint; those with equal selectors share one."""
    made: dict[Selector, Tally] = {}
    for each in rules.constraints:
        if each.selector not in made:
            made[each.selector] = Tally(rules.namespace, each.selector, matrix)
    return [made[each.selector] for each in rules.constraints]


class Domains:
    """The domains of one constraint. ``ids`` are those of the label column, kept here because the matrix is ahead."""

    def __init__(self, constraint: SpreadConstraint, rules: Rules, shape: Shape, matrix: NodeMatrix) -> None:
        self._constraint = constraint
        self._rules = rules
        self._shape = shape
        self._matrix = matrix
        capacity = matrix.capacity
        self.ids: Ids = np.full(capacity, ABSENT, np.int32)
        self.counted: Mask = np.zeros(capacity, np.bool_)
        """Rows whose pods and whose domain count."""
        self.counts: Ints = np.zeros(0, np.int64)
        self.is_domain: Mask = np.zeros(0, np.bool_)
        """Of the numbers of domains, those that a counted row has."""
        self._rows_in: Ints = np.zeros(0, np.int64)

    def read(self, rows: Rows | None, on_row: Ints) -> None:
        """Look at nodes anew, and sum up."""
        matrix, constraint = self._matrix, self._constraint
        size = matrix.size
        where = slice(0, size) if rows is None else rows
        column = matrix.labels.column(constraint.topology_key)
        ids = column.ids[where]
        if not self._rules.needs_all_keys:
            # Where keys may be missing, all nodes that lack one are a domain together: that of the empty value.
            ids = np.where(ids == ABSENT, column.number(""), ids)
        counted = matrix.is_node[where] & (ids != ABSENT)
        if self._rules.needs_all_keys:
            for other in self._rules.constraints:
                counted &= matrix.labels.column(other.topology_key).ids[where] != ABSENT
        if constraint.honours_node_affinity:
            counted &= matrix.labels.required(self._shape.required, rows, size)
        if constraint.honours_node_taints:
            counted &= repelled(self._shape, matrix, rows) == 0
        self.ids[where] = ids
        self.counted[where] = counted
        self._sum_up(on_row, len(column.values))

    def _sum_up(self, on_row: Ints, length: int) -> None:
        there = self.ids[self.counted]
        self.counts = np.bincount(there, weights=on_row[self.counted], minlength=length).astype(np.int64)
        self.is_domain = np.bincount(there, minlength=length) > 0
        self._rows_in = np.bincount(self.ids[self.ids != ABSENT], minlength=length)

    def rows(self, domain: int, row: int) -> list[int] | None:
        """All rows in a domain, one of which is known; ``None`` if they are many: then all rows may be looked at."""
        number = int(self._rows_in[domain])
        if number == 1:
            return [row]
        if number * MANY > self._matrix.size:
            return None
        found: list[int] = np.flatnonzero(self.ids[: self._matrix.size] == domain).tolist()
        return found

    def number_among(self, rows: Rows) -> int:
        """How many domains these rows have between them."""
        return int(np.count_nonzero(np.bincount(self.ids[rows])))

    def rows_in_any(self, domains: Mask) -> list[int] | None:
        """The same for several domains; the last place of the mask stands for rows without the label."""
        if not domains.any():
            return []
        found = domains[self.ids[: self._matrix.size]]
        return None if np.count_nonzero(found) * MANY > self._matrix.size else np.flatnonzero(found).tolist()
