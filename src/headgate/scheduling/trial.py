"""A trial: one node and a pod that might go there, while other pods come and go in thought.

The matrix and the plugins' states are moved along for real, so that plugins need not know, and moved back at the end.
What depends on the node object alone is asked once. Pods that were promised room on the node count twice over: the pod
in question has to fit beside them, and without them as well, since they may end up elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.changes import Change
from headgate.scheduling.contract import Reason
from headgate.scheduling.fit_error import reasons_in
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.question import PASSES, FilterStep, Question, Refused, filter_rows, reasons_of

Rejected = tuple[int, int]
"""The number of the filter that rejects the node, and the bits of its reasons."""

_NOBODY: Final = (PASSES, 0)


class NodeTrial:
    """``spoiled`` is called when the trial breaks: then what plugins keep for this question may be wrong."""

    def __init__(
        self,
        question: Question | Refused,
        matrix: NodeMatrix,
        row: int,
        promised: Sequence[Pod] = (),
        spoiled: Callable[[], None] = lambda: None,
    ) -> None:
        self._question = question
        self._judges = () if isinstance(question, Refused) else question.judges
        self._matrix = matrix
        self._row = row
        self._rows = np.array([row], np.intp)
        self._promised = promised
        self._spoiled = spoiled
        self._moved: list[Change] = []
        self._by_node: Rejected | None = None

    def __enter__(self) -> NodeTrial:
        return self

    def __exit__(self, *raised: object) -> None:
        if any(each is not None for each in raised):
            self._spoiled()
        self._undo(0)

    def put(self, pod: Pod, /) -> None:
        self._move(Change(self._row, pod, 1))

    def take(self, pod: Pod, /) -> None:
        self._move(Change(self._row, pod, -1))

    def reasons(self) -> tuple[Reason, ...]:
        question = self._question
        if isinstance(question, Refused):
            return (question.reason,)
        found = self._rejected_beside(question, self._promised) if self._promised else None
        found = found or self._rejected(question)
        if found is None:
            return ()
        step = next(each for each in question.filters if each.order == found[0])
        return tuple(reasons_in(reasons_of(step.plugin, question.shape), found[1]))

    def rejected_beside(self, others: Sequence[Pod]) -> Rejected | None:
        """By the first filter that does so if these pods ran there too."""
        return None if isinstance(self._question, Refused) else self._rejected_beside(self._question, others)

    def _rejected_beside(self, question: Question, others: Sequence[Pod]) -> Rejected | None:
        before = len(self._moved)
        for each in others:
            self.put(each)
        found = self._rejected(question)
        self._undo(before)
        return found

    def _rejected(self, question: Question) -> Rejected | None:
        if self._by_node is None:
            self._by_node = self._ask(question, question.node_filters)
        found = min(self._by_node, self._ask(question, question.pod_filters), key=lambda each: each[0])
        return None if found[0] == PASSES else found

    def _ask(self, question: Question, steps: tuple[FilterStep, ...]) -> Rejected:
        found = filter_rows(steps, question.shape, self._matrix, self._rows)
        return _NOBODY if found is None else (int(found[0][0]), int(found[1][0]))

    def _move(self, change: Change) -> None:
        self._charge(change)
        self._moved.append(change)
        for state in self._judges:
            state.follow(change)

    def _undo(self, to: int) -> None:
        """The matrix first: it must be right again whatever a plugin's state does."""
        opposite = [Change(each.row, each.pod, -each.sign) for each in reversed(self._moved[to:])]
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

    def _charge(self, change: Change) -> None:
        if change.pod is not None:
            self._matrix.charge(change.row, change.pod, change.sign)
