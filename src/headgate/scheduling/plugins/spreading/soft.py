"""Soft spreading: nodes in domains with fewer pods are better.

A node's raw score is the number of pods in its domain, summed over the constraints, and the less the better. A domain
of a topology with many domains weighs more, by a logarithm, since counts there are small. Which domains there are
depends on the feasible nodes, so the state sees them. Where the topology is the node itself only pods on that very node
count. Nodes that lack a topology key score nothing, unless the constraints are Kubernetes' own defaults.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headgate.scheduling.changes import Change
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.labels import ABSENT, Ids, Mask
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.parts import SpreadConstraint
from headgate.scheduling.plugins.spreading.counts import Domains, Tally, tallies
from headgate.scheduling.plugins.spreading.rules import HOSTNAME, Rules
from headgate.scheduling.shape import Shape

IGNORED: Final = -1
"""The raw score of a node that is not scored."""

Floats = NDArray[np.float64]


class SoftSpread:
    """All soft constraints of one shape.

    Pods are counted when scores are first asked for: a pod that can go to one node only never asks. Trials, which do
    not ask for scores either, before that are not counted, and neither is their end.
    """

    def __init__(self, rules: Rules, shape: Shape, matrix: NodeMatrix) -> None:
        self._rules = rules
        self._shape = shape
        self._matrix = matrix
        self._wishes: list[Wish] = []
        self._tallies: tuple[Tally, ...] = ()
        self._feasible: Mask = np.zeros(0, np.bool_)
        self._unread: set[int] = set()

    def follow(self, change: Change, /) -> Iterable[int] | None:
        pod, row = change.pod, change.row
        if not self._wishes:
            return None
        if pod is None:
            self._unread.add(row)
            return None
        moved = [each for each in self._tallies if each.counts(pod)]
        if not moved:
            return ()
        for tally in moved:
            tally.on_row[row] += change.sign
        if self._unread:
            return None
        touched = [each.add(row, change.sign) for each in self._wishes if each.tally in moved]
        further: list[int] = []
        for rows in touched:
            if rows is None:
                return None
            further += rows
        return further

    def see(self, mask: Mask, /) -> bool:
        self._feasible = mask.copy()
        self._settle()
        return self._weigh()

    def raw_scores(self, rows: Rows | None) -> Ints:
        self._settle()
        where = slice(0, self._matrix.size) if rows is None else rows
        total: Floats = np.zeros(self._matrix.size if rows is None else len(rows))
        is_scored: Mask = np.ones(len(total), np.bool_)
        for each in self._wishes:
            has_label = each.labelled[where]
            total += np.where(has_label, each.scores(where), 0.0)
            is_scored &= has_label
        scores: Ints = np.floor(total + 0.5).astype(np.int64)
        if self._rules.needs_all_keys:
            scores[~is_scored] = IGNORED
        return scores

    def _settle(self) -> None:
        """Count for the first time, or look at nodes that changed."""
        if not self._wishes:
            made = tallies(self._rules, self._matrix)
            self._tallies = tuple(dict.fromkeys(made))
            self._wishes = [
                Wish(each, self._rules, self._shape, self._matrix, tally)
                for each, tally in zip(self._rules.constraints, made, strict=True)
            ]
        elif self._unread:
            unread = np.fromiter(self._unread, np.intp, count=len(self._unread))
            self._unread.clear()
            for each in self._wishes:
                each.read(unread)
        else:
            return
        self._weigh()

    def _weigh(self) -> bool:
        """Which domains do the feasible nodes have? Returns whether there are more or fewer than before."""
        rows = np.flatnonzero(self._feasible)
        if self._rules.needs_all_keys:
            for each in self._wishes:
                rows = rows[each.labelled[rows]]
        changed = [each for each in self._wishes if each.weigh(rows)]
        return bool(changed)


class Wish:
    """One constraint."""

    def __init__(
        self, constraint: SpreadConstraint, rules: Rules, shape: Shape, matrix: NodeMatrix, tally: Tally
    ) -> None:
        self.tally = tally
        self._matrix = matrix
        self._key = constraint.topology_key
        self._tolerance = float(constraint.max_skew - 1)
        self._weight = 0.0
        self._domains = None if self._key == HOSTNAME else Domains(constraint, rules, shape, matrix)
        self.labelled: Mask = np.zeros(matrix.capacity, np.bool_)
        self.read(None)

    def read(self, rows: Rows | None) -> None:
        where = slice(0, self._matrix.size) if rows is None else rows
        ids: Ids = self._matrix.labels.column(self._key).ids[where]
        self.labelled[where] = ids != ABSENT
        if self._domains is not None:
            self._domains.read(rows, self.tally.on_row)

    def add(self, row: int, sign: int) -> list[int] | None:
        """A pod came or went; returns the rows that score otherwise now, ``None`` if they are many."""
        domains = self._domains
        if domains is None:
            return [row]
        if not domains.counted[row]:
            return []
        domain = int(domains.ids[row])
        domains.counts[domain] += sign
        return domains.rows(domain, row)

    def weigh(self, feasible: Rows) -> bool:
        number = len(feasible) if self._domains is None else self._domains.number_among(feasible)
        weight = log(number + 2)
        is_other = weight != self._weight
        self._weight = weight
        return is_other

    def scores(self, where: slice | Rows) -> Floats:
        domains = self._domains
        if domains is None:
            return self.tally.on_row[where].astype(np.float64) * self._weight + self._tolerance
        # Rows without a domain read the last place; they are told apart by their label.
        table: Floats = np.append(domains.counts * self._weight + self._tolerance, 0.0)
        return table[domains.ids[where]]
