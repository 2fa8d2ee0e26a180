"""A dry run: whether a pod fits one node while other pods are added to it or removed from it.

The dry run changes the matrix and the plugins' states in place, so that plugins need no special case, and restores both
at the end. Filters that depend on the node object alone run once. The pod must fit both with the pods nominated to the
node and without them, since those may be bound elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.cache.change_log import NodeChange
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cycle_state import (
    PASSES,
    CycleState,
    FilterStep,
    PreFilterFailure,
    filter_rows,
    reasons_of,
)
from headgate.scheduling.framework.fit_error import reasons_in
from headgate.scheduling.framework.interface import FilterReason

Rejected = tuple[int, int]
"""The number of the filter that rejects the node, and the bits of its reasons."""

_NOBODY: Final = (PASSES, 0)


class NodeDryRun:
    """``spoiled`` is called when the dry run fails: the states that plugins keep for this shape may then be wrong."""

    def __init__(
        self,
        question: CycleState | PreFilterFailure,
        matrix: NodeMatrix,
        row: int,
        promised: Sequence[PodInfo] = (),
        spoiled: Callable[[], None] = lambda: None,
    ) -> None:
        self._question = question
        self._judges = () if isinstance(question, PreFilterFailure) else question.filter_states
        self._matrix = matrix
        self._row = row
        self._rows = np.array([row], np.intp)
        self._promised = promised
        self._spoiled = spoiled
        self._moved: list[NodeChange] = []
        self._by_node: Rejected | None = None

    def __enter__(self) -> NodeDryRun:
        return self

    def __exit__(self, *raised: object) -> None:
        if any(each is not None for each in raised):
            self._spoiled()
        self._undo(0)

    def put(self, pod: PodInfo, /) -> None:
        self._move(NodeChange(self._row, pod, 1))

    def take(self, pod: PodInfo, /) -> None:
        self._move(NodeChange(self._row, pod, -1))

    def reasons(self) -> tuple[FilterReason, ...]:
        question = self._question
        if isinstance(question, PreFilterFailure):
            return (question.reason,)
        found = self._rejected_beside(question, self._promised) if self._promised else None
        found = found or self._rejected(question)
        if found is None:
            return ()
        step = next(each for each in question.filters if each.order == found[0])
        return tuple(reasons_in(reasons_of(step.plugin, question.shape), found[1]))

    def rejected_beside(self, others: Sequence[PodInfo]) -> Rejected | None:
        """By the first filter that does so if these pods ran there too."""
        return None if isinstance(self._question, PreFilterFailure) else self._rejected_beside(self._question, others)

    def _rejected_beside(self, question: CycleState, others: Sequence[PodInfo]) -> Rejected | None:
        before = len(self._moved)
        for each in others:
            self.put(each)
        found = self._rejected(question)
        self._undo(before)
        return found

    def _rejected(self, question: CycleState) -> Rejected | None:
        if self._by_node is None:
            self._by_node = self._ask(question, question.node_filters)
        found = min(self._by_node, self._ask(question, question.pod_filters), key=lambda each: each[0])
        return None if found[0] == PASSES else found

    def _ask(self, question: CycleState, steps: tuple[FilterStep, ...]) -> Rejected:
        found = filter_rows(steps, question.shape, self._matrix, self._rows)
        return _NOBODY if found is None else (int(found[0][0]), int(found[1][0]))

    def _move(self, change: NodeChange) -> None:
        self._charge(change)
        self._moved.append(change)
        for state in self._judges:
            state.follow(change)

    def _undo(self, to: int) -> None:
        """The matrix first: it must be right again whatever a plugin's state does."""
        opposite = [NodeChange(each.row, each.pod, -each.sign) for each in reversed(self._moved[to:])]
        del self._moved[to:]
        for change in opposite:
            self._charge(change)
        try:
            for change in opposite if self._judges else ():
                for state in self._judges:
                    state.follow(change)
        except BaseException:
            self._spoiled()
            raise

    def _charge(self, change: NodeChange) -> None:
        if change.pod is not None:
            self._matrix.charge(change.row, change.pod, change.sign)
