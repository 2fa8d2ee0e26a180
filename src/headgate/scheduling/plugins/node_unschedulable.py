"""NodeUnschedulable: rejects cordoned nodes, except for pods that tolerate the taint of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.kube import taints
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import new_node, old_node, own_pod
from headgate.scheduling.framework.interface import READS_NODE, SKIP, FilterReason, Reads, Skip, State
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "NodeUnschedulable"
REASONS: Final = (FilterReason("node(s) were unschedulable", unresolvable=True),)
_CORDON: Final = {"key": taints.UNSCHEDULABLE, "effect": taints.NO_SCHEDULE}


def _tolerates(shape: PodShape) -> bool:
    return taints.is_tolerated(_CORDON, shape.tolerations)


class NodeUnschedulable:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | None:
        return SKIP if _tolerates(pod.shape) else None

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        cordoned = matrix.unschedulable[: matrix.size] if rows is None else matrix.unschedulable[rows]
        return cordoned.astype(np.int64) if cordoned.any() else None

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return (
            *cluster_events.on(
                cluster_events.NODE, cluster_events.ADD, cluster_events.NODE_TAINT, guard=NodeUncordoned()
            ),
            *cluster_events.on(cluster_events.POD, cluster_events.POD_TOLERATION, guard=PodToleratesCordon()),
        )


class NodeUncordoned(msgspec.Struct, frozen=True):
    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        old, new = old_node(event), new_node(event)
        return new is not None and not new.unschedulable and (old is None or old.unschedulable)


class PodToleratesCordon(msgspec.Struct, frozen=True):
    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        pod = own_pod(event)
        return pod is not None and _tolerates(pod.shape)
