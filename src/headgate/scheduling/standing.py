"""How every node stands for one shape: who rejects it and why, and what it scores; carried along with every change.

Made once per shape with a few array operations over all nodes, then only rows that changed are asked about again. What
depends on the node object alone is kept apart from what depends on the pods there, so that a pod that was placed costs
one row of the latter. The best node is the largest of ``keys``, which hold score and rank of the name in one integer:
finding it is one pass over an array (3 us for 5,000 nodes), cheaper than keeping a heap in order while scores change.
The result is always that of asking all plugins about all nodes anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_NODE, READS_PODS, Stamped, Unplaced
from headgate.scheduling.labels import Mask
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.question import NO_NODE, PASSES, Orders, Question, ScoreStep, filter_rows, score_rows

_LARGE_PART: Final = 4  # when more than one in so many rows changed, all are asked about


class Standing:
    def __init__(self, question: Question, matrix: NodeMatrix, stamped: Sequence[Stamped] = ()) -> None:
        self.question = question
        self._matrix = matrix
        self._stamped = stamped
        self._normalized: tuple[ScoreStep, ...] = tuple(each for each in question.scores if each.normalize)
        self._normalizers = tuple(each.normalize for each in question.scores if each.normalize)
        self._raw_moves = any(each.plugin.reads == READS_PODS for each in self._normalized)
        self._build()

    # -- building and catching up -------------------------------------------------------------------------------

    def _build(self) -> None:
        matrix = self._matrix
        capacity = matrix.capacity
        self._position = matrix.log.position
        self._stamp = self._current_stamp()
        self.unplaced: Unplaced | None = None
        """What was said to the last pod that fitted nowhere, as long as nothing changes: the next is told the same."""
        self._node_order: Orders = np.full(capacity, NO_NODE, np.int8)
        self._node_bits: Ints = np.zeros(capacity, np.int64)
        self.order: Orders = np.full(capacity, NO_NODE, np.int8)
        self.bits: Ints = np.zeros(capacity, np.int64)
        self._node_sum: Ints = np.zeros(capacity, np.int64)
        self._pod_sum: Ints = np.zeros(capacity, np.int64)
        self._raw: list[Ints] = [np.zeros(capacity, np.int64) for _ in self._normalized]
        self._scales: list[Hashable] = [None for _ in self._normalized]
        self._base: Ints = np.zeros(capacity, np.int64)  # what the node objects alone add to the keys
        self.feasible: Mask = np.zeros(capacity, np.bool_)
        self._is_crowded = False  # whether any row may be rejected for the pods on it; if none is, none has to be freed
        self.keys: Ints = np.full(capacity, -1, np.int64)
        self._rank_names()
        self._look_at_nodes(None)
        self._look_at_pods(None, has_new_nodes=True)
        self._weigh(None, is_rescaled=self._rescale(), is_fixed=False)

    def _current_stamp(self) -> tuple[Hashable, ...]:
        return tuple([each.stamp(self.question.shape, self._matrix) for each in self._stamped])

    def _rank_names(self) -> None:
        self._layout = self._matrix.layout
        self._tail: Ints = self._matrix.capacity - 1 - self._matrix.rank

    def refresh(self) -> bool:
        """Catch up with the matrix; False if that cannot be done, and the question has to be asked anew."""
        matrix = self._matrix
        log = matrix.log
        if self._current_stamp() != self._stamp:
            return False
        if self._position == log.position:
            return True
        changes = log.since(self._position)
        if changes is None or len(self.keys) != matrix.capacity:
            return False
        self._position = log.position
        self.unplaced = None
        seen = {change.row for change in changes}
        nodes = {change.row for change in changes if change.pod is None}
        all_pods = False
        for state in self.question.followers:
            for change in changes:
                further = state.follow(change)
                if further is None:
                    all_pods = True
                else:
                    seen.update(further)
        if nodes:
            self._look_at_nodes(self._rows(nodes))
        rows = None if all_pods else self._rows(seen)
        is_moved, rows = self._look_at_pods(rows, has_new_nodes=bool(nodes))
        is_rescaled = (is_moved or bool(nodes)) and self._rescale()
        if self._layout != matrix.layout:
            self._rank_names()
        self._weigh(rows, is_rescaled=is_rescaled, is_fixed=not nodes)
        return True

    def _rows(self, rows: set[int]) -> Rows | None:
        if len(rows) * _LARGE_PART > self._matrix.size:
            return None
        return np.fromiter(rows, np.intp, count=len(rows))

    # -- asking the plugins -------------------------------------------------------------------------------------------

    def _look_at_nodes(self, rows: Rows | None) -> None:
        matrix, question = self._matrix, self.question
        where = slice(0, matrix.size) if rows is None else rows
        found = filter_rows(question.node_filters, question.shape, matrix, rows)
        if found is None:
            self._node_order[where] = PASSES
        else:
            self._node_order[where], self._node_bits[where] = found
        here = matrix.is_node[where]
        if not here.all():
            self._node_order[where] = np.where(here, self._node_order[where], NO_NODE)
        total: Ints = np.zeros(len(here), np.int64)
        for step in question.node_scores:
            score = score_rows(step, question.shape, matrix, rows)
            if step.normalize is None:
                total += step.weight * score
            else:
                self._raw[self._normalized.index(step)][where] = score
        self._node_sum[where] = total

    def _look_at_pods(self, rows: Rows | None, *, has_new_nodes: bool) -> tuple[bool, Rows | None]:
        """And put together what both kinds of plugin say.

        Returns whether relative scores may now be relative to something else, and the rows that have new scores.
        """
        matrix, question = self._matrix, self.question
        where = slice(0, matrix.size) if rows is None else rows
        found = filter_rows(question.pod_filters, question.shape, matrix, rows)
        if found is None and not self._is_crowded and not has_new_nodes:
            self._score_pods(rows)
            return self._raw_moves, rows
        self._is_crowded = found is not None or (self._is_crowded and rows is not None)
        order = self._node_order[where]
        if found is None:
            self.bits[where] = self._node_bits[where]
        else:
            earlier = (order < found[0]) | (order == NO_NODE)
            order = np.where(earlier, order, found[0])
            self.bits[where] = np.where(earlier, self._node_bits[where], found[1])
        self.order[where] = order
        feasible = order == PASSES
        is_moved = bool((feasible != self.feasible[where]).any())
        self.feasible[where] = feasible
        if is_moved:
            for state in question.watchers:
                if state.see(self.feasible[: matrix.size]):
                    rows = None
        self._score_pods(rows)
        return is_moved or self._raw_moves, rows

    def _score_pods(self, rows: Rows | None) -> None:
        question = self.question
        where = slice(0, self._matrix.size) if rows is None else rows
        total: Ints | None = None
        for step in question.pod_scores:
            score = score_rows(step, question.shape, self._matrix, rows)
            if step.normalize is not None:
                self._raw[self._normalized.index(step)][where] = score
                continue
            weighed = score if step.weight == 1 else step.weight * score
            total = weighed if total is None else total + weighed
        if total is not None:
            self._pod_sum[where] = total

    # -- putting scores together --------------------------------------------------------------------------------

    def _rescale(self) -> bool:
        """Look at what relative scores are relative to; whether that is another thing than before."""
        size = self._matrix.size
        feasible = self.feasible[:size]
        scales = [each.scale(raw[:size][feasible]) for each, raw in zip(self._normalizers, self._raw, strict=True)]
        is_other = scales != self._scales
        self._scales = scales
        return is_other

    def _weigh(self, rows: Rows | None, *, is_rescaled: bool, is_fixed: bool) -> None:
        """``is_fixed``: what depends on the node objects alone is as before."""
        size = self._matrix.size
        if is_rescaled or not is_fixed:
            rows = None
            fixed = self._node_sum[:size] + self._relative(slice(0, size), READS_NODE)
            self._base[:size] = fixed * len(self.keys) + self._tail[:size]
        where = slice(0, size) if rows is None else rows
        total = self._pod_sum[where]
        if self._raw_moves:
            total = total + self._relative(where, READS_PODS)
        keys = total * len(self.keys)
        keys += self._base[where]
        keys[~self.feasible[where]] = -1
        self.keys[where] = keys

    def _relative(self, where: slice | Rows, reads: int) -> Ints:
        total: Ints = np.zeros_like(self._node_sum[where])
        for i, (step, each) in enumerate(zip(self._normalized, self._normalizers, strict=True)):
            if step.plugin.reads == reads:
                total += step.weight * each.normalize(self._raw[i][where], self._scales[i])
        return total

    # -- answers ------------------------------------------------------------------------------------------------

    def best(self) -> int | None:
        """The row with the highest score, of equals the one with the least name."""
        keys = self.keys[: self._matrix.size]
        row = int(keys.argmax())
        return row if keys[row] >= 0 else None

    def best_of(self, rows: Rows) -> int | None:
        """The same among some feasible rows alone, with scores relative to those alone."""
        if not len(rows):
            return None
        raws = [each[rows] for each in self._raw]
        scales = [each.scale(raw) for each, raw in zip(self._normalizers, raws, strict=True)]
        if scales == self._scales:
            return int(rows[int(self.keys[rows].argmax())])
        total = self._node_sum[rows] + self._pod_sum[rows]
        for step, each, raw, scale in zip(self._normalized, self._normalizers, raws, scales, strict=True):
            total += step.weight * each.normalize(raw, scale)
        return int(rows[int((total * len(self.keys) + self._tail[rows]).argmax())])

    def score_of(self, row: int) -> int:
        """Of a feasible row: weighed and summed over all plugins, relative to all feasible nodes."""
        return int(self.keys[row]) // len(self.keys)
