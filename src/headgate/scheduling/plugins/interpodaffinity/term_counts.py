"""States of InterPodAffinity: the number of pods that attract or repel in each topology domain, updated by changes.

A state is computed once per shape from the indexed pods that matter; later an added or removed pod costs its own
domain. Only changes that can alter a result are reported: a count that becomes zero or nonzero, or another score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

import numpy as np

from headgate.scheduling.cache.change_log import NodeChange
from headgate.scheduling.cache.existing_terms import REPELS, ExistingTerm, ExistingTermIndex
from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.plugins.interpodaffinity.domains import NOWHERE, AffinityDomains, TopologyCounts
from headgate.scheduling.plugins.interpodaffinity.terms import IncomingTerm, MatchingTerms, matches_all, rows_matching

LACKS_AFFINITY: Final = 1
BREAKS_ANTI_AFFINITY: Final = 2
BREAKS_EXISTING: Final = 4

_REMEMBERED: Final = 4096

CountsByKey = dict[str, TopologyCounts]
"""By topology key."""

Effect = tuple[tuple[TopologyCounts, int], ...]
"""Where a pod counts, and how much."""

Further = Iterable[int] | None
"""Rows that may now be others; ``None`` for all."""


class _Counts(ABC):
    def __init__(self, matrix: NodeMatrix, meant: MatchingTerms) -> None:
        self._matrix = matrix
        self._meant = meant
        self._terms: ExistingTermIndex = matrix.terms
        self._domains: dict[str, AffinityDomains] = {}
        self._tallies: list[TopologyCounts] = []
        self._effects: dict[int, Effect] = {}

    def _tally(self, tallies: CountsByKey, key: str) -> TopologyCounts:
        found = tallies.get(key)
        if found is None:
            domains = self._domains.get(key)
            if domains is None:
                domains = self._domains[key] = AffinityDomains(self._matrix, key)
            found = tallies[key] = TopologyCounts(domains)
            self._tallies.append(found)
        return found

    def follow(self, change: NodeChange, /) -> Further:
        row, pod = change.row, change.pod
        if pod is None:
            return self._move(row)
        effect = self._effect(pod)
        if not effect:
            return ()
        touched: list[Further] = []
        for tally, amount in effect:
            before, after = tally.add(row, change.sign * amount)
            if self._is_news(before, after):
                touched.append(tally.domains.rows(int(tally.domains.place[row]), row))
        return _joined(touched)

    def _effect(self, pod: PodInfo) -> Effect:
        """Where the shape says all that counts, which is often so, the answer is remembered."""
        shape = pod.shape
        if shape.labels is None:
            return self._find_effect(pod, ())
        found = self._effects.get(shape.number)
        if found is None:
            if len(self._effects) >= _REMEMBERED:
                self._effects.clear()
            found = self._effects[shape.number] = self._find_effect(pod, self._terms.of(shape))
        return found

    @abstractmethod
    def _find_effect(self, pod: PodInfo, carried: tuple[ExistingTerm, ...]) -> Effect:
        """Of a pod that comes; ``carried`` are its terms."""

    @abstractmethod
    def _is_news(self, before: int, after: int) -> bool:
        """Whether such a change in a domain moves the verdict or score of its rows."""

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


class RequiredTermCounts(_Counts):
    """Counts for the filter. ``pod`` is the incoming pod; its own terms are those of its shape."""

    def __init__(
        self,
        matrix: NodeMatrix,
        pod: PodInfo,
        affinity: tuple[IncomingTerm, ...],
        anti: tuple[IncomingTerm, ...],
        meant: MatchingTerms,
    ) -> None:
        super().__init__(matrix, meant)
        self._affinity = affinity
        self._anti = anti
        self._is_own_kind = bool(affinity) and matches_all(affinity, pod.namespace, pod.labels)
        self._near: CountsByKey = {}
        self._away: CountsByKey = {}
        self._repelled: CountsByKey = {}

    def fill(self, repelling: Iterable[ExistingTerm]) -> None:
        if self._affinity:
            # A pod counts if it matches all terms, and then in the domain of each.
            rows = rows_matching(self._matrix.cohorts, self._affinity)
            for term in self._affinity:
                self._tally(self._near, term.topology_key).fill(rows)
        for term in self._anti:
            self._tally(self._away, term.topology_key).fill(rows_matching(self._matrix.cohorts, (term,)))
        for each in repelling:
            self._tally(self._repelled, each.term.topology_key).fill(self._terms.rows(each))

    def follow(self, change: NodeChange, /) -> Further:
        if not self._is_own_kind:
            return super().follow(change)
        was_alone = self._is_alone()
        further = super().follow(change)
        return further if self._is_alone() == was_alone else None

    def _is_alone(self) -> bool:
        """Nobody it wants to be near is anywhere, but it is such a pod itself: the first of its kind may go ahead."""
        return self._is_own_kind and not any(each.total for each in self._near.values())

    def _find_effect(self, pod: PodInfo, carried: tuple[ExistingTerm, ...]) -> Effect:
        hit: list[TopologyCounts] = []
        if self._affinity and matches_all(self._affinity, pod.namespace, pod.labels):
            hit += [self._near[each.topology_key] for each in self._affinity]
        hit += [self._away[each.topology_key] for each in self._anti if each.matches(pod.namespace, pod.labels)]
        hit += [
            self._tally(self._repelled, each.term.topology_key)
            for each in carried
            if each.role == REPELS and each in self._meant
        ]
        return tuple((each, 1) for each in hit)

    def _is_news(self, before: int, after: int) -> bool:
        return (before > 0) is not (after > 0)

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


class PreferredTermCounts(_Counts):
    """Counts for the score: weights instead of numbers. ``weigh`` returns the weight of an existing pod's term."""

    def __init__(
        self,
        matrix: NodeMatrix,
        wishes: tuple[IncomingTerm, ...],
        meant: MatchingTerms,
        weigh: Callable[[ExistingTerm], int],
    ) -> None:
        super().__init__(matrix, meant)
        self._wishes = wishes
        self._weigh = weigh
        self._by_key: CountsByKey = {}

    def fill(self, carried: Iterable[ExistingTerm]) -> None:
        for term in self._wishes:
            rows = rows_matching(self._matrix.cohorts, (term,))
            self._tally(self._by_key, term.topology_key).fill(rows, term.weight)
        for each in carried:
            self._tally(self._by_key, each.term.topology_key).fill(self._terms.rows(each), self._weigh(each))

    def _find_effect(self, pod: PodInfo, carried: tuple[ExistingTerm, ...]) -> Effect:
        hit = [(each.topology_key, each.weight) for each in self._wishes if each.matches(pod.namespace, pod.labels)]
        hit += [
            (each.term.topology_key, weight)
            for each in carried
            if (weight := self._weigh(each)) and each in self._meant
        ]
        return tuple((self._tally(self._by_key, key), weight) for key, weight in hit)

    def _is_news(self, before: int, after: int) -> bool:
        return before != after

    def scores(self, rows: Rows | None) -> Ints:
        size = self._matrix.size
        total: Ints = np.zeros(size if rows is None else len(rows), np.int64)
        for tally in self._by_key.values():
            total += tally.at(rows, size)
        return total
