"""InterPodAffinity: pods that must, must not, would like to or would rather not run near other pods.

Terms bind both ways: a pod is also kept from where a pod is that does not want it near, and drawn to where one is that
does. A pod with terms of its own has its namespace and labels in its shape, and its states follow whatever terms come
and go. A pod without any is asked about apart only while terms on some node mean it: those are its ``key``. So as long
as there are no such terms, this costs nothing. Counting and waking are in ``plugins/nearness/``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from headgate.scheduling.carried import REPELS, Carried
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.configuration.values import InterPodAffinityArgs
from headgate.scheduling.contract import READS_PODS, SKIP, Reads, Reason, Skip
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.normalizing import MAX_SCORE
from headgate.scheduling.plugins.nearness.counts import PreferredCounts, RequiredCounts
from headgate.scheduling.plugins.nearness.guards import wakers
from headgate.scheduling.plugins.nearness.terms import Meant, Sought, namespace_selectors
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "InterPodAffinity"
REASONS: Final = (
    # Taking pods away makes no pod come near, so preemption cannot help with the first.
    Reason("node(s) didn't match pod affinity rules", unresolvable=True),
    Reason("node(s) didn't match pod anti-affinity rules"),
    Reason("node(s) didn't satisfy existing pods anti-affinity rules"),
)


class InterPodAffinity:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, args: InterPodAffinityArgs, cluster: Cluster) -> None:
        self._args = args
        self._namespaces = cluster.namespaces
        self._terms = cluster.matrix.terms
        self._facts: WeakKeyDictionary[Shape, _Facts] = WeakKeyDictionary()

    # -- what an answer depends on ------------------------------------------------------------------------------------

    def key(self, pod: Pod, /) -> Hashable:
        if not self._terms or _has_terms(pod.shape):
            return None
        return tuple(self._meaning(pod)) or None

    def stamp(self, shape: Shape, matrix: NodeMatrix, /) -> Hashable:
        """The labels of namespaces, as far as the shape's own terms or those that may mean it look at them.

        And whether there is anything to score by: most pods with terms only have and meet required anti-affinity.
        """
        if not _has_terms(shape):
            return None
        facts = self._facts.get(shape)
        if facts is None:
            facts = self._facts[shape] = _Facts(shape)
        namespaces = self._namespaces
        changed = namespaces.changed(shape.namespace)
        if facts.seen != (changed, self._terms.version):
            facts.seen = (changed, self._terms.version)
            facts.is_scored = self._is_scored(shape)
        return facts.is_scored, changed, *map(namespaces.selected, facts.selectors)

    def _is_scored(self, shape: Shape) -> bool:
        if _has_wishes(shape):
            return True
        found = self._terms.matching(shape.namespace, shape.labels or {}, self._namespaces.labels(shape.namespace))
        return self._scores(shape) and any(map(self._weigh, found))

    def _meaning(self, pod: Pod) -> list[Carried]:
        """The carried terms that mean a pod, as far as they count here."""
        found = self._terms.matching(pod.namespace, pod.labels, self._namespaces.labels(pod.namespace))
        return [each for each in found if each.role == REPELS or (self._weigh(each) and self._scores(pod.shape))]

    def _meant(self, pod: Pod, known: list[Carried]) -> Meant:
        identity = (pod.namespace, pod.labels, self._namespaces.labels(pod.namespace))
        return Meant(known, identity if _has_terms(pod.shape) else None)

    def _scores(self, shape: Shape) -> bool:
        """Whether preferences count at all: if those of others are ignored, then only for pods that have some."""
        return not self._args.ignore_preferred_terms_of_existing_pods or _has_wishes(shape)

    def _weigh(self, carried: Carried) -> int:
        match carried.role:
            case "attracts":
                return self._args.hard_pod_affinity_weight
            case "likes":
                return carried.term.weight
            case "dislikes":
                return -carried.term.weight
            case "repels":
                return 0

    # -- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | RequiredCounts:
        repelling = [each for each in self._meaning(pod) if each.role == REPELS]
        if not repelling and not _has_terms(pod.shape):
            return SKIP
        affinity = tuple(Sought(each, self._namespaces) for each in pod.shape.affinity.required)
        anti = tuple(Sought(each, self._namespaces) for each in pod.shape.anti_affinity.required)
        counts = RequiredCounts(matrix, pod, affinity, anti, self._meant(pod, repelling))
        counts.fill(repelling)
        return counts

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: RequiredCounts, /) -> Ints | None:
        return state.rejected(rows)

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    # -- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | PreferredCounts:
        carried = [each for each in self._meaning(pod) if each.role != REPELS]
        if not carried and not _has_wishes(pod.shape):
            return SKIP
        wishes = (
            *(Sought(each, self._namespaces) for each in pod.shape.affinity.preferred),
            *(Sought(each, self._namespaces, -1) for each in pod.shape.anti_affinity.preferred),
        )
        counts = PreferredCounts(matrix, wishes, self._meant(pod, carried), self._weigh)
        counts.fill(carried)
        return counts

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: PreferredCounts, /) -> Ints:
        return state.scores(rows)

    def scale(self, feasible: Ints, /) -> Hashable:
        return (int(feasible.min()), int(feasible.max())) if len(feasible) else (0, 0)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        least, most = scale
        if most <= least:
            return np.zeros_like(raw)
        # Divided first, then multiplied, in floating point: kube-scheduler's rounding.
        scores: Ints = (MAX_SCORE * ((raw - least) / (most - least))).astype(np.int64)
        return scores

    # -- waking -------------------------------------------------------------------------------------------------------

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return wakers(shape, self._namespaces, self._terms)


class _Facts:
    """What was found out about a shape with terms of its own."""

    def __init__(self, shape: Shape) -> None:
        self.selectors = namespace_selectors(shape)
        self.seen = (-1, -1)
        """The version of its namespace, and of the carried terms, that ``is_scored`` is true of."""
        self.is_scored = False


def _has_terms(shape: Shape) -> bool:
    return shape.labels is not None and bool(shape.affinity or shape.anti_affinity)


def _has_wishes(shape: Shape) -> bool:
    return bool(shape.affinity.preferred or shape.anti_affinity.preferred)
