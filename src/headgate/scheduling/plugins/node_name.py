"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling import events
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_NODE, SKIP, Reads, Reason, Skip, State
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "NodeName"
REASONS: Final = (Reason("node(s) didn't match the requested node name", unresolvable=True),)


class NodeName:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def key(self, pod: Pod, /) -> Hashable:
        return pod.node_name or None

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | str:
        return pod.node_name or SKIP

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        if state is None:
            return None
        looked_at = np.arange(matrix.size) if rows is None else rows
        wanted = matrix.row_of(state)
        bits: Ints = (looked_at != (-1 if wanted is None else wanted)).astype(np.int64)
        return bits

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return events.on(events.NODE, events.ADD)
