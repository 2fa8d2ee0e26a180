"""The line of a ClusterQueue that protects its first workload: its pending workloads in order, parked or not.

``queue_manager.py`` keeps a line only for queues with this option (``DEQUEUE_STRATEGY`` in ``quota/names.py``).
Workloads of one shape are one entry, with the order of the first of them. A shape that the queue can never admit is not
in the line: it would hold back all others for ever. ``quota/cycle/line_protection.py`` finds these shapes.
"""

from __future__ import annotations

from collections.abc import Hashable

from headgate.waiting.heap import Heap

WorkloadOrder = tuple[int, float, str]
"""The order of a pending workload: priority, waiting time, uid."""


class Line:
    def __init__(self) -> None:
        self._shapes: Heap[Hashable] = Heap()
        self._impossible: dict[Hashable, WorkloadOrder] = {}

    def first(self) -> tuple[WorkloadOrder, Hashable] | None:
        return self._shapes.first()

    def put(self, shape: Hashable, order: WorkloadOrder) -> None:
        """Adds a shape, or changes the order of its first workload."""
        if shape in self._impossible:
            self._impossible[shape] = order
        elif self._shapes.key_of(shape) != order:
            self._shapes.put(shape, order)

    def discard(self, shape: Hashable) -> None:
        self._shapes.discard(shape)
        self._impossible.pop(shape, None)

    def leave_out(self, shape: Hashable) -> None:
        """Workloads of this shape can never be admitted, with the quotas as they are."""
        order = self._shapes.key_of(shape)
        if order is not None:
            self._shapes.discard(shape)
            self._impossible[shape] = order

    def reset(self) -> None:
        """Quotas or flavors changed: all shapes are in the line again."""
        for shape, order in self._impossible.items():
            self._shapes.put(shape, order)
        self._impossible.clear()
