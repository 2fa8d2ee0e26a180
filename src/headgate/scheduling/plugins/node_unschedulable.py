"""NodeUnschedulable: a cordoned node takes no pods, except those that tolerate the taint of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.kube import taints
from headgate.scheduling import events
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_NODE, SKIP, Reads, Reason, Skip, State
from headgate.scheduling.guards import new_node, old_node, own_pod
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "NodeUnschedulable"
REASONS: Final = (Reason("node(s) were unschedulable", unresolvable=True),)
_CORDON: Final = {"key": taints.UNSCHEDULABLE, "effect": taints.NO_SCHEDULE}


def _tolerates(shape: Shape) -> bool:
    return taints.is_tolerated(_CORDON, shape.tolerations)


class NodeUnschedulable:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | None:
        return SKIP if _tolerates(pod.shape) else None

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        cordoned = matrix.unschedulable[: matrix.size] if rows is None else matrix.unschedulable[rows]
        return cordoned.astype(np.int64) if cordoned.any() else None

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return (
            *events.on(events.NODE, events.ADD, events.NODE_TAINT, guard=Uncordoned()),
            *events.on(events.POD, events.POD_TOLERATION, guard=NowTolerates()),
        )


class Uncordoned(msgspec.Struct, frozen=True):
    def matches(self, event: events.Event, /) -> bool:
        old, new = old_node(event), new_node(event)
        return new is not None and not new.unschedulable and (old is None or old.unschedulable)


class NowTolerates(msgspec.Struct, frozen=True):
    def matches(self, event: events.Event, /) -> bool:
        pod = own_pod(event)
        return pod is not None and _tolerates(pod.shape)
