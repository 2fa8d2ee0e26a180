"""NodeResourcesFit: a node must have the requested resources free and a free pod slot; scores nodes by utilization.

Each resource has two reasons with the same text: too little is free, so preemption may help, or the node is too small.
The score uses one of the strategies of ``scheduling/plugins/noderesources/resource_allocation.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.kube.pod_resources import is_native
from headgate.kube.resource_amounts import PODS
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Indices, Ints, Rows, pick
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import freed_pod, new_node, old_node
from headgate.scheduling.framework.interface import READS_PODS, FilterReason, Reads, State
from headgate.scheduling.plugins.noderesources.resource_allocation import (
    DEFAULT_RESOURCES,
    ResourceScorer,
    Strategy,
    Weights,
    least_allocated,
    scorer_for,
)
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "NodeResourcesFit"
TOO_MANY: Final = "Too many pods"


class FitState(msgspec.Struct, frozen=True, eq=False):
    """The columns to check, the number of pods first, and per column the bits of its two reasons."""

    columns: Indices
    amounts: Ints
    bits: Ints
    too_small_bits: Ints


class NodeResourcesFit:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(
        self,
        strategy: Strategy = least_allocated,
        resources: Weights = DEFAULT_RESOURCES,
        ignored_resources: frozenset[str] = frozenset(),
        ignored_resource_groups: frozenset[str] = frozenset(),
    ) -> None:
        self._strategy = strategy
        self._resources = tuple(resources)
        self._ignored = ignored_resources
        self._ignored_groups = ignored_resource_groups

    def _requests(self, shape: PodShape) -> Mapping[str, int]:
        if not self._ignored and not self._ignored_groups:
            return shape.requests
        return {name: amount for name, amount in shape.requests.items() if not self._is_ignored(name)}

    def _is_ignored(self, name: str) -> bool:
        """Whether the arguments ignore the resource; only extended resources can be ignored."""
        return not is_native(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> FitState:
        requests = self._requests(pod.shape)
        positions = np.arange(len(requests) + 1, dtype=np.int64).reshape(-1, 1)
        return FitState(
            matrix.columns.indices((PODS, *requests)),
            np.array([1, *requests.values()], np.int64).reshape(-1, 1),
            1 << (2 * positions),
            1 << (2 * positions + 1),
        )

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: FitState, /) -> Ints | None:
        columns, size = matrix.columns, matrix.size
        lacking = pick(columns.free, state.columns, rows, size) < state.amounts
        if not np.count_nonzero(lacking):
            return None
        too_small = pick(columns.allocatable, state.columns, rows, size) < state.amounts
        too_small[0] = False  # a node without pod slots counts as full, not as too small
        bits: Ints = (lacking * np.where(too_small, state.too_small_bits, state.bits)).sum(axis=0)
        return bits

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        texts = (TOO_MANY, *(f"Insufficient {name}" for name in self._requests(shape)))
        return tuple(FilterReason(text, unresolvable) for text in texts for unresolvable in (False, True))

    def pre_score(self, pod: PodInfo, matrix: NodeMatrix, /) -> ResourceScorer:
        return scorer_for(matrix, self._resources, pod.shape.scored, with_defaults=True)

    def score(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        scorer: ResourceScorer = state or scorer_for(matrix, self._resources, shape.scored, with_defaults=True)
        return self._strategy(*scorer.capacity_and_use(matrix, rows), scorer.weights)

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return (
            *cluster_events.on(cluster_events.POD, cluster_events.DELETE, guard=PodFreesResources()),
            *cluster_events.on(cluster_events.POD, cluster_events.POD_SCALE_DOWN, guard=PodScalesDown(shape)),
            *cluster_events.on(
                cluster_events.NODE, cluster_events.ADD, cluster_events.NODE_ALLOCATABLE, guard=NodeFitsPod(shape)
            ),
        )


class PodFreesResources(msgspec.Struct, frozen=True):
    """Any pod that leaves a node: it frees at least one pod slot."""

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        return freed_pod(event) is not None


class PodScalesDown(msgspec.Struct, frozen=True):
    """A pod on a node requests less of what this shape needs, or the waiting pod itself requests less."""

    shape: PodShape

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        if event.target is not None:
            return True
        old, new = event.old, event.new
        if not isinstance(old, PodInfo) or not isinstance(new, PodInfo) or not new.node_name:
            return False
        return any(new.shape.requests.get(name, 0) < old.shape.requests.get(name, 0) for name in self.shape.requests)


class NodeFitsPod(msgspec.Struct, frozen=True):
    """The pod fits the node when it is empty, and the node is new or has more of a relevant resource than before."""

    shape: PodShape

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = old_node(event), new_node(event)
        if new is None:
            return False
        requests = {PODS: 1, **self.shape.requests}
        if any(new.allocatable.get(name, 0) < amount for name, amount in requests.items()):
            return False
        return old is None or any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in requests)
