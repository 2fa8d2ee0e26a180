"""The common part of hard and soft constraints: matching pods per node, updated with changes.

:class:`MatchingPodCounts` counts pods on nodes by namespace and labels; constraints with equal selectors share one. It
is computed once per shape from the label groups of one namespace; later an added or removed pod costs one node and, in
each constraint, one domain (``domains.py``). Terminating pods do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from headgate.kube.labels import Selector
from headgate.scheduling.cache.change_log import NodeChange
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.plugins.podtopologyspread.constraints import SpreadConstraints
from headgate.scheduling.plugins.podtopologyspread.domains import EligibleNodes

_REMEMBERED: Final = 1000


class MatchingPodCounts:
    """Pods that match, per row."""

    def __init__(self, namespace: str, selector: Selector, matrix: NodeMatrix) -> None:
        self._namespace = namespace
        self._selector = selector
        # A selector that selects every pod counts none, as in Kubernetes.
        self._counts_nothing = selector.nothing or selector.is_everything
        self._of_shape: dict[int, bool] = {}
        self.on_row: Ints = np.zeros(matrix.capacity, np.int64)
        for cohort in () if self._counts_nothing else matrix.cohorts.selected(selector, (namespace,)):
            if not cohort.deleting:
                for row, count in cohort.rows.items():
                    self.on_row[row] += count

    def counts(self, pod: PodInfo) -> bool:
        """Where the shape says whose pods and labels they are, the answer is remembered."""
        if pod.deleting:
            return False
        shape = pod.shape
        if shape.labels is None:
            return self._matches(pod)
        found = self._of_shape.get(shape.number)
        if found is None:
            if len(self._of_shape) >= _REMEMBERED:
                self._of_shape.clear()
            found = self._of_shape[shape.number] = self._matches(pod)
        return found

    def _matches(self, pod: PodInfo) -> bool:
        return not self._counts_nothing and pod.namespace == self._namespace and self._selector.matches(pod.labels)


def matching_pod_counts(rules: SpreadConstraints, matrix: NodeMatrix) -> list[MatchingPodCounts]:
    """One for each constraint; those with equal selectors share one."""
    made: dict[Selector, MatchingPodCounts] = {}
    for each in rules.constraints:
        if each.selector not in made:
            made[each.selector] = MatchingPodCounts(rules.namespace, each.selector, matrix)
    return [made[each.selector] for each in rules.constraints]


class CountedConstraint(Protocol):
    """One constraint with its counts."""

    @property
    def pods(self) -> MatchingPodCounts: ...

    def add(self, row: int, sign: int, /) -> list[int] | None:
        """A pod came or went; returns the rows that it makes a difference to, ``None`` if they are many."""

    def read(self, eligible: EligibleNodes, /) -> None:
        """Look at nodes that changed, and sum up anew."""


C = TypeVar("C", bound=CountedConstraint)


class SpreadState(Generic[C]):
    """The constraints of one kind for one shape: a state that follows changes
    (``scheduling/framework/interface.py``)."""

    def __init__(self, rules: SpreadConstraints, shape: PodShape, matrix: NodeMatrix) -> None:
        self._rules = rules
        self._shape = shape
        self._matrix = matrix
        self._constraints: Sequence[C] = ()
        self._tallies: Sequence[MatchingPodCounts] = ()
        self._unread: set[int] = set()
        """Rows whose nodes have to be looked at again."""

    def _carry(self, constraints: Sequence[C]) -> None:
        self._constraints = constraints
        self._tallies = tuple(dict.fromkeys(each.pods for each in constraints))
        self._unread.clear()

    def follow(self, change: NodeChange, /) -> Iterable[int] | None:
        pod, row = change.pod, change.row
        if pod is None:
            if not change.relabels:
                return ()
            self._unread.add(row)
            return None
        moved = {each for each in self._tallies if each.counts(pod)}
        if not moved:
            return ()
        for tally in moved:
            tally.on_row[row] += change.sign
        if self._unread:
            return None
        touched = [each.add(row, change.sign) for each in self._constraints if each.pods in moved]
        further: list[int] = []
        for rows in touched:
            if rows is None:
                return None
            further += rows
        return further

    def _read_nodes(self) -> bool:
        """Whether there was any to look at."""
        if not self._unread:
            return False
        unread = np.fromiter(self._unread, np.intp, count=len(self._unread))
        self._unread.clear()
        eligible = self._eligible(unread)
        for each in self._constraints:
            each.read(eligible)
        return True

    def _eligible(self, rows: Rows | None) -> EligibleNodes:
        return EligibleNodes(self._rules, self._shape, self._matrix, rows)
