"""NodeName: a pod that names a node fits only that node."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.interface import READS_NODE, SKIP, FilterReason, Reads, Skip, State
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "NodeName"
REASONS: Final = (FilterReason("node(s) didn't match the requested node name", unresolvable=True),)


class NodeName:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def key(self, pod: PodInfo, /) -> Hashable:
        return pod.node_name or None

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | str:
        return pod.node_name or SKIP

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        if state is None:
            return None
        row_numbers = np.arange(matrix.size) if rows is None else rows
        node_row = matrix.row_of(state)
        bits: Ints = (row_numbers != (-1 if node_row is None else node_row)).astype(np.int64)
        return bits

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return cluster_events.on(cluster_events.NODE, cluster_events.ADD)
