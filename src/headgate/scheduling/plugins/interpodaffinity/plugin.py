"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

Terms apply in both directions: the terms of existing pods (pods on nodes) are also checked against the incoming pod.
The shape of a pod with terms includes its namespace and labels, and the plugin's states for this shape are updated when
terms of existing pods are added or removed. A pod without terms is evaluated separately from the other pods of its
shape only while terms of existing pods match it: those terms are its ``key``. Without such terms the plugin costs
nothing. ``term_counts.py`` counts, ``queueing_hints.py`` wakes waiting pods.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from headgate.scheduling.cache.existing_terms import REQUIRED_ANTI_AFFINITY, ExistingTerm
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.types import InterPodAffinityArgs
from headgate.scheduling.framework.interface import READS_PODS, SKIP, FilterReason, Reads, Skip
from headgate.scheduling.framework.normalize_score import MAX_SCORE
from headgate.scheduling.plugins.interpodaffinity.queueing_hints import events_to_register
from headgate.scheduling.plugins.interpodaffinity.term_counts import PreferredTermCounts, RequiredTermCounts
from headgate.scheduling.plugins.interpodaffinity.terms import IncomingTerm, MatchingTerms, namespace_selectors
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "InterPodAffinity"
REASONS: Final = (
    # Preemption only removes pods, so it cannot satisfy affinity.
    FilterReason("node(s) didn't match pod affinity rules", unresolvable=True),
    FilterReason("node(s) didn't match pod anti-affinity rules"),
    FilterReason("node(s) didn't satisfy existing pods anti-affinity rules"),
)


class InterPodAffinity:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, args: InterPodAffinityArgs, cluster: Cluster) -> None:
        self._args = args
        self._namespaces = cluster.namespaces
        self._terms = cluster.matrix.terms
        self._shape_infos: WeakKeyDictionary[PodShape, _ShapeInfo] = WeakKeyDictionary()

    # -- inputs of results --------------------------------------------------------------------------------------------

    def key(self, pod: PodInfo, /) -> Hashable:
        if not self._terms or _has_terms(pod.shape):
            return None
        return tuple(self._find_matching(pod)) or None

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        """Versions of the namespace labels that the shape's own terms, and the terms of existing pods, depend on, and
        whether the shape is scored: most pods with terms only have required anti-affinity and are not."""
        if not _has_terms(shape):
            return None
        info = self._shape_infos.get(shape)
        if info is None:
            info = self._shape_infos[shape] = _ShapeInfo(shape)
        namespaces = self._namespaces
        changed = namespaces.version_of(shape.namespace)
        if info.versions != (changed, self._terms.version):
            info.versions = (changed, self._terms.version)
            info.is_scored = self._is_scored(shape)
        return info.is_scored, changed, *map(namespaces.selected, info.selectors)

    def _is_scored(self, shape: PodShape) -> bool:
        if _has_preferred_terms(shape):
            return True
        found = self._terms.matching(shape.namespace, shape.labels or {}, self._namespaces.labels(shape.namespace))
        return self._counts_preferences(shape) and any(map(self._weight_of, found))

    def _find_matching(self, pod: PodInfo) -> list[ExistingTerm]:
        """The terms of existing pods that match the pod and affect its result."""
        found = self._terms.matching(pod.namespace, pod.labels, self._namespaces.labels(pod.namespace))
        return [
            each
            for each in found
            if each.role == REQUIRED_ANTI_AFFINITY or (self._weight_of(each) and self._counts_preferences(pod.shape))
        ]

    def _matching_terms(self, pod: PodInfo, existing_terms: list[ExistingTerm]) -> MatchingTerms:
        identity = (pod.namespace, pod.labels, self._namespaces.labels(pod.namespace))
        return MatchingTerms(existing_terms, identity if _has_terms(pod.shape) else None)

    def _counts_preferences(self, shape: PodShape) -> bool:
        """Whether preferred terms of existing pods count: by option, only for pods with preferred terms."""
        return not self._args.ignore_preferred_terms_of_existing_pods or _has_preferred_terms(shape)

    def _weight_of(self, existing_term: ExistingTerm) -> int:
        match existing_term.role:
            case "required affinity":
                return self._args.hard_pod_affinity_weight
            case "preferred affinity":
                return existing_term.term.weight
            case "preferred anti-affinity":
                return -existing_term.term.weight
            case "required anti-affinity":
                return 0

    # -- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | RequiredTermCounts:
        anti_affinity_of_existing = [each for each in self._find_matching(pod) if each.role == REQUIRED_ANTI_AFFINITY]
        if not anti_affinity_of_existing and not _has_terms(pod.shape):
            return SKIP
        affinity = tuple(IncomingTerm(each, self._namespaces) for each in pod.shape.affinity.required)
        anti = tuple(IncomingTerm(each, self._namespaces) for each in pod.shape.anti_affinity.required)
        counts = RequiredTermCounts(matrix, pod, affinity, anti, self._matching_terms(pod, anti_affinity_of_existing))
        counts.fill(anti_affinity_of_existing)
        return counts

    def filter(
        self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: RequiredTermCounts, /
    ) -> Ints | None:
        return state.rejected(rows)

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    # -- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreferredTermCounts:
        existing_terms = [each for each in self._find_matching(pod) if each.role != REQUIRED_ANTI_AFFINITY]
        if not existing_terms and not _has_preferred_terms(pod.shape):
            return SKIP
        preferred = (
            *(IncomingTerm(each, self._namespaces) for each in pod.shape.affinity.preferred),
            *(IncomingTerm(each, self._namespaces, -1) for each in pod.shape.anti_affinity.preferred),
        )
        counts = PreferredTermCounts(matrix, preferred, self._matching_terms(pod, existing_terms), self._weight_of)
        counts.fill(existing_terms)
        return counts

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: PreferredTermCounts, /) -> Ints:
        return state.scores(rows)

    def scale(self, feasible: Ints, /) -> Hashable:
        return (int(feasible.min()), int(feasible.max())) if len(feasible) else (0, 0)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        lowest, highest = scale
        if highest <= lowest:
            return np.zeros_like(raw)
        # Divided first, then multiplied, in floating point: kube-scheduler's rounding.
        scores: Ints = (MAX_SCORE * ((raw - lowest) / (highest - lowest))).astype(np.int64)
        return scores

    # -- queueing hints -----------------------------------------------------------------------------------------------

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return events_to_register(shape, self._namespaces, self._terms)


class _ShapeInfo:
    """What ``stamp`` reads of a shape with terms, cached."""

    def __init__(self, shape: PodShape) -> None:
        self.selectors = namespace_selectors(shape)
        self.versions = (-1, -1)
        """The versions of its namespace and of the existing terms for which ``is_scored`` was computed."""
        self.is_scored = False


def _has_terms(shape: PodShape) -> bool:
    return shape.labels is not None and bool(shape.affinity or shape.anti_affinity)


def _has_preferred_terms(shape: PodShape) -> bool:
    return bool(shape.affinity.preferred or shape.anti_affinity.preferred)
