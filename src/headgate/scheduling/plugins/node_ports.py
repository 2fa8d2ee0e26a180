"""NodePorts: two pods cannot have the same port of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.scheduling import events
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_PODS, SKIP, Reads, Reason, Skip, State
from headgate.scheduling.guards import freed_pod
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.parts import HostPort
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "NodePorts"
REASONS: Final = (Reason("node(s) didn't have free ports for the requested pod ports"),)


class NodePorts:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | None:
        return None if pod.shape.ports else SKIP

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        ports = matrix.ports
        if rows is None:
            bits: Ints = np.zeros(matrix.size, np.int64)
            for port in shape.ports:
                bits[list(ports.taken(port))] = 1
            return bits
        taken = (any(ports.is_taken(port, row) for port in shape.ports) for row in rows.tolist())
        return np.fromiter(taken, np.int64, count=len(rows))

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return (
            *events.on(events.POD, events.DELETE, guard=FreesPort(shape.ports)),
            *events.on(events.NODE, events.ADD),
        )


class FreesPort(msgspec.Struct, frozen=True):
    ports: tuple[HostPort, ...]

    def matches(self, event: events.Event, /) -> bool:
        gone = freed_pod(event)
        if gone is None:
            return False
        addresses: dict[tuple[str, int], set[str]] = {}
        for used in gone.shape.ports:
            addresses.setdefault((used.protocol, used.port), set()).add(used.address)
        return any(wanted.clashes(addresses.get((wanted.protocol, wanted.port), ())) for wanted in self.ports)
