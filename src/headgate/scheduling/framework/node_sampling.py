"""How many nodes are evaluated before one is chosen: ``percentageOfNodesToScore``.

With 100 the best of all nodes is chosen. With less, nodes are evaluated in the order of their names, starting where the
last search ended, until enough are feasible; the best of those is chosen. 0 means a share that falls with the size of
the cluster, from 50 to 5 per cent. Small clusters are always evaluated as a whole.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headgate.scheduling.cache.label_columns import Mask
from headgate.scheduling.cache.resource_columns import Rows

ALL: Final = 100
_FEW: Final = 100
_LEAST_PERCENT: Final = 5
_NEAR: Final = 4  # times as many nodes as are wanted usually hold enough that will do


def nodes_to_find(nodes: int, percentage: int) -> int:
    if nodes < _FEW:
        return nodes
    percent = percentage or max(50 - nodes // 125, _LEAST_PERCENT)
    return min(max(nodes * percent // 100, _FEW), nodes)


def sample(feasible: Mask, by_name: Rows, start: int, wanted: int) -> tuple[Rows, int]:
    """The rows of the first ``wanted`` feasible nodes from place ``start`` on, and where the next search starts."""
    nodes = len(by_name)
    near = by_name[start : start + _NEAR * wanted]
    found = np.flatnonzero(feasible[near])
    if len(found) >= wanted and len(near) < nodes:
        return near[found[:wanted]], (start + int(found[wanted - 1]) + 1) % nodes
    places = np.flatnonzero(feasible[by_name])
    if len(places) <= wanted:
        # All nodes were looked at, so the next search starts where this one did.
        return by_name[places], start
    first = int(np.searchsorted(places, start))
    chosen = places.take(np.arange(first, first + wanted), mode="wrap")
    return by_name[chosen], (int(chosen[-1]) + 1) % nodes
