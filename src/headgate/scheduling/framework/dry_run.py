"""A dry run: whether a pod fits one node while other pods are added to it or removed from it.

The dry run changes the node matrix and the states of plugins (what their ``pre_filter`` returned for the pod's shape)
in place, so that plugins need no special case, and restores both at the end. Filters that depend on the node object
alone run once. The pod must fit both with the pods nominated to the node and without them, because nominated pods may
be bound to other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.cache.change_log import NodeChange
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cycle_state import (
    PASSES,
    CycleState,
    FilterStep,
    PreFilterFailure,
    filter_rows,
    reasons_of,
)
from headgate.scheduling.framework.fit_error import reasons_in
from headgate.scheduling.framework.interface import FilterReason

Rejected = tuple[int, int]
"""The order of the filter that rejects the node, and the bits of its reasons."""

_PASSED: Final = (PASSES, 0)


class NodeDryRun:
    """``on_failure`` is called when the dry run fails: the plugins' states for this shape may then be wrong."""

    def __init__(
        self,
        cycle_state: CycleState | PreFilterFailure,
        matrix: NodeMatrix,
        row: int,
        nominated_pods: Sequence[PodInfo] = (),
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._cycle_state = cycle_state
        self._states = () if isinstance(cycle_state, PreFilterFailure) else cycle_state.filter_states
        self._matrix = matrix
        self._row = row
        self._rows = np.array([row], np.intp)
        self._nominated_pods = nominated_pods
        self._on_failure = on_failure
        self._changes: list[NodeChange] = []
        self._node_result: Rejected | None = None

    def __enter__(self) -> NodeDryRun:
        return self

    def __exit__(self, *raised: object) -> None:
        if any(each is not None for each in raised):
            self._on_failure()
        self._undo(0)

    def put(self, pod: PodInfo, /) -> None:
        self._apply(NodeChange(self._row, pod, 1))

    def take(self, pod: PodInfo, /) -> None:
        self._apply(NodeChange(self._row, pod, -1))

    def reasons(self) -> tuple[FilterReason, ...]:
        cycle_state = self._cycle_state
        if isinstance(cycle_state, PreFilterFailure):
            return (cycle_state.reason,)
        found = self._rejected_beside(cycle_state, self._nominated_pods) if self._nominated_pods else None
        found = found or self._rejected(cycle_state)
        if found is None:
            return ()
        step = next(each for each in cycle_state.filters if each.order == found[0])
        return tuple(reasons_in(reasons_of(step.plugin, cycle_state.shape), found[1]))

    def rejected_beside(self, others: Sequence[PodInfo]) -> Rejected | None:
        """The first filter that rejects the node if these pods ran there, too; ``None`` if all pass."""
        return (
            None
            if isinstance(self._cycle_state, PreFilterFailure)
            else self._rejected_beside(self._cycle_state, others)
        )

    def _rejected_beside(self, cycle_state: CycleState, others: Sequence[PodInfo]) -> Rejected | None:
        before = len(self._changes)
        for each in others:
            self.put(each)
        found = self._rejected(cycle_state)
        self._undo(before)
        return found

    def _rejected(self, cycle_state: CycleState) -> Rejected | None:
        if self._node_result is None:
            self._node_result = self._run(cycle_state, cycle_state.node_filters)
        found = min(self._node_result, self._run(cycle_state, cycle_state.pod_filters), key=lambda each: each[0])
        return None if found[0] == PASSES else found

    def _run(self, cycle_state: CycleState, steps: tuple[FilterStep, ...]) -> Rejected:
        found = filter_rows(steps, cycle_state.shape, self._matrix, self._rows)
        return _PASSED if found is None else (int(found[0][0]), int(found[1][0]))

    def _apply(self, change: NodeChange) -> None:
        self._count(change)
        self._changes.append(change)
        for state in self._states:
            state.follow(change)

    def _undo(self, length: int) -> None:
        """Revert the changes after the first ``length``. The matrix comes first: it must be correct even if the state
        of a plugin raises."""
        inverse = [NodeChange(each.row, each.pod, -each.sign) for each in reversed(self._changes[length:])]
        del self._changes[length:]
        for change in inverse:
            self._count(change)
        try:
            for change in inverse if self._states else ():
                for state in self._states:
                    state.follow(change)
        except BaseException:
            self._on_failure()
            raise

    def _count(self, change: NodeChange) -> None:
        if change.pod is not None:
            self._matrix.count_pod(change.row, change.pod, change.sign)
