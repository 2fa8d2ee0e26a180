"""How many nodes are evaluated before one is chosen: ``percentageOfNodesToScore``.

With 100 the best of all nodes is chosen. With less, nodes are evaluated in the order of their names, starting where the
last search ended, until enough are feasible; the best of those is chosen. 0 means a percentage that falls with the size
of the cluster, from 50 to 5. Small clusters are always evaluated as a whole.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.resource_columns import Rows

ALL: Final = 100
_MIN_FEASIBLE_NODES: Final = 100
_MIN_PERCENT: Final = 5
_WINDOW_FACTOR: Final = 4  # a window of this many times ``limit`` nodes usually contains enough feasible ones


def nodes_to_find(nodes: int, percentage: int) -> int:
    if nodes < _MIN_FEASIBLE_NODES:
        return nodes
    percent = percentage or max(50 - nodes // 125, _MIN_PERCENT)
    return min(max(nodes * percent // 100, _MIN_FEASIBLE_NODES), nodes)


def sample(feasible: Mask, by_name: Rows, start: int, limit: int) -> tuple[Rows, int]:
    """The rows of the first ``limit`` feasible nodes from position ``start``, and the start of the next search."""
    nodes = len(by_name)
    window = by_name[start : start + _WINDOW_FACTOR * limit]
    found = np.flatnonzero(feasible[window])
    if len(found) >= limit and len(window) < nodes:
        return window[found[:limit]], (start + int(found[limit - 1]) + 1) % nodes
    positions = np.flatnonzero(feasible[by_name])
    if len(positions) <= limit:
        # All nodes were evaluated, so the next search starts where this one did.
        return by_name[positions], start
    first = int(np.searchsorted(positions, start))
    chosen = positions.take(np.arange(first, first + limit), mode="wrap")
    return by_name[chosen], (int(chosen[-1]) + 1) % nodes
