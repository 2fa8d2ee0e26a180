"""What hard and soft spreading share: pods counted per node, and constraints that are carried along with changes.

A :class:`Tally` counts on nodes by namespace and labels; constraints with equal selectors share one. It is made once
per shape from the cohorts of one namespace, and from then on a pod that comes or goes costs one node and, in each
constraint, one domain (``domains.py``). Pods that are being deleted count no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from headgate.kube.labels import Selector
from headgate.scheduling.changes import Change
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.plugins.spreading.domains import Eligible
from headgate.scheduling.plugins.spreading.rules import Rules
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape

_REMEMBERED: Final = 1000


class Tally:
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

    def counts(self, pod: Pod) -> bool:
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

    def _matches(self, pod: Pod) -> bool:
        return not self._counts_nothing and pod.namespace == self._namespace and self._selector.matches(pod.labels)


def tallies(rules: Rules, matrix: NodeMatrix) -> list[Tally]:
    """One for each constraint; those with equal selectors share one."""
    made: dict[Selector, Tally] = {}
    for each in rules.constraints:
        if each.selector not in made:
            made[each.selector] = Tally(rules.namespace, each.selector, matrix)
    return [made[each.selector] for each in rules.constraints]


class Counted(Protocol):
    """One constraint with its counts."""

    @property
    def tally(self) -> Tally: ...

    def add(self, row: int, sign: int, /) -> list[int] | None:
        """A pod came or went; returns the rows that it makes a difference to, ``None`` if they are many."""

    def read(self, eligible: Eligible, /) -> None:
        """Look at nodes that changed, and sum up anew."""


C = TypeVar("C", bound=Counted)


class Spread(Generic[C]):
    """The constraints of one kind for one shape: a state that follows changes (``scheduling/contract.py``)."""

    def __init__(self, rules: Rules, shape: Shape, matrix: NodeMatrix) -> None:
        self._rules = rules
        self._shape = shape
        self._matrix = matrix
        self._constraints: Sequence[C] = ()
        self._tallies: Sequence[Tally] = ()
        self._unread: set[int] = set()
        """Rows whose nodes have to be looked at again."""

    def _carry(self, constraints: Sequence[C]) -> None:
        self._constraints = constraints
        self._tallies = tuple(dict.fromkeys(each.tally for each in constraints))
        self._unread.clear()

    def follow(self, change: Change, /) -> Iterable[int] | None:
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
        touched = [each.add(row, change.sign) for each in self._constraints if each.tally in moved]
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

    def _eligible(self, rows: Rows | None) -> Eligible:
        return Eligible(self._rules, self._shape, self._matrix, rows)
