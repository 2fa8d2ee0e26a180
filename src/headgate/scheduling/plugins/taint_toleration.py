"""TaintToleration: nodes with a taint that the pod does not tolerate are out; mild taints are avoided.

Nodes share few sets of taints, so each set is looked at once and the answer is read per node by its number. A node
scores by the number of ``PreferNoSchedule`` taints that speak against it, the fewer the better.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from headgate.kube import taints
from headgate.scheduling import events
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_NODE, Reads, Reason, State
from headgate.scheduling.guards import new_node, old_node, own_pod
from headgate.scheduling.node import Taints
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.normalizing import by_largest, largest
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "TaintToleration"
REASONS: Final = (Reason("node(s) had untolerated taint(s)", unresolvable=True),)


class TaintToleration:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints | None:
        bits = repelled(shape, matrix, rows)
        return bits if bits.any() else None

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        return _per_row(matrix, rows, lambda each: taints.count_untolerated_preferences(each, shape.tolerations))

    def scale(self, feasible: Ints, /) -> Hashable:
        return largest(feasible)

    def normalize(self, raw: Ints, scale: Any, /) -> Ints:
        return by_largest(raw, scale, reverse=True)

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return (
            *events.on(events.NODE, events.ADD, events.NODE_TAINT, guard=Admits(shape)),
            *events.on(events.POD, events.POD_TOLERATION, guard=Itself()),
        )


def repelled(shape: Shape, matrix: NodeMatrix, rows: Rows | None) -> Ints:
    """One for each row with a taint that keeps pods of this shape away, else zero."""
    return _per_row(matrix, rows, lambda each: _repels(each, shape))


def _repels(listed: Taints, shape: Shape) -> bool:
    return taints.first_untolerated(listed, shape.tolerations) is not None


def _per_row(matrix: NodeMatrix, rows: Rows | None, answer: Callable[[Taints], int]) -> Ints:
    numbers = matrix.taint_set[: matrix.size] if rows is None else matrix.taint_set[rows]
    if rows is None:
        table = np.fromiter(map(answer, matrix.taint_sets), np.int64, count=len(matrix.taint_sets))
        return table[numbers]
    return np.fromiter((answer(matrix.taint_sets[each]) for each in numbers), np.int64, count=len(numbers))


class Admits(msgspec.Struct, frozen=True):
    """A node that the pod was kept from, or had not seen, would now take it."""

    shape: Shape

    def matches(self, event: events.Event, /) -> bool:
        old, new = old_node(event), new_node(event)
        if new is None or _repels(new.taints, self.shape):
            return False
        return old is None or _repels(old.taints, self.shape)


class Itself(msgspec.Struct, frozen=True):
    def matches(self, event: events.Event, /) -> bool:
        return own_pod(event) is not None
