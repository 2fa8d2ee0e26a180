"""Reads the node matrix for ``filter`` and ``score``: one value per row that the plugin is called for.

``rows`` is what the scheduler passes: an array of row numbers, or ``None`` for all rows in use. All returned arrays are
copies, so a plugin may compute in place. A row may have no node (``nodes_at`` has ``None`` there): the result of a
plugin for such a row is ignored.
"""

from __future__ import annotations

import numpy as np

from headgate.scheduling.cache.node import NodeInfo
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.resource_columns import Ints, Rows, pick


def asked_rows(matrix: NodeMatrix, rows: Rows | None) -> Rows:
    """The row numbers, as an array."""
    return np.arange(matrix.size, dtype=np.intp) if rows is None else rows.copy()


def nodes_at(matrix: NodeMatrix, rows: Rows | None) -> list[NodeInfo | None]:
    return [matrix.node(row) for row in asked_rows(matrix, rows).tolist()]


def label_values(matrix: NodeMatrix, key: str, rows: Rows | None) -> list[str | None]:
    """The value of one label per row; ``None`` where the node does not have it."""
    return [None if node is None else node.labels.get(key) for node in nodes_at(matrix, rows)]


def allocatable(matrix: NodeMatrix, resource: str, rows: Rows | None) -> Ints:
    """How much the nodes have of a resource: CPU in thousandths, memory in bytes, all others in units."""
    return _amounts(matrix, matrix.columns.allocatable, resource, rows)


def free(matrix: NodeMatrix, resource: str, rows: Rows | None) -> Ints:
    """``allocatable`` minus the requests of the pods on the node, including assumed pods. It may be negative."""
    return _amounts(matrix, matrix.columns.free, resource, rows)


def _amounts(matrix: NodeMatrix, table: Ints, resource: str, rows: Rows | None) -> Ints:
    if not matrix.columns.has(resource):
        return np.zeros(matrix.size if rows is None else len(rows), np.int64)
    found: Ints = pick(table, matrix.columns.indices([resource]), rows, matrix.size)[0]
    return found.copy()
