"""The states of InterPodAffinity: the number of matching pods, or the sum of their weights, in each topology domain.

``pre_filter`` and ``pre_score`` make a state for one shape. It is computed once, from the label groups and the terms
that match (``scheduling/cache/``); later an added or removed pod updates only its own domain (``follow``). ``follow``
returns only rows whose result can differ: a count became zero or nonzero, or the score changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

import numpy as np

from headgate.scheduling.cache.change_log import NodeChange
from headgate.scheduling.cache.existing_terms import REQUIRED_ANTI_AFFINITY, ExistingTerm, ExistingTermIndex
from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.plugins.interpodaffinity.domains import NO_DOMAIN, AffinityDomains, TopologyCounts
from headgate.scheduling.plugins.interpodaffinity.terms import IncomingTerm, MatchingTerms, matches_all, rows_matching

LACKS_AFFINITY: Final = 1
BREAKS_ANTI_AFFINITY: Final = 2
BREAKS_EXISTING: Final = 4

_MAX_CACHED: Final = 4096

CountsByKey = dict[str, TopologyCounts]
"""The counts for each topology key."""

Contribution = tuple[tuple[TopologyCounts, int], ...]
"""The counts that a pod on a node adds to, each with the amount."""

ExtraRows = Iterable[int] | None
"""Rows whose result may have changed; ``None`` for all rows."""


class _Counts(ABC):
    def __init__(self, matrix: NodeMatrix, matching_terms: MatchingTerms) -> None:
        self._matrix = matrix
        self._matching_terms = matching_terms
        self._terms: ExistingTermIndex = matrix.terms
        self._domains: dict[str, AffinityDomains] = {}
        self._all_counts: list[TopologyCounts] = []
        self._contributions: dict[int, Contribution] = {}

    def _counts_for(self, counts_by_key: CountsByKey, key: str) -> TopologyCounts:
        found = counts_by_key.get(key)
        if found is None:
            domains = self._domains.get(key)
            if domains is None:
                domains = self._domains[key] = AffinityDomains(self._matrix, key)
            found = counts_by_key[key] = TopologyCounts(domains)
            self._all_counts.append(found)
        return found

    def follow(self, change: NodeChange, /) -> ExtraRows:
        row, pod = change.row, change.pod
        if pod is None:
            return self._move(row)
        contribution = self._contribution_of(pod)
        if not contribution:
            return ()
        affected_rows: list[ExtraRows] = []
        for counts, amount in contribution:
            before, after = counts.add(row, change.sign * amount)
            if self._changes_result(before, after):
                affected_rows.append(counts.domains.other_rows(int(counts.domains.domain_of_row[row]), row))
        return _union(affected_rows)

    def _contribution_of(self, pod: PodInfo) -> Contribution:
        """The contribution of a pod. It is cached by shape if the shape has the pod's labels."""
        shape = pod.shape
        if shape.labels is None:
            return self._find_contribution(pod, ())
        found = self._contributions.get(shape.number)
        if found is None:
            if len(self._contributions) >= _MAX_CACHED:
                self._contributions.clear()
            found = self._contributions[shape.number] = self._find_contribution(pod, self._terms.of(shape))
        return found

    @abstractmethod
    def _find_contribution(self, pod: PodInfo, existing_terms: tuple[ExistingTerm, ...]) -> Contribution:
        """The contribution of an added pod; ``existing_terms`` are the pod's own terms."""

    @abstractmethod
    def _changes_result(self, before: int, after: int) -> bool:
        """Whether this change of a domain's count changes the result or score of its rows."""

    def _move(self, row: int) -> ExtraRows:
        """The node of a row changed: its counts move to the new domain."""
        affected_rows: list[ExtraRows] = []
        for domains in self._domains.values():
            old, new = domains.refresh_row(row)
            if old == new:
                continue
            amounts = [each.move_row(row, old, new) for each in self._all_counts if each.domains is domains]
            if any(amounts):
                affected_rows += [domains.other_rows(old, row), domains.other_rows(new, row)]
        return _union(affected_rows)


def _union(affected_rows: list[ExtraRows]) -> ExtraRows:
    found: list[Iterable[int]] = []
    for each in affected_rows:
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
        matching_terms: MatchingTerms,
    ) -> None:
        super().__init__(matrix, matching_terms)
        self._affinity = affinity
        self._anti = anti
        self._matches_itself = bool(affinity) and matches_all(affinity, pod.namespace, pod.labels)
        self._affinity_counts: CountsByKey = {}
        self._anti_affinity_counts: CountsByKey = {}
        self._existing_counts: CountsByKey = {}

    def fill(self, anti_affinity_of_existing: Iterable[ExistingTerm]) -> None:
        if self._affinity:
            # A pod counts if it matches all terms, and then in the domain of each.
            rows = rows_matching(self._matrix.label_groups, self._affinity)
            for term in self._affinity:
                self._counts_for(self._affinity_counts, term.topology_key).fill(rows)
        for term in self._anti:
            self._counts_for(self._anti_affinity_counts, term.topology_key).fill(
                rows_matching(self._matrix.label_groups, (term,))
            )
        for each in anti_affinity_of_existing:
            self._counts_for(self._existing_counts, each.term.topology_key).fill(self._terms.rows(each))

    def follow(self, change: NodeChange, /) -> ExtraRows:
        if not self._matches_itself:
            return super().follow(change)
        was_first_pod = self._is_first_pod()
        extra_rows = super().follow(change)
        return extra_rows if self._is_first_pod() == was_first_pod else None

    def _is_first_pod(self) -> bool:
        """Whether the affinity terms match the incoming pod itself and no pod on a node: then the pod may be scheduled
        as the first one of its group."""
        return self._matches_itself and not any(each.total for each in self._affinity_counts.values())

    def _find_contribution(self, pod: PodInfo, existing_terms: tuple[ExistingTerm, ...]) -> Contribution:
        found: list[TopologyCounts] = []
        if self._affinity and matches_all(self._affinity, pod.namespace, pod.labels):
            found += [self._affinity_counts[each.topology_key] for each in self._affinity]
        found += [
            self._anti_affinity_counts[each.topology_key]
            for each in self._anti
            if each.matches(pod.namespace, pod.labels)
        ]
        found += [
            self._counts_for(self._existing_counts, each.term.topology_key)
            for each in existing_terms
            if each.role == REQUIRED_ANTI_AFFINITY and each in self._matching_terms
        ]
        return tuple((each, 1) for each in found)

    def _changes_result(self, before: int, after: int) -> bool:
        return (before > 0) is not (after > 0)

    def rejected(self, rows: Rows | None) -> Ints | None:
        """Per row the first of the three reasons that applies; 0 if none does."""
        size = self._matrix.size
        bits: Ints = np.zeros(size if rows is None else len(rows), np.int64)
        for counts in self._existing_counts.values():
            if counts.total:
                bits[counts.at(rows, size) > 0] = BREAKS_EXISTING
        for counts in self._anti_affinity_counts.values():
            if counts.total:
                bits[counts.at(rows, size) > 0] = BREAKS_ANTI_AFFINITY
        is_first_pod = self._is_first_pod()
        for counts in self._affinity_counts.values():
            domains = counts.domains.domain_of_row[:size] if rows is None else counts.domains.domain_of_row[rows]
            lacks: Mask = domains == NO_DOMAIN if is_first_pod else counts.at(rows, size) <= 0
            bits[lacks] = LACKS_AFFINITY
        return bits if bits.any() else None


class PreferredTermCounts(_Counts):
    """Counts for the score: weights instead of numbers. ``weight_of`` returns the weight of an existing pod's term."""

    def __init__(
        self,
        matrix: NodeMatrix,
        preferred: tuple[IncomingTerm, ...],
        matching_terms: MatchingTerms,
        weight_of: Callable[[ExistingTerm], int],
    ) -> None:
        super().__init__(matrix, matching_terms)
        self._preferred = preferred
        self._weight_of = weight_of
        self._by_key: CountsByKey = {}

    def fill(self, existing_terms: Iterable[ExistingTerm]) -> None:
        for term in self._preferred:
            rows = rows_matching(self._matrix.label_groups, (term,))
            self._counts_for(self._by_key, term.topology_key).fill(rows, term.weight)
        for each in existing_terms:
            self._counts_for(self._by_key, each.term.topology_key).fill(self._terms.rows(each), self._weight_of(each))

    def _find_contribution(self, pod: PodInfo, existing_terms: tuple[ExistingTerm, ...]) -> Contribution:
        found = [
            (each.topology_key, each.weight) for each in self._preferred if each.matches(pod.namespace, pod.labels)
        ]
        found += [
            (each.term.topology_key, weight)
            for each in existing_terms
            if (weight := self._weight_of(each)) and each in self._matching_terms
        ]
        return tuple((self._counts_for(self._by_key, key), weight) for key, weight in found)

    def _changes_result(self, before: int, after: int) -> bool:
        return before != after

    def scores(self, rows: Rows | None) -> Ints:
        size = self._matrix.size
        total: Ints = np.zeros(size if rows is None else len(rows), np.int64)
        for counts in self._by_key.values():
            total += counts.at(rows, size)
        return total
