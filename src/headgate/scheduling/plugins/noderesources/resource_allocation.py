"""Scores by the utilization of nodes with the pod on them: the arithmetic that the resource plugins share.

A :class:`ResourceScorer` has the scored resources for one shape, each with its weight, its column in the node matrix
and the amount that the shape requests. It computes two arrays, the capacity and the use, with one row per resource and
one column per node; a strategy turns them into one score per node. Divisions are integer divisions that round down, as
in Kubernetes. A resource that a node does not have is left out for that node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.kube.resource_amounts import CPU, MEMORY, is_scalar
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.resource_columns import Indices, Ints, Rows, pick
from headgate.scheduling.framework.normalize_score import MAX_SCORE

Weights = Sequence[tuple[str, int]]
"""Resources, each with its weight."""
Strategy = Callable[[Ints, Ints, Ints], Ints]
"""The score from capacity, use and weights, each with one row per resource."""

DEFAULT_RESOURCES: Final[Weights] = ((CPU, 1), (MEMORY, 1))
_NON_ZERO_INDEX: Final = {CPU: 0, MEMORY: 1}


class ResourceScorer(msgspec.Struct, frozen=True, eq=False):
    columns: Indices
    amounts: Ints
    weights: Ints
    default_positions: Indices
    """The positions, in ``columns``, of resources whose use counts defaults for containers without requests."""
    non_zero_indices: Indices
    """For each of these positions the index of its resource in ``ResourceColumns.non_zero_requested``."""

    def capacity_and_use(self, matrix: NodeMatrix, rows: Rows | None) -> tuple[Ints, Ints]:
        """Capacity, and the use including the incoming pod."""
        columns, size = matrix.columns, matrix.size
        capacity = pick(columns.allocatable, self.columns, rows, size)
        if len(self.non_zero_indices) == len(self.columns):
            use = pick(columns.non_zero_requested, self.non_zero_indices, rows, size)
        else:
            use = capacity - pick(columns.free, self.columns, rows, size)
            if len(self.non_zero_indices):
                use[self.default_positions] = pick(columns.non_zero_requested, self.non_zero_indices, rows, size)
        use += self.amounts
        return capacity, use


def scorer_for(
    matrix: NodeMatrix, resources: Weights, amounts: Mapping[str, int], *, with_defaults: bool
) -> ResourceScorer:
    """Scalar resources that the pod does not request are left out. ``with_defaults``: CPU and memory in use include
    defaults for containers without requests (kube-scheduler's ``NonZeroRequested``)."""
    scored = [(name, weight) for name, weight in resources if amounts.get(name) or not is_scalar(name)]
    names = [name for name, _ in scored]
    positions = [i for i, name in enumerate(names) if with_defaults and name in _NON_ZERO_INDEX]
    return ResourceScorer(
        matrix.columns.indices(names),
        np.array([amounts.get(name, 0) for name in names], np.int64).reshape(-1, 1),
        np.array([weight for _, weight in scored], np.int64).reshape(-1, 1),
        np.array(positions, np.intp),
        np.array([_NON_ZERO_INDEX[names[i]] for i in positions], np.intp),
    )


def least_allocated(capacity: Ints, use: Ints, weights: Ints) -> Ints:
    left = capacity - use
    np.maximum(left, 0, out=left)
    return _weighted_mean(left, capacity, weights)


def most_allocated(capacity: Ints, use: Ints, weights: Ints) -> Ints:
    return _weighted_mean(np.minimum(use, capacity), capacity, weights)


def _weighted_mean(part: Ints, capacity: Ints, weights: Ints) -> Ints:
    """The weighted mean, over the resources that the node has, of the parts as percentages of capacity."""
    part *= MAX_SCORE
    total: Ints
    if np.count_nonzero(capacity) == capacity.size:
        part //= capacity
        total = weights[:, 0] @ part
        total //= max(int(weights.sum()), 1)
        return total
    part //= np.maximum(capacity, 1)
    counted = np.where(capacity > 0, weights, 0)
    total = (part * counted).sum(axis=0) // np.maximum(counted.sum(axis=0), 1)
    return total


def requested_to_capacity_ratio(points: Sequence[tuple[int, int]]) -> Strategy:
    """Scores by linear interpolation between points of (utilization in percent, score from 0 to 10), sorted by
    utilization."""
    score_by_percent: Ints = np.array([_interpolate(points, each) for each in range(MAX_SCORE + 1)], np.int64)

    def strategy(capacity: Ints, use: Ints, weights: Ints) -> Ints:
        percent = np.minimum(use, capacity) * MAX_SCORE // np.maximum(capacity, 1)
        scores = score_by_percent[percent]
        # A resource with score 0 is left out of the mean.
        counted = np.where((capacity > 0) & (scores > 0), weights, 0)
        sums = np.maximum(counted.sum(axis=0), 1)
        rounded: Ints = np.floor((scores * counted).sum(axis=0) / sums + 0.5).astype(np.int64)
        return rounded

    return strategy


def _interpolate(points: Sequence[tuple[int, int]], percent: int) -> int:
    before: tuple[int, int] | None = None
    for utilization, score in points:
        high = score * MAX_SCORE // 10
        if percent <= utilization:
            if before is None:
                return high
            rise, run = (high - before[1]) * (percent - before[0]), utilization - before[0]
            return before[1] + (rise // run if rise >= 0 else -(-rise // run))
        before = utilization, high
    return 0 if before is None else before[1]


def balanced(capacity: Ints, use: Ints) -> Ints:
    """100 minus the standard deviation of the resources' utilization in percent."""
    if len(capacity) == 2 and np.count_nonzero(capacity) == capacity.size:
        utilizations = use / capacity
        np.minimum(utilizations, 1.0, out=utilizations)
        deviation = np.abs((utilizations[0] - utilizations[1]) / 2)
    else:
        deviation = _deviation(capacity, use)
    scores: Ints = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return scores


def _deviation(capacity: Ints, use: Ints) -> NDArray[np.float64]:
    known = capacity > 0
    utilizations = np.where(known, np.minimum(use / np.maximum(capacity, 1), 1.0), 0.0)
    number = known.sum(axis=0)
    mean = utilizations.sum(axis=0) / np.maximum(number, 1)
    squares = np.where(known, (utilizations - mean) ** 2, 0.0)
    root = np.sqrt(squares.sum(axis=0) / np.maximum(number, 1))
    # For two resources the deviation is half the difference; for one it is 0.
    spread = np.where(known, utilizations, -1.0).max(axis=0) - np.where(known, utilizations, 2.0).min(axis=0)
    found: NDArray[np.float64] = np.where(number > 2, root, np.where(number == 2, spread / 2, 0.0))
    return found
