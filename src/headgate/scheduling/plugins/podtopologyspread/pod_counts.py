"""The common part of hard and soft constraints: matching pods per node, updated with changes.

:class:`MatchingPodCounts` counts pods on nodes by namespace and labels; constraints with equal selectors share one. It
is computed once per shape from the label groups of one namespace; later an added or removed pod updates one node and,
in each constraint, one domain (``domains.py``). Terminating pods do not count.
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

_MAX_CACHED: Final = 1000


class MatchingPodCounts:
    """The number of matching pods per row."""

    def __init__(self, namespace: str, selector: Selector, matrix: NodeMatrix) -> None:
        self._namespace = namespace
        self._selector = selector
        # A selector that selects every pod counts none, as in Kubernetes.
        self._counts_nothing = selector.nothing or selector.is_everything
        self._matches_shape: dict[int, bool] = {}
        self.on_row: Ints = np.zeros(matrix.capacity, np.int64)
        for group in () if self._counts_nothing else matrix.label_groups.selected(selector, (namespace,)):
            if not group.deleting:
                for row, count in group.rows.items():
                    self.on_row[row] += count

    def counts(self, pod: PodInfo) -> bool:
        """Whether this pod is counted. The result is cached by shape if the shape has the pod's labels."""
        if pod.deleting:
            return False
        shape = pod.shape
        if shape.labels is None:
            return self._matches(pod)
        found = self._matches_shape.get(shape.number)
        if found is None:
            if len(self._matches_shape) >= _MAX_CACHED:
                self._matches_shape.clear()
            found = self._matches_shape[shape.number] = self._matches(pod)
        return found

    def _matches(self, pod: PodInfo) -> bool:
        return not self._counts_nothing and pod.namespace == self._namespace and self._selector.matches(pod.labels)


def matching_pod_counts(spread_constraints: SpreadConstraints, matrix: NodeMatrix) -> list[MatchingPodCounts]:
    """The counts for each constraint; constraints with equal selectors share one object."""
    by_selector: dict[Selector, MatchingPodCounts] = {}
    for each in spread_constraints.constraints:
        if each.selector not in by_selector:
            by_selector[each.selector] = MatchingPodCounts(spread_constraints.namespace, each.selector, matrix)
    return [by_selector[each.selector] for each in spread_constraints.constraints]


class CountedConstraint(Protocol):
    """One constraint with its counts."""

    @property
    def pods(self) -> MatchingPodCounts: ...

    def add(self, row: int, sign: int, /) -> list[int] | None:
        """A pod was added to a row or removed. Returns the affected rows; ``None`` for all rows."""

    def read(self, eligible: EligibleNodes, /) -> None:
        """Read changed nodes and compute the counts again."""


C = TypeVar("C", bound=CountedConstraint)


class SpreadState(Generic[C]):
    """The constraints of one kind for one shape: a state that is updated with changes of nodes and pods
    (``follow`` in ``scheduling/framework/interface.py``)."""

    def __init__(self, spread_constraints: SpreadConstraints, shape: PodShape, matrix: NodeMatrix) -> None:
        self._spread_constraints = spread_constraints
        self._shape = shape
        self._matrix = matrix
        self._constraints: Sequence[C] = ()
        self._pod_counts: Sequence[MatchingPodCounts] = ()
        self._changed_rows: set[int] = set()
        """Rows whose nodes have to be read again."""

    def _set_constraints(self, constraints: Sequence[C]) -> None:
        self._constraints = constraints
        self._pod_counts = tuple(dict.fromkeys(each.pods for each in constraints))
        self._changed_rows.clear()

    def follow(self, change: NodeChange, /) -> Iterable[int] | None:
        pod, row = change.pod, change.row
        if pod is None:
            if not change.relabels:
                return ()
            self._changed_rows.add(row)
            return None
        affected = {each for each in self._pod_counts if each.counts(pod)}
        if not affected:
            return ()
        for pod_counts in affected:
            pod_counts.on_row[row] += change.sign
        if self._changed_rows:
            return None
        affected_rows = [each.add(row, change.sign) for each in self._constraints if each.pods in affected]
        extra_rows: list[int] = []
        for rows in affected_rows:
            if rows is None:
                return None
            extra_rows += rows
        return extra_rows

    def _read_changed_nodes(self) -> bool:
        """Returns whether a node had to be read."""
        if not self._changed_rows:
            return False
        rows = np.fromiter(self._changed_rows, np.intp, count=len(self._changed_rows))
        self._changed_rows.clear()
        eligible = self._eligible(rows)
        for each in self._constraints:
            each.read(eligible)
        return True

    def _eligible(self, rows: Rows | None) -> EligibleNodes:
        return EligibleNodes(self._spread_constraints, self._shape, self._matrix, rows)
