"""NodePorts: two pods on one node cannot use the same host port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_fields import HostPort
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import freed_pod
from headgate.scheduling.framework.interface import READS_PODS, SKIP, FilterReason, Reads, Skip, State
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "NodePorts"
REASONS: Final = (FilterReason("node(s) didn't have free ports for the requested pod ports"),)


class NodePorts:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | None:
        return None if pod.shape.ports else SKIP

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        ports = matrix.ports
        if rows is None:
            bits: Ints = np.zeros(matrix.size, np.int64)
            for port in shape.ports:
                bits[list(ports.conflicting_rows(port))] = 1
            return bits
        in_use = (any(ports.is_in_use(port, row) for port in shape.ports) for row in rows.tolist())
        return np.fromiter(in_use, np.int64, count=len(rows))

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return (
            *cluster_events.on(cluster_events.POD, cluster_events.DELETE, guard=PodFreesPort(shape.ports)),
            *cluster_events.on(cluster_events.NODE, cluster_events.ADD),
        )


class PodFreesPort(msgspec.Struct, frozen=True):
    ports: tuple[HostPort, ...]

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        deleted = freed_pod(event)
        if deleted is None:
            return False
        addresses: dict[tuple[str, int], set[str]] = {}
        for used in deleted.shape.ports:
            addresses.setdefault((used.protocol, used.port), set()).add(used.address)
        return any(wanted.conflicts_with(addresses.get((wanted.protocol, wanted.port), ())) for wanted in self.ports)
