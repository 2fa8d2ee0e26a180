"""The states of InterPodAffinity: how many pods attract or repel in each topology domain, carried along with changes.

Made once per shape from all pods that matter, found by index; from then on a pod that comes or goes costs its own
domain. Only what can move a verdict is reported: a count that leaves or reaches zero, a score that is another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

import numpy as np

from headgate.scheduling.carried import REPELS, Carried, CarriedTerms
from headgate.scheduling.changes import Change
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.labels import Mask
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.plugins.domains import NOWHERE, Domains, Tally
from headgate.scheduling.plugins.pod_terms import Meant, Sought, matches_all, rows_matching
from headgate.scheduling.pod import Pod

LACKS_AFFINITY: Final = 1
BREAKS_ANTI_AFFINITY: Final = 2
BREAKS_EXISTING: Final = 4

Tallies = dict[str, Tally]
"""By topology key."""

Further = Iterable[int] | None
"""Rows that may now be others; ``None`` for all."""


class _Counts:
    def __init__(self, matrix: NodeMatrix) -> None:
        self._matrix = matrix
        self._terms: CarriedTerms = matrix.terms
        self._domains: dict[str, Domains] = {}
        self._tallies: list[Tally] = []

    def _tally(self, tallies: Tallies, key: str) -> Tally:
        found = tallies.get(key)
        if found is None:
            domains = self._domains.get(key)
            if domains is None:
                domains = self._domains[key] = Domains(self._matrix, key)
            found = tallies[key] = Tally(domains)
            self._tallies.append(found)
        return found

    def _carried(self, pod: Pod) -> tuple[Carried, ...]:
        return () if pod.shape.labels is None else self._terms.of(pod.shape)

    def _move(self, row: int) -> Further:
        """A node is another: what is on it now counts where that is."""
        touched: list[Further] = []
        for domains in self._domains.values():
            old, new = domains.move(row)
            if old == new:
                continue
            amounts = [each.move(row, old, new) for each in self._tallies if each.domains is domains]
            if any(amounts):
                touched += [domains.rows(old, row), domains.rows(new, row)]
        return _joined(touched)


def _joined(touched: list[Further]) -> Further:
    found: list[Iterable[int]] = []
    for each in touched:
        if each is None:
            return None
        found.append(each)
    return chain.from_iterable(found)


class RequiredCounts(_Counts):
    """What filters ask. ``pod`` is the one to be placed; terms of its own are those of its shape."""

    def __init__(
        self, matrix: NodeMatrix, pod: Pod, affinity: tuple[Sought, ...], anti: tuple[Sought, ...], meant: Meant
    ) -> None:
        super().__init__(matrix)
        self._affinity = affinity
        self._anti = anti
        self._meant = meant
        self._is_own_kind = bool(affinity) and matches_all(affinity, pod.namespace, pod.labels)
        self._near: Tallies = {}
        self._away: Tallies = {}
        self._repelled: Tallies = {}

    def fill(self, repelling: Iterable[Carried]) -> None:
        if self._affinity:
            # A pod counts if it matches all terms, and then in the domain of each.
            rows = rows_matching(self._matrix.cohorts, self._affinity)
            for term in self._affinity:
                self._tally(self._near, term.topology_key).fill(rows)
        for term in self._anti:
            self._tally(self._away, term.topology_key).fill(rows_matching(self._matrix.cohorts, (term,)))
        for each in repelling:
            self._tally(self._repelled, each.term.topology_key).fill(self._terms.rows(each))

    def follow(self, change: Change, /) -> Further:
        was_alone = self._is_alone()
        further = self._move(change.row) if change.pod is None else self._count(change.row, change.pod, change.sign)
        return None if self._is_alone() != was_alone else further

    def _is_alone(self) -> bool:
        """Nobody it wants to be near is anywhere, but it is such a pod itself: the first of its kind may go ahead."""
        return self._is_own_kind and not any(each.total for each in self._near.values())

    def _count(self, row: int, pod: Pod, sign: int) -> Further:
        hit: list[Tally] = []
        if self._affinity and matches_all(self._affinity, pod.namespace, pod.labels):
            hit += [self._near[each.topology_key] for each in self._affinity]
        hit += [self._away[each.topology_key] for each in self._anti if each.matches(pod.namespace, pod.labels)]
        hit += [
            self._tally(self._repelled, each.term.topology_key)
            for each in self._carried(pod)
            if each.role == REPELS and each in self._meant
        ]
        touched: list[Further] = []
        for tally in hit:
            before, after = tally.add(row, sign)
            if (before > 0) != (after > 0):
                touched.append(tally.domains.rows(int(tally.domains.place[row]), row))
        return _joined(touched)

    def rejected(self, rows: Rows | None) -> Ints | None:
        """Per row the reason that counts, the first of the three."""
        size = self._matrix.size
        bits: Ints = np.zeros(size if rows is None else len(rows), np.int64)
        for tally in self._repelled.values():
            if tally.total:
                bits[tally.at(rows, size) > 0] = BREAKS_EXISTING
        for tally in self._away.values():
            if tally.total:
                bits[tally.at(rows, size) > 0] = BREAKS_ANTI_AFFINITY
        is_alone = self._is_alone()
        for tally in self._near.values():
            place = tally.domains.place[:size] if rows is None else tally.domains.place[rows]
            lacks: Mask = place == NOWHERE if is_alone else tally.at(rows, size) <= 0
            bits[lacks] = LACKS_AFFINITY
        return bits if bits.any() else None


class PreferredCounts(_Counts):
    """What scores ask: weights instead of numbers. ``weigh`` gives those of carried terms, or zero."""

    def __init__(
        self, matrix: NodeMatrix, wishes: tuple[Sought, ...], meant: Meant, weigh: Callable[[Carried], int]
    ) -> None:
        super().__init__(matrix)
        self._wishes = wishes
        self._meant = meant
        self._weigh = weigh
        self._by_key: Tallies = {}

    def fill(self, carried: Iterable[Carried]) -> None:
        for term in self._wishes:
            self._tally(self._by_key, term.topology_key).fill(
                rows_matching(self._matrix.cohorts, (term,)), factor=term.weight
            )
        for each in carried:
            if weight := self._weigh(each):
                self._tally(self._by_key, each.term.topology_key).fill(self._terms.rows(each), factor=weight)

    def follow(self, change: Change, /) -> Further:
        if change.pod is None:
            return self._move(change.row)
        row, pod, sign = change.row, change.pod, change.sign
        hit = [(each.topology_key, each.weight) for each in self._wishes if each.matches(pod.namespace, pod.labels)] + [
            (each.term.topology_key, weight)
            for each in self._carried(pod)
            if (weight := self._weigh(each)) and each in self._meant
        ]
        touched: list[Further] = []
        for key, weight in hit:
            tally = self._tally(self._by_key, key)
            tally.add(row, sign * weight)
            touched.append(tally.domains.rows(int(tally.domains.place[row]), row))
        return _joined(touched)

    def scores(self, rows: Rows | None) -> Ints:
        size = self._matrix.size
        total: Ints = np.zeros(size if rows is None else len(rows), np.int64)
        for tally in self._by_key.values():
            total += tally.at(rows, size)
        return total
