"""NodeAffinity: the nodes a pod must run on by selector and required affinity, and those it would like.

A pod whose required terms all name nodes is only ever asked about those nodes. ``added`` is affinity that the
scheduler's configuration imposes on every pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from headgate.kube.affinity import NodeSelector, PreferredNodes
from headgate.scheduling import events
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_NODE, SKIP, Only, Reads, Reason, Refusal, Skip, State
from headgate.scheduling.guards import new_node, old_node
from headgate.scheduling.node import Node
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.normalizing import by_largest, largest
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "NodeAffinity"
REASONS: Final = (
    Reason("node(s) didn't match Pod's node affinity/selector", unresolvable=True),
    Reason("node(s) didn't match scheduler-enforced node affinity", unresolvable=True),
)
CONFLICT: Final = Reason("pod affinity terms conflict", unresolvable=True)
_POD, _ENFORCED = 1, 2


class NodeAffinity:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def __init__(self, added: NodeSelector | None = None, added_wishes: PreferredNodes | None = None) -> None:
        self._added = added
        self._added_wishes = added_wishes

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | Refusal | Only | None:
        shape = pod.shape
        if not shape.has_node_rules and self._added is None:
            return SKIP
        if shape.pinned is None:
            return None
        return Only(shape.pinned) if shape.pinned else Refusal(CONFLICT)

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        labels, size = matrix.labels, matrix.size
        bits = np.where(labels.required(shape.required, rows, size), 0, _POD).astype(np.int64)
        if self._added is not None:
            bits[~labels.any_term(self._added, rows, size)] = _ENFORCED
        return bits

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    def pre_score(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | None:
        return SKIP if pod.shape.preferred is None and self._added_wishes is None else None

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        total: Ints = np.zeros(matrix.size if rows is None else len(rows), np.int64)
        for wishes in (shape.preferred, self._added_wishes):
            for weight, term in wishes.terms if wishes is not None else ():
                total += weight * matrix.labels.term(term, rows, matrix.size)
        return total

    def scale(self, feasible: Ints, /) -> Hashable:
        return largest(feasible)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        return by_largest(raw, scale)

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return events.on(events.NODE, events.ADD, events.NODE_LABEL, guard=NowMatches(shape, self._added))


class NowMatches(msgspec.Struct, frozen=True):
    shape: Shape
    added: NodeSelector | None

    def matches(self, event: events.Event, /) -> bool:
        old, new = old_node(event), new_node(event)
        if new is None or not self._suits(new):
            return False
        return old is None or not self.shape.required.matches(old.labels, old.name)

    def _suits(self, node: Node) -> bool:
        if self.added is not None and not self.added.matches(node.labels, node.name):
            return False
        return self.shape.required.matches(node.labels, node.name)
