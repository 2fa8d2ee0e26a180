"""NodeAffinity: rejects nodes that do not match a pod's node selector or required node affinity, and scores preferred
nodes.

If each required term names nodes, only those nodes are evaluated. ``added`` is the affinity that the scheduler's
configuration adds to every pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from headgate.kube.node_affinity import NodeSelector, PreferredSchedulingTerms
from headgate.scheduling.cache.node import NodeInfo
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import new_node, old_node
from headgate.scheduling.framework.interface import (
    READS_NODE,
    SKIP,
    FilterReason,
    PreFilterRejection,
    PreFilterResult,
    Reads,
    Skip,
    State,
)
from headgate.scheduling.framework.normalize_score import by_largest, largest
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "NodeAffinity"
REASONS: Final = (
    FilterReason("node(s) didn't match Pod's node affinity/selector", unresolvable=True),
    FilterReason("node(s) didn't match scheduler-enforced node affinity", unresolvable=True),
)
CONFLICT: Final = FilterReason("pod affinity terms conflict", unresolvable=True)
_POD, _ENFORCED = 1, 2


class NodeAffinity:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def __init__(
        self, added: NodeSelector | None = None, added_preferred: PreferredSchedulingTerms | None = None
    ) -> None:
        self._added = added
        self._added_preferred = added_preferred

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreFilterRejection | PreFilterResult | None:
        shape = pod.shape
        if not shape.has_node_rules and self._added is None:
            return SKIP
        if shape.pinned is None:
            return None
        return PreFilterResult(shape.pinned) if shape.pinned else PreFilterRejection(CONFLICT)

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        labels, size = matrix.labels, matrix.size
        bits = np.where(labels.required(shape.required, rows, size), 0, _POD).astype(np.int64)
        if self._added is not None:
            bits[~labels.any_term(self._added, rows, size)] = _ENFORCED
        return bits

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | None:
        return SKIP if pod.shape.preferred is None and self._added_preferred is None else None

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        total: Ints = np.zeros(matrix.size if rows is None else len(rows), np.int64)
        for preferred in (shape.preferred, self._added_preferred):
            for weight, term in preferred.terms if preferred is not None else ():
                total += weight * matrix.labels.term(term, rows, matrix.size)
        return total

    def scale(self, feasible: Ints, /) -> Hashable:
        return largest(feasible)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        return by_largest(raw, scale)

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return cluster_events.on(
            cluster_events.NODE, cluster_events.ADD, cluster_events.NODE_LABEL, guard=NodeNowMatches(shape, self._added)
        )


class NodeNowMatches(msgspec.Struct, frozen=True):
    shape: PodShape
    added: NodeSelector | None

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = old_node(event), new_node(event)
        if new is None or not self._matches(new):
            return False
        return old is None or not self.shape.required.matches(old.labels, old.name)

    def _matches(self, node: NodeInfo) -> bool:
        if self.added is not None and not self.added.matches(node.labels, node.name):
            return False
        return self.shape.required.matches(node.labels, node.name)
