"""NodeResourcesFit: a node must have what the pod asks for left, and room for one more pod; and its score by fullness.

Each resource has two reasons with the same text: taking pods away may help, or the node is too small for good. The
score follows one of the strategies of ``plugins/allocation.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.kube.amounts import PODS
from headgate.kube.pods.resources import is_native
from headgate.scheduling import events
from headgate.scheduling.columns import Indices, Ints, Rows, pick
from headgate.scheduling.contract import READS_PODS, Reads, Reason, State
from headgate.scheduling.guards import freed_pod, new_node, old_node
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.plugins.allocation import (
    DEFAULT_RESOURCES,
    Scale,
    Strategy,
    Weights,
    least_allocated,
    scale_for,
)
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NAME: Final = "NodeResourcesFit"
TOO_MANY: Final = "Too many pods"


class Asked(msgspec.Struct, frozen=True, eq=False):
    """The columns to look at, the number of pods first; and per line the bit of either reason."""

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

    def _asked(self, shape: Shape) -> Mapping[str, int]:
        if not self._ignored and not self._ignored_groups:
            return shape.requests
        return {name: amount for name, amount in shape.requests.items() if not self._is_ignored(name)}

    def _is_ignored(self, name: str) -> bool:
        """Only extended resources can be: others belong to the node, whoever else looks after them."""
        return not is_native(name) and (name in self._ignored or name.partition("/")[0] in self._ignored_groups)

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Asked:
        asked = self._asked(pod.shape)
        lines = np.arange(len(asked) + 1, dtype=np.int64).reshape(-1, 1)
        return Asked(
            matrix.columns.indices((PODS, *asked)),
            np.array([1, *asked.values()], np.int64).reshape(-1, 1),
            1 << (2 * lines),
            1 << (2 * lines + 1),
        )

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: Asked, /) -> Ints | None:
        columns, size = matrix.columns, matrix.size
        lacking = pick(columns.free, state.columns, rows, size) < state.amounts
        if not np.count_nonzero(lacking):
            return None
        too_small = pick(columns.allocatable, state.columns, rows, size) < state.amounts
        too_small[0] = False  # a node that takes no pods at all is full, not small
        bits: Ints = (lacking * np.where(too_small, state.too_small_bits, state.bits)).sum(axis=0)
        return bits

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        texts = (TOO_MANY, *(f"Insufficient {name}" for name in self._asked(shape)))
        return tuple(Reason(text, unresolvable) for text in texts for unresolvable in (False, True))

    def pre_score(self, pod: Pod, matrix: NodeMatrix, /) -> Scale:
        return scale_for(matrix, self._resources, pod.shape.scored, with_held=True)

    def score(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: State, /) -> Ints:
        scale: Scale = state or scale_for(matrix, self._resources, shape.scored, with_held=True)
        return self._strategy(*scale.look(matrix, rows), scale.weights)

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return (
            *events.on(events.POD, events.DELETE, guard=FreesRoom()),
            *events.on(events.POD, events.POD_SCALE_DOWN, guard=GivesBack(shape)),
            *events.on(events.NODE, events.ADD, events.NODE_ALLOCATABLE, guard=HasRoom(shape)),
        )


class FreesRoom(msgspec.Struct, frozen=True):
    """Any pod that leaves a node: at least it counts as one."""

    def matches(self, event: events.Event, /) -> bool:
        return freed_pod(event) is not None


class GivesBack(msgspec.Struct, frozen=True):
    """A pod on a node now asks for less of what this shape needs; or the waiting pod itself asks for less."""

    shape: Shape

    def matches(self, event: events.Event, /) -> bool:
        if event.target is not None:
            return True
        old, new = event.old, event.new
        if not isinstance(old, Pod) or not isinstance(new, Pod) or not new.node_name:
            return False
        return any(new.shape.requests.get(name, 0) < old.shape.requests.get(name, 0) for name in self.shape.requests)


class HasRoom(msgspec.Struct, frozen=True):
    """An empty node of this size would do, and it is new or has more than before of something that matters."""

    shape: Shape

    def matches(self, event: events.Event, /) -> bool:
        old, new = old_node(event), new_node(event)
        if new is None:
            return False
        asked = {PODS: 1, **self.shape.requests}
        if any(new.allocatable.get(name, 0) < amount for name, amount in asked.items()):
            return False
        return old is None or any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in asked)
