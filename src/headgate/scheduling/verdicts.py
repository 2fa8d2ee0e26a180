"""Verdicts: per node the first filter that rejects it, and that filter's reasons, after some of the filters.

They lie in layers. The lowest is what depends on the node objects alone, which change seldom; above it lies what
depends on the pods of each node, and on top what depends on pods elsewhere, where one pod may concern many nodes. Each
layer holds the answer of its own filters and of those below, so a change has to be carried upwards only.
"""

from __future__ import annotations

import numpy as np

from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.labels import Mask
from headgate.scheduling.question import NO_NODE, PASSES, Orders


class Verdicts:
    def __init__(self, capacity: int) -> None:
        self.order: Orders = np.full(capacity, NO_NODE, np.int8)
        self.bits: Ints = np.zeros(capacity, np.int64)
        self._is_crowded = False  # whether this layer may reject any row; if it does not, none has to be freed

    def set(self, where: slice | Rows, found: tuple[Orders, Ints] | None, is_node: Mask) -> None:
        """The lowest layer; rows that are no node are rejected without a reason."""
        if found is None:
            self.order[where] = PASSES
        else:
            self.order[where], self.bits[where] = found
        if not is_node.all():
            self.order[where] = np.where(is_node, self.order[where], NO_NODE)

    def lay(self, below: Verdicts, rows: Rows | None, size: int, found: tuple[Orders, Ints] | None) -> None:
        """What this layer's filters say of some rows, on top of what those below do."""
        where = slice(0, size) if rows is None else rows
        self._is_crowded = found is not None or (self._is_crowded and rows is not None)
        order = below.order[where]
        if found is None:
            self.order[where], self.bits[where] = order, below.bits[where]
            return
        self.order[where] = np.minimum(order, found[0])
        self.bits[where] = np.where(order < found[0], below.bits[where], found[1])

    def would_stay(self, found: tuple[Orders, Ints] | None) -> bool:
        """Whether laying this, with nothing new below, changes nothing."""
        return found is None and not self._is_crowded
