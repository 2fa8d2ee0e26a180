"""TaintToleration: rejects nodes with taints that the pod does not tolerate; avoids ``PreferNoSchedule`` taints.

Nodes share few sets of taints, so each set is evaluated once and the result is read per node by the set's number. A
node scores by its number of untolerated ``PreferNoSchedule`` taints; fewer are better.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from headgate.kube import taints
from headgate.scheduling.cache.node import Taints
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import new_node, old_node, own_pod
from headgate.scheduling.framework.interface import READS_NODE, FilterReason, Reads, State
from headgate.scheduling.framework.normalize_score import by_largest, largest
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "TaintToleration"
REASONS: Final = (FilterReason("node(s) had untolerated taint(s)", unresolvable=True),)


class TaintToleration:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        bits = untolerated(shape, matrix, rows)
        return bits if bits.any() else None

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        return _per_row(matrix, rows, lambda each: taints.count_untolerated_preferences(each, shape.tolerations))

    def scale(self, feasible: Ints, /) -> Hashable:
        return largest(feasible)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        return by_largest(raw, scale, reverse=True)

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return (
            *cluster_events.on(
                cluster_events.NODE, cluster_events.ADD, cluster_events.NODE_TAINT, guard=NodeTaintsTolerated(shape)
            ),
            *cluster_events.on(cluster_events.POD, cluster_events.POD_TOLERATION, guard=PodItselfUpdated()),
        )


def untolerated(shape: PodShape, matrix: NodeMatrix, rows: Rows | None) -> Ints:
    """1 for each row with a taint that pods of this shape do not tolerate, otherwise 0."""
    return _per_row(matrix, rows, lambda each: _has_untolerated(each, shape))


def _has_untolerated(listed: Taints, shape: PodShape) -> bool:
    return taints.first_untolerated(listed, shape.tolerations) is not None


def _per_row(matrix: NodeMatrix, rows: Rows | None, evaluate: Callable[[Taints], int]) -> Ints:
    numbers = matrix.taint_set[: matrix.size] if rows is None else matrix.taint_set[rows]
    if rows is None:
        table = np.fromiter(map(evaluate, matrix.taint_sets), np.int64, count=len(matrix.taint_sets))
        return table[numbers]
    return np.fromiter((evaluate(matrix.taint_sets[each]) for each in numbers), np.int64, count=len(numbers))


class NodeTaintsTolerated(msgspec.Struct, frozen=True):
    """The pod now tolerates the taints of a node that is new or that rejected it before."""

    shape: PodShape

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = old_node(event), new_node(event)
        if new is None or _has_untolerated(new.taints, self.shape):
            return False
        return old is None or _has_untolerated(old.taints, self.shape)


class PodItselfUpdated(msgspec.Struct, frozen=True):
    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        return own_pod(event) is not None
