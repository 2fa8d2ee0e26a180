"""Resource columns: one array over all nodes per resource, in exact 64-bit integers.

``allocatable`` is the node's capacity for pods, ``free`` is the part of it that no pod requests; the number of pods is
a resource like the others, and each pod takes one. ``non_zero_requested`` is the CPU and memory that scores count as
used: the requests, with a small default for containers without them (kube-scheduler's ``NonZeroRequested``).
``scheduling/cache/node_matrix.py`` decides which pods are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from headgate.kube.resource_amounts import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from headgate.scheduling.cache.pod_shape import PodShape

Ints = NDArray[np.int64]
Rows = NDArray[np.intp]
Indices = NDArray[np.intp]

PODS_COLUMN: Final = 0
_FIRST_RESOURCES: Final = (PODS, CPU, MEMORY, EPHEMERAL_STORAGE)
_NON_ZERO_RESOURCES: Final = 2  # CPU and memory


class RequestedAmounts(msgspec.Struct, frozen=True, eq=False):
    """What one pod of a shape uses: its columns (the number of pods first), the amounts there, and the
    ``non_zero_requested`` amounts."""

    columns: Indices
    amounts: Ints
    non_zero_requested: Ints


class ResourceColumns:
    """Grows in both directions by doubling; unused rows are zero.

    The amounts of one row are adjacent in memory, since most reads are of a few changed rows."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.allocatable: Ints = np.zeros((len(_FIRST_RESOURCES), capacity), np.int64, order="F")
        self.free: Ints = np.zeros((len(_FIRST_RESOURCES), capacity), np.int64, order="F")
        self.non_zero_requested: Ints = np.zeros((_NON_ZERO_RESOURCES, capacity), np.int64, order="F")
        self._column_of: dict[str, int] = {name: i for i, name in enumerate(_FIRST_RESOURCES)}
        self._requested: WeakKeyDictionary[PodShape, RequestedAmounts] = WeakKeyDictionary()

    def column(self, resource: str) -> int:
        """The column of a resource; a new resource gets a new column."""
        found = self._column_of.get(resource)
        if found is None:
            found = len(self._column_of)
            self._column_of[resource] = found
            if found >= len(self.free):
                self.allocatable = _grown(self.allocatable, 2 * found, self.capacity)
                self.free = _grown(self.free, 2 * found, self.capacity)
        return found

    def has(self, resource: str) -> bool:
        """Whether a node or a pod has named the resource."""
        return resource in self._column_of

    def indices(self, resources: Iterable[str]) -> Indices:
        return np.array([self.column(each) for each in resources], np.intp)

    def requested_by(self, shape: PodShape) -> RequestedAmounts:
        found = self._requested.get(shape)
        if found is None:
            found = RequestedAmounts(
                self.indices((PODS, *shape.requests)),
                np.array([1, *shape.requests.values()], np.int64),
                np.array([shape.held_milli_cpu, shape.held_memory], np.int64),
            )
            self._requested[shape] = found
        return found

    def update(self, row: int, shape: PodShape, sign: int) -> None:
        """A pod of this shape was added to a row (+1) or removed (-1)."""
        requested = self.requested_by(shape)
        if sign > 0:
            self.free[requested.columns, row] -= requested.amounts
            self.non_zero_requested[:, row] += requested.non_zero_requested
        else:
            self.free[requested.columns, row] += requested.amounts
            self.non_zero_requested[:, row] -= requested.non_zero_requested

    def set_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """Set the allocatable amounts of a row; its requested amounts stay."""
        columns = {self.column(name): amount for name, amount in amounts.items()}
        new = np.zeros(len(self.free), np.int64)
        new[list(columns)] = list(columns.values())
        self.free[:, row] += new - self.allocatable[:, row]
        self.allocatable[:, row] = new

    def clear(self, row: int) -> None:
        for table in (self.allocatable, self.free, self.non_zero_requested):
            table[:, row] = 0

    def grow(self, capacity: int) -> None:
        self.capacity = capacity
        self.allocatable = _grown(self.allocatable, len(self.allocatable), capacity)
        self.free = _grown(self.free, len(self.free), capacity)
        self.non_zero_requested = _grown(self.non_zero_requested, _NON_ZERO_RESOURCES, capacity)


def pick(table: Ints, columns: Indices, rows: Rows | None, size: int) -> Ints:
    """These columns at these rows (``None``: at the first ``size``), one line per column."""
    return table[columns, :size] if rows is None else table[columns[:, None], rows]


def _grown(table: Ints, length: int, capacity: int) -> Ints:
    new = np.zeros((length, capacity), np.int64, order="F")
    new[: len(table), : table.shape[1]] = table
    return new
